// Why a request is where it is, for each reason that there is.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

TEST(SchedulerExplainTest, UnknownRunningAndEndedAreTold) {
  SchedulerWorld world;
  EXPECT_EQ(world.state({99}), Explanation::State::kUnknown);
  EXPECT_THAT(world.why({99}), HasSubstr("99 is not known"));
  const RequestId id = world.Submit({.prompt = 20, .max_new = 2});
  world.now_us = 7;
  world.Step();
  EXPECT_EQ(world.scheduler().head_of_queue().id.value, 0u);
  EXPECT_EQ(world.state(id), Explanation::State::kRunning);
  EXPECT_EQ(world.scheduler().Explain(id).since_us, 7);
  EXPECT_THAT(world.why(id), HasSubstr("row 0 with 20 of 21 tokens"));
  world.Step();
  EXPECT_EQ(world.state(id), Explanation::State::kEnded);
}

TEST(SchedulerExplainTest, BeforeTheFirstPlanNothingWasTried) {
  SchedulerWorld world;
  world.now_us = 3;
  const RequestId first = world.Submit({});
  const RequestId second = world.Submit({});
  for (const RequestId id : {first, second}) {
    EXPECT_EQ(world.wait_reason(id), WaitReason::kNotTried);
    EXPECT_THAT(world.why(id), HasSubstr("no step was planned"));
    EXPECT_EQ(world.scheduler().Explain(id).since_us, 3);
  }
}

// A plan that stops at the head never tries those behind it, which is not the
// same as no plan.
TEST(SchedulerExplainTest, WhoWasNotReachedWaitsBehindTheHead) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  SchedulerWorld world(options);
  world.Submit({.max_new = 9});
  const RequestId head = world.Submit({});
  const RequestId last = world.Submit({});
  world.Step();
  EXPECT_EQ(world.wait_reason(head), WaitReason::kRows);
  EXPECT_THAT(world.why(head), HasSubstr("all 1 rows"));
  EXPECT_EQ(world.scheduler().head_of_queue().id, head);
  EXPECT_EQ(world.scheduler().head_of_queue().reason, WaitReason::kRows);
  EXPECT_EQ(world.wait_reason(last), WaitReason::kBehind);
  EXPECT_EQ(world.scheduler().Explain(last).behind, head);
  EXPECT_THAT(world.why(last),
              HasSubstr(absl::StrCat("behind request ", head.value)));
  EXPECT_THAT(world.why(last), HasSubstr("rows"));
}

TEST(SchedulerExplainTest, TokensThatAreSpentAreCounted) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = 32;
  SchedulerWorld world(options);
  world.Submit({.prompt = 100});
  const RequestId waits = world.Submit({.prompt = 10});
  world.Step();
  EXPECT_EQ(world.wait_reason(waits), WaitReason::kTokens);
  EXPECT_THAT(world.why(waits), HasSubstr("0 left, 1 needed of 32"));
  EXPECT_THAT(world.why(waits), HasSubstr("raise max_num_batched_tokens"));
}

TEST(SchedulerExplainTest, PagesThatLackAreCounted) {
  WorldOptions options;
  options.num_pages = 6;
  SchedulerWorld world(options);
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId waits = world.Submit({.prompt = 48, .max_new = 8});
  world.Step();
  EXPECT_EQ(world.wait_reason(waits), WaitReason::kPages);
  EXPECT_EQ(world.scheduler().Explain(waits).needed, 3);
  EXPECT_EQ(world.scheduler().Explain(waits).available, 2);
  EXPECT_THAT(world.why(waits), HasSubstr("3 pages and 2 of 6"));
  EXPECT_THAT(world.why(waits), HasSubstr("raise total_num_pages"));
}

WorldOptions TightPriority() {
  WorldOptions options;
  options.num_pages = 10;
  options.scheduler.max_bypasses = 1;
  options.scheduler.policy = OrderingPolicy::kPriority;
  return options;
}

TEST(SchedulerExplainTest, WhoMayNotPassIsToldOfTheProtection) {
  SchedulerWorld world(TightPriority());
  world.Submit({.prompt = 32, .max_new = 14});
  world.Step();
  const RequestId big = world.Submit({.prompt = 140, .max_new = 4});
  world.Submit({.prompt = 16, .max_new = 8});
  const RequestId small = world.Submit({.prompt = 16, .max_new = 8});
  world.Step();
  EXPECT_EQ(world.wait_reason(small), WaitReason::kProtected);
  EXPECT_EQ(world.scheduler().Explain(small).behind, big);
  EXPECT_THAT(world.why(small), HasSubstr("passed 1 times"));
}

// The one that was passed need not be the first in the queue.
TEST(SchedulerExplainTest, ProtectionIsNotAscribedToAHeadThatNobodyPassed) {
  SchedulerWorld world(TightPriority());
  world.Submit({.prompt = 32, .max_new = 14, .priority = 1});
  world.Step();
  world.Submit({.prompt = 140, .max_new = 4, .priority = 1});
  world.Submit({.prompt = 16, .max_new = 8, .priority = 1});
  world.Step();
  const RequestId head =
      world.Submit({.prompt = 139, .max_new = 4, .priority = 0});
  const RequestId small =
      world.Submit({.prompt = 16, .max_new = 8, .priority = 2});
  world.Step();
  EXPECT_EQ(world.wait_reason(small), WaitReason::kProtected);
  EXPECT_THAT(world.why(small),
              testing::Not(HasSubstr(
                  absl::StrCat("request ", head.value, " before it was"))));
}

TEST(SchedulerExplainTest, PreemptedIsToldApartFromWaiting) {
  WorldOptions options;
  options.num_pages = 7;
  SchedulerWorld world(options);
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId victim = world.Submit({.prompt = 48, .max_new = 8});
  world.Step();
  const RequestId behind = world.Submit({});
  world.now_us = 55;
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.wait_reason(victim), WaitReason::kPreempted);
  EXPECT_EQ(world.scheduler().Explain(victim).since_us, 55);
  EXPECT_THAT(world.why(victim), HasSubstr("preempted for lack of pages"));
  EXPECT_EQ(world.wait_reason(behind), WaitReason::kBehind);
  EXPECT_THAT(world.why(behind), HasSubstr("preempted"));
}

TEST(SchedulerExplainTest, WhileAdmissionIsSuspendedTheHeadSaysSo) {
  WorldOptions options;
  options.num_pages = 7;
  SchedulerWorld world(options);
  world.Submit({.max_new = 20});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  world.Fail();
  const RequestId head = world.Submit({});
  const RequestId behind = world.Submit({});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.wait_reason(head), WaitReason::kFailures);
  EXPECT_THAT(world.why(head), HasSubstr("admission goes on after that"));
  EXPECT_EQ(world.wait_reason(behind), WaitReason::kBehind);
  EXPECT_THAT(world.why(behind), testing::Not(HasSubstr("not_tried")));
}

TEST(SchedulerExplainTest, AStepThatPreemptsIsToldApartFromAFailure) {
  SchedulerWorld world(TightPriority());
  const RequestId a =
      world.Submit({.prompt = 60, .max_new = 40, .priority = 1});
  world.Submit({.prompt = 60, .max_new = 40, .priority = 1});
  world.Step();
  const RequestId head =
      world.Submit({.prompt = 100, .max_new = 4, .priority = 0});
  const RequestId behind =
      world.Submit({.prompt = 40, .max_new = 4, .priority = 2});
  while (world.scheduler().stats().preemptions == 0) {
    ASSERT_TRUE(world.Step());
    if (world.scheduler().stats().preemptions > 0) break;
    EXPECT_EQ(world.wait_reason(head), WaitReason::kPages);
  }
  EXPECT_EQ(world.scheduler().Explain(a).state, Explanation::State::kRunning);
  EXPECT_EQ(world.wait_reason(head), WaitReason::kPreempting);
  EXPECT_THAT(world.why(head), HasSubstr("pages were just taken"));
  EXPECT_EQ(world.wait_reason(behind), WaitReason::kBehind);
}

TEST(SchedulerExplainTest, EveryReasonAndEveryEndHasANameOfItsOwn) {
  std::vector<std::string> names;
  for (int32_t i = 0; i <= static_cast<int32_t>(WaitReason::kFailures); ++i) {
    names.emplace_back(WaitReasonName(static_cast<WaitReason>(i)));
  }
  for (int32_t i = 0; i <= static_cast<int32_t>(FinishReason::kStepFailed);
       ++i) {
    names.emplace_back(FinishReasonName(static_cast<FinishReason>(i)));
  }
  EXPECT_EQ(names.size(), 17u);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_NE(names[i], "unknown");
    for (size_t k = 0; k < i; ++k) EXPECT_NE(names[i], names[k]);
  }
}

}  // namespace
}  // namespace tidewheel
