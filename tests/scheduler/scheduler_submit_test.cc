// What is refused when it is submitted, with which words, and what is not.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/submission.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

// Expects a refusal of this kind, whose text has these parts.
void ExpectRefused(const absl::StatusOr<RequestId>& answer, Refusal refusal,
                   const std::vector<std::string>& parts) {
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(RefusalOf(answer.status()), refusal) << answer.status();
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(part));
  }
}

WorldOptions SmallPool(int32_t num_pages, int32_t max_model_len = 512) {
  WorldOptions options;
  options.num_pages = num_pages;
  options.scheduler.max_model_len = max_model_len;
  options.scheduler.max_num_batched_tokens = 512;
  return options;
}

// Case A1.
TEST(SchedulerSubmitTest, WhatNoEmptyPoolCouldHoldIsRefusedAndBlocksNobody) {
  SchedulerWorld world(SmallPool(10));
  ExpectRefused(world.TrySubmit({.prompt = 200, .max_new = 1}),
                Refusal::kExceedsPool,
                {"200 tokens", "13 pages", "pool has 10", "total_num_pages"});
  const RequestId behind = world.Submit({.prompt = 16, .max_new = 4});
  world.RunAll();
  EXPECT_EQ(world.reason(behind), FinishReason::kMaxNewTokens);
  EXPECT_EQ(world.stats().refused, 1);
}

// Cases A1 and A7: P prompt and M new tokens need P + M - 1 slots, and exactly
// the pool's is not too much.
TEST(SchedulerSubmitTest, ExactlyThePoolIsServedAndOneMoreIsRefused) {
  SchedulerWorld world(SmallPool(10));
  const RequestId exact = world.Submit({.prompt = 160, .max_new = 1});
  ExpectRefused(world.TrySubmit({.prompt = 160, .max_new = 2}),
                Refusal::kExceedsPool, {"11 pages", "pool has 10"});
  world.RunAll();
  EXPECT_EQ(world.result(exact).generated_tokens, 1);
}

// Case A7.
TEST(SchedulerSubmitTest, DemandIsRoundedToPagesOnce) {
  SchedulerWorld world(SmallPool(8));
  const RequestId page_less = world.Submit({.prompt = 112, .max_new = 16});
  const RequestId all_slots = world.Submit({.prompt = 112, .max_new = 17});
  ExpectRefused(world.TrySubmit({.prompt = 112, .max_new = 18}),
                Refusal::kExceedsPool, {"9 pages", "pool has 8"});
  const RequestId behind = world.Submit({.prompt = 16, .max_new = 1});
  world.RunAll();
  EXPECT_EQ(world.result(page_less).generated_tokens, 16);
  EXPECT_EQ(world.result(all_slots).generated_tokens, 17);
  EXPECT_TRUE(world.finished(behind));
}

// Case A2: the whole length counts at submission, not the prompt and a bit.
TEST(SchedulerSubmitTest, OutputThatWouldHitTheWallIsRefusedUpFront) {
  SchedulerWorld world(SmallPool(4));
  ExpectRefused(world.TrySubmit({.prompt = 50, .max_new = 30}),
                Refusal::kExceedsPool, {"max_new_tokens 30", "5 pages"});
}

// Case A2: without a limit of its own it stops at the wall, once.
TEST(SchedulerSubmitTest, WithoutALimitItStopsAtThePoolsEndWithThatReason) {
  SchedulerWorld world(SmallPool(4));
  const RequestId id = world.Submit({.prompt = 50, .max_new = std::nullopt});
  world.RunAll();
  EXPECT_EQ(world.reason(id), FinishReason::kPoolCapacity);
  EXPECT_EQ(world.result(id).generated_tokens, 15);
  EXPECT_EQ(world.result(id).preemptions, 0);
  EXPECT_EQ(world.computed_tokens(id), 64);
}

TEST(SchedulerSubmitTest, WithoutALimitItStopsAtTheModelLength) {
  SchedulerWorld world(SmallPool(10, 64));
  const RequestId id = world.Submit({.prompt = 50, .max_new = std::nullopt});
  world.RunAll();
  EXPECT_EQ(world.reason(id), FinishReason::kModelLength);
  EXPECT_EQ(world.result(id).generated_tokens, 14);
}

TEST(SchedulerSubmitTest, LongerThanTheModelIsRefused) {
  SchedulerWorld world(SmallPool(100, 64));
  ExpectRefused(world.TrySubmit({.prompt = 64, .max_new = std::nullopt}),
                Refusal::kExceedsModel,
                {"prompt of 64", "max_model_len 64", "shorten"});
  ExpectRefused(world.TrySubmit({.prompt = 63, .max_new = 2}),
                Refusal::kExceedsModel, {"max_new_tokens 2", "lower"});
  EXPECT_THAT(world.TrySubmit({.prompt = 63, .max_new = 1}), IsOk());
}

// Case A8.
TEST(SchedulerSubmitTest, WithoutChunksAPromptAboveTheBudgetIsRefused) {
  WorldOptions options = SmallPool(100, 256);
  options.scheduler.chunked_prefill = false;
  options.scheduler.max_num_batched_tokens = 64;
  SchedulerWorld world(options);
  ExpectRefused(world.TrySubmit({.prompt = 100}), Refusal::kExceedsStep,
                {"prompt of 100", "max_num_batched_tokens 64", "turn it on"});
  const RequestId fits = world.Submit({.prompt = 64});
  world.RunAll();
  EXPECT_TRUE(world.finished(fits));
}

// Case E9.
TEST(SchedulerSubmitTest, EmptyAndDegenerateRequestsHaveADefinedAnswer) {
  SchedulerWorld world;
  ExpectRefused(world.TrySubmit({.prompt = 0}), Refusal::kEmptyPrompt,
                {"0 tokens"});
  ExpectRefused(world.TrySubmit({.prompt = 1, .max_new = 0}),
                Refusal::kInvalidOption, {"max_new_tokens is 0"});
  ExpectRefused(world.TrySubmit({.prompt = 0, .max_new = 0}),
                Refusal::kEmptyPrompt, {});
  ExpectRefused(world.TrySubmit({.prompt = 1, .max_new = -5}),
                Refusal::kInvalidOption, {"max_new_tokens is -5"});
  const RequestId least = world.Submit({.prompt = 1, .max_new = 1});
  world.RunAll();
  EXPECT_EQ(world.result(least).generated_tokens, 1);
  EXPECT_EQ(world.stats().accepted, 1);
  EXPECT_EQ(world.stats().refused, 4);
}

TEST(SchedulerSubmitTest, FieldsOutsideTheirRangeAreRefusedByName) {
  SchedulerWorld world;
  ExpectRefused(world.TrySubmit({.min_new = -1}), Refusal::kInvalidOption,
                {"min_new_tokens is -1"});
  ExpectRefused(world.TrySubmit({.max_new = 3, .min_new = 4}),
                Refusal::kInvalidOption,
                {"min_new_tokens is 4", "max_new_tokens 3"});
  ExpectRefused(world.TrySubmit({.stop_tokens = std::vector<int32_t>(17, 1)}),
                Refusal::kInvalidOption, {"stop tokens is 17", "at most 16"});
  EXPECT_THAT(world.TrySubmit({.stop_tokens = std::vector<int32_t>(16, 1)}),
              IsOk());
}

// Case F6.
TEST(SchedulerSubmitTest, HugeLengthsDoNotWrap) {
  SchedulerWorld world;
  ExpectRefused(world.TrySubmit({.prompt = 16, .max_new = kMost}),
                Refusal::kExceedsModel, {"2147483647"});
  const RequestId id = world.Submit({.prompt = 1000,
                                     .max_new = std::nullopt,
                                     .min_new = kMost,
                                     .end_token = 5,
                                     .script = {5, 5, 5}});
  world.RunAll();
  EXPECT_EQ(world.reason(id), FinishReason::kModelLength);
  EXPECT_EQ(world.result(id).generated_tokens, 24);
}

TEST(SchedulerSubmitTest, FullQueueRefusesAndHasRoomAgainAfterAnAdmission) {
  WorldOptions options;
  options.scheduler.max_waiting = 2;
  SchedulerWorld world(options);
  world.Submit({});
  world.Submit({});
  const absl::StatusOr<RequestId> third = world.TrySubmit({});
  ExpectRefused(third, Refusal::kQueueFull, {"2 requests wait", "max_waiting"});
  EXPECT_EQ(third.status().code(), StatusCode::kResourceExhausted);
  world.Step();
  EXPECT_THAT(world.TrySubmit({}), IsOk());
}

TEST(SchedulerSubmitTest, FinishedRequestsThatNobodyTakesAreRefusedAtABound) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.max_waiting = 1;
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(options.scheduler, MakePages(options));
  ASSERT_THAT(scheduler, IsOk());
  const std::vector<int32_t> prompt = {1, 2, 3};
  Request request;
  request.prompt = prompt;
  for (int32_t i = 0; i < 4; ++i) {
    const absl::StatusOr<RequestId> id = (*scheduler)->Submit(request, 0);
    ASSERT_THAT(id, IsOk());
    ASSERT_THAT((*scheduler)->Cancel(*id), IsOk());
  }
  ExpectRefused((*scheduler)->Submit(request, 0), Refusal::kQueueFull,
                {"4 finished requests were not taken", "TakeFinished"});
  EXPECT_EQ((*scheduler)->TakeFinished().size(), 4u);
  EXPECT_EQ((*scheduler)->TakeFinished().size(), 0u);
  EXPECT_THAT((*scheduler)->Submit(request, 0), IsOk());
}

TEST(SchedulerSubmitTest, IsolationKeysAreBoundedAndComeBack) {
  WorldOptions options;
  options.max_isolation_keys = 1;
  SchedulerWorld world(options);
  world.Submit({.salt = "a"});
  ExpectRefused(world.TrySubmit({.salt = "b"}), Refusal::kTooManyIsolationKeys,
                {"1 isolation keys", "max_isolation_keys"});
  EXPECT_THAT(world.TrySubmit({.salt = "a"}), IsOk());
  EXPECT_THAT(world.TrySubmit({}), IsOk());
  world.RunAll();
  EXPECT_THAT(world.TrySubmit({.salt = "b"}), IsOk());
}

TEST(SchedulerSubmitTest, ARefusalChangesNothing) {
  SchedulerWorld world(SmallPool(4));
  ASSERT_FALSE(world.TrySubmit({.prompt = 100}).ok());
  EXPECT_FALSE(world.scheduler().has_unfinished());
  EXPECT_EQ(world.Plan(), nullptr);
  world.ExpectIdle();
}

TEST(SubmissionTest, EveryRefusalKeepsItsKindAndAnotherStatusHasNone) {
  for (const Refusal refusal :
       {Refusal::kEmptyPrompt, Refusal::kInvalidOption, Refusal::kExceedsModel,
        Refusal::kExceedsPool, Refusal::kExceedsStep, Refusal::kQueueFull,
        Refusal::kTooManyIsolationKeys}) {
    EXPECT_EQ(RefusalOf(RefusalError(refusal, "text")), refusal)
        << RefusalName(refusal);
  }
  EXPECT_EQ(RefusalOf(absl::InvalidArgumentError("text")), Refusal::kNone);
  EXPECT_EQ(RefusalOf(absl::OkStatus()), Refusal::kNone);
}

}  // namespace
}  // namespace tidewheel
