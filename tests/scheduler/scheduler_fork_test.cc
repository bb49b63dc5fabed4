// Requests that go on from what another knows.

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(SchedulerForkTest, ForksOfARunningRequestShareItsPagesUntilTheyWrite) {
  SchedulerWorld world;
  const RequestId parent = world.Submit({.prompt = 40, .max_new = 6});
  world.Step();
  EXPECT_EQ(world.pages().lent_pages, 3);
  const RequestId a = world.Fork(parent);
  const RequestId b = world.Fork(parent);
  EXPECT_EQ(world.scheduler().num_running(), 3);
  EXPECT_EQ(world.pages().lent_pages, 3);
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->copies, SizeIs(2));
  EXPECT_EQ(plan->copies[0].num_tokens, 8);
  EXPECT_EQ(plan->batch.total_q_tokens(), 3);
  EXPECT_EQ(world.pages().lent_pages, 5);
  world.Commit();
  plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->copies, IsEmpty());
  world.Commit();
  world.RunAll();
  for (const RequestId id : {parent, a, b}) {
    EXPECT_EQ(world.result(id).generated_tokens, 6);
    EXPECT_EQ(world.answer(id), world.answer(parent));
  }
  EXPECT_EQ(world.computed_tokens(a), 5);
  EXPECT_EQ(world.stats().generated_tokens, 6 + 5 + 5);
  world.ExpectIdle();
}

TEST(SchedulerForkTest, CopiesOfAFailedStepAreListedAgain) {
  SchedulerWorld world;
  const RequestId parent = world.Submit({.prompt = 40, .max_new = 6});
  world.Step();
  const RequestId fork = world.Fork(parent);
  ASSERT_NE(world.Plan(), nullptr);
  world.Fail();
  int32_t copies = 0;
  for (int32_t step = 0; step < 2; ++step) {
    const StepPlan* plan = world.Plan();
    ASSERT_NE(plan, nullptr);
    copies += static_cast<int32_t>(plan->copies.size());
    world.Commit();
  }
  EXPECT_EQ(copies, 1);
  world.RunAll();
  EXPECT_EQ(world.answer(fork), world.answer(parent));
}

TEST(SchedulerForkTest, AForkOfAWaitingRequestWaitsWithTheSamePrompt) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  SchedulerWorld world(options);
  const RequestId parent = world.Submit({.prompt = 40, .max_new = 2});
  const RequestId fork = world.Fork(parent);
  EXPECT_EQ(world.state(fork), Explanation::State::kWaiting);
  world.RunAll();
  EXPECT_EQ(world.answer(fork), world.answer(parent));
  EXPECT_EQ(world.result(fork).cached_tokens, 32);
}

TEST(SchedulerForkTest, WithoutARowTheForkWaitsAndComputesAgain) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  SchedulerWorld world(options);
  const RequestId parent = world.Submit({.prompt = 40, .max_new = 5});
  world.Step();
  const RequestId fork = world.Fork(parent);
  EXPECT_EQ(world.state(fork), Explanation::State::kWaiting);
  world.RunAll();
  EXPECT_EQ(world.answer(fork), world.answer(parent));
  EXPECT_EQ(world.result(fork).generated_tokens, 5);
}

TEST(SchedulerForkTest, ForkingInFlightOrAfterTheEndIsRefused) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.max_new = 1});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(
      world.scheduler().Fork(id, 0),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("step 1 is in")));
  world.Commit();
  EXPECT_THAT(world.scheduler().Fork(id, 0),
              StatusIs(StatusCode::kNotFound, HasSubstr("before it ends")));
  EXPECT_EQ(world.stats().accepted, 1);
}

TEST(SchedulerForkTest, TheParentMayEndBeforeItsForks) {
  SchedulerWorld world;
  const RequestId parent = world.Submit({.prompt = 40, .max_new = 60});
  world.Step();
  const RequestId fork = world.Fork(parent);
  world.Cancel(parent);
  world.RunAll();
  EXPECT_EQ(world.result(fork).generated_tokens, 60);
  world.ExpectIdle();
}

}  // namespace
}  // namespace tidewheel
