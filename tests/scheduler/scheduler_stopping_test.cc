// When a request ends, and with which reason.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;

struct Stop {
  std::string name;
  TestRequest request;
  FinishReason reason;
  int32_t generated;
};

class SchedulerStoppingTest : public testing::TestWithParam<Stop> {};

// vLLM's test_stop_via_update_from_output and test_check_stop_min_tokens.
TEST_P(SchedulerStoppingTest, EndsThereForThatReason) {
  SchedulerWorld world;
  const RequestId id = world.Submit(GetParam().request);
  const RequestId other = world.Submit({.max_new = 12});
  world.RunAll();
  EXPECT_EQ(world.reason(id), GetParam().reason)
      << FinishReasonName(world.reason(id));
  EXPECT_EQ(world.result(id).generated_tokens, GetParam().generated);
  EXPECT_TRUE(IsCompletion(world.reason(id)));
  EXPECT_EQ(world.result(other).generated_tokens, 12);
  world.ExpectIdle();
}

INSTANTIATE_TEST_SUITE_P(
    Table, SchedulerStoppingTest,
    testing::Values(
        Stop{"EndToken",
             {.max_new = 10, .end_token = 2, .script = {10, 2, 11}},
             FinishReason::kEndToken,
             2},
        Stop{"StopToken",
             {.max_new = 10, .stop_tokens = {41, 42}, .script = {10, 42, 43}},
             FinishReason::kStopToken,
             2},
        Stop{"MaxNewTokens",
             {.max_new = 3, .end_token = 2, .script = {10, 11, 12, 13}},
             FinishReason::kMaxNewTokens,
             3},
        Stop{"WithoutAnEndTokenNothingElseEndsIt",
             {.max_new = 5, .script = {2, 2, 2}},
             FinishReason::kMaxNewTokens,
             5},
        Stop{"EndTokenThatIsTheLastAllowed",
             {.max_new = 2, .end_token = 2, .script = {10, 2}},
             FinishReason::kEndToken,
             2},
        Stop{"EndTokenBeforeStopTokenOfTheSameId",
             {.max_new = 9, .end_token = 2, .stop_tokens = {2}, .script = {2}},
             FinishReason::kEndToken,
             1},
        Stop{"EndTokenBelowMinIsPassed",
             {.max_new = 9,
              .min_new = 3,
              .end_token = 2,
              .script = {2, 2, 10, 2}},
             FinishReason::kEndToken,
             4},
        Stop{"EndTokenAtMinEnds",
             {.max_new = 9,
              .min_new = 3,
              .end_token = 2,
              .script = {2, 2, 2, 2}},
             FinishReason::kEndToken,
             3},
        Stop{"StopTokenBelowMinIsPassed",
             {.max_new = 9,
              .min_new = 2,
              .stop_tokens = {42},
              .script = {42, 10, 42}},
             FinishReason::kStopToken,
             3},
        Stop{"StopTokenAtMinEnds",
             {.max_new = 9,
              .min_new = 2,
              .stop_tokens = {42},
              .script = {42, 42}},
             FinishReason::kStopToken,
             2},
        Stop{"WithoutMinTheFirstTokenMayEnd",
             {.max_new = 9, .min_new = 0, .end_token = 2, .script = {2}},
             FinishReason::kEndToken,
             1},
        Stop{"MinEqualToMax",
             {.max_new = 4,
              .min_new = 4,
              .end_token = 2,
              .script = {2, 2, 2, 2}},
             FinishReason::kEndToken,
             4},
        Stop{"EndTokenInTheMiddleOfAPage",
             {.prompt = 20,
              .max_new = 40,
              .end_token = 2,
              .script = {9, 9, 9, 9, 2}},
             FinishReason::kEndToken,
             5},
        Stop{"EndTokenThatFillsAPage",
             {.prompt = 20,
              .max_new = 40,
              .end_token = 2,
              .script = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 2}},
             FinishReason::kEndToken,
             13}),
    [](const auto& test) { return test.param.name; });

// Case E7: M = 1 and a stop token at once, in a step with decodes and chunks.
TEST(SchedulerStoppingTest, EndingInItsFirstMixedStepLeavesNothingBehind) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = 100;
  SchedulerWorld world(options);
  const RequestId decoding = world.Submit({.prompt = 16, .max_new = 50});
  world.Step();
  const RequestId one = world.Submit({.prompt = 20, .max_new = 1});
  const RequestId stopped = world.Submit(
      {.prompt = 20, .max_new = 9, .stop_tokens = {5}, .script = {5}});
  const RequestId chunked = world.Submit({.prompt = 300, .max_new = 2});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(decoding), 1);
  EXPECT_EQ(world.q_len(one), 20);
  EXPECT_EQ(world.q_len(stopped), 20);
  EXPECT_EQ(world.q_len(chunked), 59);
  world.Commit();
  EXPECT_EQ(world.reason(one), FinishReason::kMaxNewTokens);
  EXPECT_EQ(world.reason(stopped), FinishReason::kStopToken);
  EXPECT_EQ(world.scheduler().num_running(), 2);
  // 17 tokens are 2 pages, 59 are 4; the two others have none.
  EXPECT_EQ(world.pages().lent_pages, 2 + 4);
}

// Case E8.
TEST(SchedulerStoppingTest, EndingWithoutAnyTokenIsAState) {
  SchedulerWorld world;
  const RequestId id = world.Submit({});
  EXPECT_EQ(world.state(id), Explanation::State::kWaiting);
  world.Cancel(id);
  EXPECT_EQ(world.result(id).generated_tokens, 0);
  EXPECT_EQ(world.result(id).admitted_us, -1);
  EXPECT_EQ(world.reason(id), FinishReason::kCancelled);
  EXPECT_FALSE(IsCompletion(world.reason(id)));
  world.ExpectIdle();
}

TEST(SchedulerStoppingTest, ResultsReportTimesAndCounts) {
  SchedulerWorld world;
  world.now_us = 100;
  const RequestId id = world.Submit({.prompt = 40, .max_new = 2});
  world.now_us = 250;
  world.RunAll();
  const FinishedRequest& result = world.result(id);
  EXPECT_EQ(result.submitted_us, 100);
  EXPECT_EQ(result.admitted_us, 250);
  EXPECT_EQ(result.prompt_tokens, 40);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_THAT(world.answer(id), ElementsAre(SchedulerWorld::kFirstAnswer,
                                            SchedulerWorld::kFirstAnswer + 1));
}

TEST(SchedulerStoppingTest, TokensStayReadableUntilTheNextTake) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 16, .max_new = 1});
  ASSERT_TRUE(world.Step());
  EXPECT_EQ(world.scheduler().Tokens(id).size(), 17u);
  EXPECT_EQ(world.state(id), Explanation::State::kEnded);
  world.scheduler().TakeFinished();
  EXPECT_TRUE(world.scheduler().Tokens(id).empty());
  EXPECT_EQ(world.state(id), Explanation::State::kUnknown);
  EXPECT_TRUE(world.scheduler().Tokens({}).empty());
}

// vLLM's test_memory_leak: after all have ended nothing is left.
TEST(SchedulerStoppingTest, AfterAllHaveEndedNothingIsHeld) {
  SchedulerWorld world;
  for (int32_t i = 0; i < 5; ++i) world.Submit({.prompt = 10, .max_new = 16});
  world.RunAll();
  EXPECT_EQ(world.finish_order().size(), 5u);
  world.ExpectIdle();
  EXPECT_FALSE(world.scheduler().has_unfinished());
}

}  // namespace
}  // namespace tidewheel
