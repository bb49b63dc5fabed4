// Requests that are cancelled or wait too long.

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

// vLLM's test_finish_request; case E1.
TEST(SchedulerCancelTest, AWaitingRequestLeavesTheQueueAndHoldsNothing) {
  SchedulerWorld world;
  const RequestId a = world.Submit({});
  const RequestId b = world.Submit({});
  world.Cancel(a);
  EXPECT_EQ(world.scheduler().num_waiting(), 1);
  EXPECT_EQ(world.reason(a), FinishReason::kCancelled);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(a), 0);
  EXPECT_EQ(world.q_len(b), 16);
  world.Commit();
  world.RunAll();
  world.ExpectIdle();
}

TEST(SchedulerCancelTest, ARunningRequestBetweenStepsEndsAtOnce) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 40, .max_new = 9});
  world.Step();
  world.Step();
  world.Cancel(id);
  EXPECT_EQ(world.reason(id), FinishReason::kCancelled);
  EXPECT_EQ(world.result(id).generated_tokens, 2);
  world.ExpectIdle();
  EXPECT_EQ(world.Plan(), nullptr);
}

// Case B8: the device may still write to its pages, so they are kept; what it
// samples is dropped.
TEST(SchedulerCancelTest, InFlightThePagesAreKeptAndTheTokenIsDropped) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 32, .max_new = 9});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  world.Cancel(id);
  EXPECT_EQ(world.pages().lent_pages, 3);
  EXPECT_FALSE(world.finished(id));
  EXPECT_EQ(world.scheduler().num_running(), 1);
  world.Commit();
  EXPECT_EQ(world.reason(id), FinishReason::kCancelled);
  EXPECT_EQ(world.result(id).generated_tokens, 1);
  EXPECT_EQ(world.stats().generated_tokens, 1);
  world.ExpectIdle();
}

TEST(SchedulerCancelTest, InFlightAndTheStepFails) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 32, .max_new = 9});
  const RequestId other = world.Submit({.prompt = 32, .max_new = 9});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  world.Cancel(id);
  world.Fail();
  EXPECT_EQ(world.reason(id), FinishReason::kCancelled);
  world.RunAll();
  EXPECT_EQ(world.reason(other), FinishReason::kMaxNewTokens);
  EXPECT_EQ(world.stats().generated_tokens, 10);
  world.ExpectIdle();
}

// Case E3: finished by its last token, cancelled, and told twice, in every
// order that one thread can see: reported once.
TEST(SchedulerCancelTest, EndingTwiceInOneStepIsReportedOnce) {
  for (const bool token_comes : {true, false}) {
    SchedulerWorld world;
    const RequestId id = world.Submit({.max_new = 1});
    ASSERT_NE(world.Plan(), nullptr);
    world.Cancel(id);
    EXPECT_THAT(world.scheduler().Cancel(id),
                StatusIs(StatusCode::kNotFound, HasSubstr("not unfinished")));
    if (token_comes) {
      world.Commit();
    } else {
      world.CommitWithout(id);
    }
    EXPECT_EQ(world.reason(id), FinishReason::kCancelled);
    EXPECT_EQ(world.result(id).generated_tokens, 0);
    EXPECT_THAT(world.scheduler().Cancel(id),
                StatusIs(StatusCode::kNotFound, HasSubstr("has ended")));
    EXPECT_EQ(world.finish_order().size(), 1u);
    EXPECT_EQ(world.stats().finished, 1);
    world.ExpectIdle();
  }
}

// Case E3.
TEST(SchedulerCancelTest, AfterItsEndThereIsNothingToCancel) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.max_new = 1});
  world.RunAll();
  EXPECT_THAT(world.scheduler().Cancel(id),
              StatusIs(StatusCode::kNotFound, HasSubstr("has ended")));
  EXPECT_EQ(world.reason(id), FinishReason::kMaxNewTokens);
  EXPECT_THAT(world.scheduler().Cancel({12345}),
              StatusIs(StatusCode::kNotFound, HasSubstr("12345")));
}

TEST(SchedulerCancelTest, APreemptedRequestThatWaitsCanBeCancelled) {
  WorldOptions options;
  options.num_pages = 7;
  SchedulerWorld world(options);
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId victim = world.Submit({.prompt = 48, .max_new = 8});
  world.Step();
  world.Step();
  ASSERT_EQ(world.stats().preemptions, 1);
  world.Cancel(victim);
  EXPECT_EQ(world.result(victim).preemptions, 1);
  EXPECT_EQ(world.result(victim).generated_tokens, 1);
  world.RunAll();
  world.ExpectIdle();
}

// Case C17: what was committed before the cancel may be found, and only while
// nobody has written over it.
TEST(SchedulerCancelTest, CancelledInMidPrefillAndSentAgain) {
  for (const bool overwritten : {false, true}) {
    WorldOptions options;
    options.num_pages = 10;
    options.scheduler.max_prefill_chunk = 32;
    SchedulerWorld world(options);
    const RequestId cancelled = world.Submit({.prompt = 128, .content = 1});
    world.Step();
    world.Step();
    ASSERT_NE(world.Plan(), nullptr);
    world.Cancel(cancelled);
    world.Commit();
    if (overwritten) {
      world.Submit({.prompt = 150, .max_new = 4});
      world.RunAll();
    }
    const RequestId again = world.Submit({.prompt = 128, .content = 1});
    world.RunAll();
    // Two chunks were committed before it was cancelled, the third after.
    EXPECT_EQ(world.result(again).cached_tokens, overwritten ? 0 : 96);
    world.ExpectIdle();
  }
}

// A chunk whose step failed was never written, so nobody may find it.
TEST(SchedulerCancelTest, CancelledInAFailedStepItsChunkIsNotFound) {
  WorldOptions options;
  options.scheduler.max_prefill_chunk = 32;
  SchedulerWorld world(options);
  const RequestId cancelled = world.Submit({.prompt = 128, .content = 1});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  world.Cancel(cancelled);
  world.Fail();
  const RequestId again = world.Submit({.prompt = 128, .content = 1});
  world.RunAll();
  EXPECT_EQ(world.result(again).cached_tokens, 32);
}

WorldOptions OneRow(int64_t max_queue_time_us) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.max_queue_time_us = max_queue_time_us;
  return options;
}

TEST(SchedulerCancelTest, WhoWaitsTooLongIsEndedAtTheLimitAndNotBefore) {
  SchedulerWorld world(OneRow(100));
  world.now_us = 1000;
  world.Submit({.max_new = 50});
  const RequestId waits = world.Submit({});
  world.now_us = 1050;
  const RequestId younger = world.Submit({});
  world.now_us = 1099;
  world.Step();
  EXPECT_FALSE(world.finished(waits));
  world.now_us = 1100;
  world.Step();
  EXPECT_EQ(world.reason(waits), FinishReason::kQueueTimeout);
  EXPECT_EQ(world.result(waits).admitted_us, -1);
  EXPECT_FALSE(world.finished(younger));
  world.now_us = 1150;
  world.Step();
  EXPECT_EQ(world.reason(younger), FinishReason::kQueueTimeout);
}

TEST(SchedulerCancelTest, OnceAdmittedNobodyTimesOut) {
  WorldOptions options;
  options.num_pages = 7;
  options.scheduler.max_queue_time_us = 10;
  SchedulerWorld world(options);
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId victim = world.Submit({.prompt = 48, .max_new = 8});
  world.Step();
  world.now_us = 1000;
  world.RunAll();
  EXPECT_EQ(world.result(victim).preemptions, 1);
  EXPECT_EQ(world.reason(victim), FinishReason::kMaxNewTokens);
}

TEST(SchedulerCancelTest, WithoutALimitNobodyTimesOut) {
  SchedulerWorld world(OneRow(0));
  world.Submit({});
  const RequestId waits = world.Submit({});
  world.Step();
  world.now_us = int64_t{1} << 60;
  world.RunAll();
  EXPECT_EQ(world.reason(waits), FinishReason::kMaxNewTokens);
}

TEST(SchedulerCancelTest, APlanThatOnlyEndsTheLastRequestIsNoBatch) {
  SchedulerWorld world(OneRow(10));
  const RequestId id = world.Submit({});
  world.now_us = 10;
  EXPECT_EQ(world.Plan(), nullptr);
  EXPECT_EQ(world.reason(id), FinishReason::kQueueTimeout);
  world.ExpectIdle();
}

}  // namespace
}  // namespace tidewheel
