// Two steps in flight: the second is planned before the first is committed, and
// whatever happens to a sequence meanwhile, each result counts once or not.

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/model_runner.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WorldOptions TwoInFlight() {
  WorldOptions options;
  options.scheduler.max_steps_in_flight = 2;
  return options;
}

std::vector<int32_t> Answer(int32_t length) {
  std::vector<int32_t> answer;
  for (int32_t i = 0; i < length; ++i) {
    answer.push_back(SchedulerWorld::kFirstAnswer + i);
  }
  return answer;
}

TEST(SchedulerInFlightTest, SecondStepTakesItsTokensFromTheRowsOfTheFirst) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 5, .max_new = 8});
  const RequestId b = world.Submit({.prompt = 7, .max_new = 8});
  const StepPlan* first = world.Plan();
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(first->sampled_from, IsEmpty());
  const StepPlan* second = world.Plan();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(world.scheduler().num_steps_in_flight(), 2);
  EXPECT_THAT(second->token_ids, ElementsAre(kUnknownToken, kUnknownToken));
  EXPECT_THAT(second->positions, ElementsAre(5, 7));
  EXPECT_THAT(second->wants_logits, ElementsAre(1, 1));
  for (int32_t row = 0; row < 2; ++row) {
    EXPECT_EQ(first->requests[second->sampled_from[row]],
              second->requests[row]);
  }
  // What the first plan says still stands.
  EXPECT_THAT(first->positions,
              ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6));
  world.Commit(*first);
  EXPECT_EQ(world.scheduler().Tokens(a).size(), 6u);
  world.Commit(*second);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 9u);
  EXPECT_EQ(world.scheduler().Tokens(b).back(),
            SchedulerWorld::kFirstAnswer + 1);
}

TEST(SchedulerInFlightTest, SourcesFollowRowsThatMove) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 4, .max_new = 20});
  const RequestId b = world.Submit({.prompt = 4, .max_new = 20});
  const RequestId c = world.Submit({.prompt = 4, .max_new = 20});
  world.Commit(*world.Plan());
  const StepPlan* first = world.Plan();
  world.Cancel(a);
  const StepPlan* second = world.Plan();
  ASSERT_EQ(second->batch.num_seqs, 2);
  for (int32_t row = 0; row < 2; ++row) {
    EXPECT_NE(second->requests[row], a);
    EXPECT_EQ(first->requests[second->sampled_from[row]],
              second->requests[row]);
  }
  world.Commit(*first);
  world.Commit(*second);
  EXPECT_EQ(world.reason(a), FinishReason::kCancelled);
  EXPECT_EQ(world.result(a).generated_tokens, 1);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 7u);
  EXPECT_EQ(world.scheduler().Tokens(c).size(), 7u);
}

TEST(SchedulerInFlightTest, AtMostAsManyAsAllowedAreOnTheirWay) {
  SchedulerWorld world(TwoInFlight());
  world.Submit({.prompt = 4, .max_new = 20});
  world.Plan();
  world.Plan();
  EXPECT_DEATH(world.Plan(), "steps_.full");
}

TEST(SchedulerInFlightTest, ThreeStepsInFlightAreRefused) {
  WorldOptions options = TwoInFlight();
  for (const int32_t steps : {0, 3}) {
    options.scheduler.max_steps_in_flight = steps;
    EXPECT_THAT(Scheduler::Create(options.scheduler, MakePages(options)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("max_steps_in_flight")));
  }
}

TEST(SchedulerInFlightTest, NoTokenIsComputedPastALimitThatIsKnown) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 4, .max_new = 1});
  const StepPlan* first = world.Plan();
  EXPECT_EQ(world.Plan(), nullptr);
  EXPECT_TRUE(world.scheduler().has_unfinished());
  world.Commit(*first);
  EXPECT_EQ(world.reason(a), FinishReason::kMaxNewTokens);
  EXPECT_EQ(world.answer(a), Answer(1));
  world.ExpectIdle();
}

TEST(SchedulerInFlightTest, TokenAfterAStopIsComputedInVain) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit(
      {.prompt = 4, .max_new = 9, .end_token = 3, .script = {8, 3, 8}});
  const RequestId b = world.Submit({.prompt = 4, .max_new = 9});
  world.Commit(*world.Plan());
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  EXPECT_EQ(second->batch.num_seqs, 2);
  world.Commit(*first);
  EXPECT_EQ(world.reason(a), FinishReason::kEndToken);
  EXPECT_THAT(world.answer(a), ElementsAre(8, 3));
  world.Commit(*second);
  world.RunAll();
  EXPECT_EQ(world.answer(b), Answer(9));
  EXPECT_EQ(world.stats().generated_tokens, 11);
  world.ExpectIdle();
}

TEST(SchedulerInFlightTest, CancelDropsWhatBothStepsSample) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 4, .max_new = 9});
  world.Commit(*world.Plan());
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  world.Cancel(a);
  EXPECT_THAT(world.scheduler().Cancel(a),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("cancelled")));
  world.Commit(*first);
  EXPECT_EQ(world.reason(a), FinishReason::kCancelled);
  EXPECT_EQ(world.answer(a), Answer(1));
  world.Commit(*second);
  EXPECT_EQ(world.stats().generated_tokens, 1);
  world.ExpectIdle();
}

// The slot that the ended request leaves may have a new owner by then.
TEST(SchedulerInFlightTest, ResultOfAnEndedRequestIsNotItsSuccessors) {
  WorldOptions options = TwoInFlight();
  options.scheduler.max_num_seqs = 1;
  SchedulerWorld world(options);
  const RequestId a = world.Submit(
      {.prompt = 4, .max_new = 9, .end_token = 3, .script = {8, 3}});
  world.Commit(*world.Plan());
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  world.Commit(*first);
  ASSERT_TRUE(world.finished(a));
  const RequestId b = world.Submit({.prompt = 6, .max_new = 2});
  const StepPlan* third = world.Plan();
  ASSERT_NE(third, nullptr);
  EXPECT_THAT(third->requests, ElementsAre(b));
  EXPECT_THAT(third->sampled_from, ElementsAre(-1));
  world.Commit(*second);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 6u);
  world.Commit(*third);
  world.RunAll();
  EXPECT_EQ(world.answer(b), Answer(2));
}

// Else the pages that it gave up would be given back to it before their taker
// has made use of them.
TEST(SchedulerInFlightTest, AVictimWaitsUntilAStepIsCommitted) {
  WorldOptions options = TwoInFlight();
  options.num_pages = 4;
  SchedulerWorld world(options);
  world.Submit({.prompt = 32, .max_new = 17});
  const RequestId victim = world.Submit({.prompt = 32, .max_new = 17});
  world.Step();
  const StepPlan* first = world.Plan();
  ASSERT_EQ(world.wait_reason(victim), WaitReason::kPreempted);
  const StepPlan* second = world.Plan();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(world.wait_reason(victim), WaitReason::kPreempted);
  world.Commit(*first);
  world.Commit(*second);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.wait_reason(victim), WaitReason::kPages);
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.result(victim).preemptions, 1);
  EXPECT_EQ(world.answer(victim), Answer(17));
}

TEST(SchedulerInFlightTest, PreemptedSequenceDropsItsTokenAndGetsItAgain) {
  WorldOptions options = TwoInFlight();
  options.page_size = 4;
  options.num_pages = 4;
  options.prefix_cache = false;
  SchedulerWorld world(options);
  const RequestId a = world.Submit({.prompt = 7, .max_new = 6});
  const RequestId b = world.Submit({.prompt = 7, .max_new = 6});
  const StepPlan* first = world.Plan();   // 7 tokens each, 2 pages each
  const StepPlan* second = world.Plan();  // position 7, the last slots
  ASSERT_EQ(second->batch.num_seqs, 2);
  world.Commit(*first);
  const StepPlan* third = world.Plan();  // position 8: one page is needed
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(world.stats().preemptions, 1);
  EXPECT_THAT(third->requests, ElementsAre(a));
  EXPECT_EQ(world.state(b), Explanation::State::kWaiting);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 8u);
  world.Commit(*second);
  EXPECT_EQ(world.scheduler().Tokens(a).size(), 9u);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 8u);
  world.Commit(*third);
  world.RunAll();
  EXPECT_EQ(world.answer(a), Answer(6));
  EXPECT_EQ(world.answer(b), Answer(6));
  world.ExpectIdle();
}

// Somebody is about to end and give pages back: nobody need lose theirs.
TEST(SchedulerInFlightTest, PagesOfAnEndingSequenceAreWaitedFor) {
  WorldOptions options = TwoInFlight();
  options.page_size = 4;
  options.num_pages = 4;
  options.prefix_cache = false;
  SchedulerWorld world(options);
  const RequestId a = world.Submit({.prompt = 8, .max_new = 6});
  const RequestId b = world.Submit({.prompt = 8, .max_new = 1});
  const StepPlan* first = world.Plan();
  EXPECT_EQ(world.Plan(), nullptr);  // b ends then; a lacks a page till then
  EXPECT_EQ(world.stats().preemptions, 0);
  world.Commit(*first);
  EXPECT_TRUE(world.finished(b));
  world.RunAll();
  EXPECT_EQ(world.stats().preemptions, 0);
  EXPECT_EQ(world.answer(a), Answer(6));
}

TEST(SchedulerInFlightTest, FailureOfTheFirstDropsTheSecond) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 40, .max_new = 6});
  const RequestId b = world.Submit({.prompt = 4, .max_new = 6});
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  const int64_t lost = second->step_id;
  const std::vector<int32_t> sampled = world.Sample(*second);
  world.Fail(*first);
  EXPECT_EQ(world.scheduler().num_steps_in_flight(), 0);
  EXPECT_EQ(world.stats().failed_steps, 1);
  EXPECT_EQ(world.stats().dropped_steps, 1);
  EXPECT_EQ(world.scheduler().Tokens(a).size(), 40u);
  // Its result comes all the same.
  EXPECT_THAT(world.scheduler().Commit(lost, sampled),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("late or twice")));
  EXPECT_THAT(world.scheduler().Fail(lost),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  world.RunAll();
  EXPECT_EQ(world.answer(a), Answer(6));
  EXPECT_EQ(world.answer(b), Answer(6));
  world.ExpectIdle();
}

TEST(SchedulerInFlightTest, FailureOfTheSecondLeavesTheFirstInFlight) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 4, .max_new = 6});
  const RequestId b = world.Submit({.prompt = 4, .max_new = 6});
  world.Commit(*world.Plan());
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  world.Fail(*second);
  EXPECT_EQ(world.scheduler().num_steps_in_flight(), 1);
  EXPECT_EQ(world.stats().dropped_steps, 0);
  // A failure is narrowed down one step at a time.
  EXPECT_EQ(world.Plan(), nullptr);
  world.Commit(*first);
  EXPECT_EQ(world.scheduler().Tokens(a).size(), 6u);
  // The first was planned before the failure and clears nobody.
  const StepPlan* alone = world.Plan();
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(alone->batch.num_seqs, 1);
  EXPECT_EQ(alone->token_ids[0], SchedulerWorld::kFirstAnswer + 1);
  world.Commit(*alone);
  world.RunAll();
  EXPECT_EQ(world.answer(a), Answer(6));
  EXPECT_EQ(world.answer(b), Answer(6));
}

TEST(SchedulerInFlightTest, MissingTokenSetsBackItsRowInBothSteps) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 4, .max_new = 6});
  const RequestId b = world.Submit({.prompt = 4, .max_new = 6});
  world.Commit(*world.Plan());
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  std::vector<int32_t> sampled = world.Sample(*first);
  sampled[first->requests[0] == a ? 0 : 1] = kNoToken;
  world.CommitTokens(*first, sampled);
  EXPECT_EQ(world.scheduler().Tokens(a).size(), 5u);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 6u);
  world.Commit(*second);  // computed from a token that there is not
  EXPECT_EQ(world.scheduler().Tokens(a).size(), 5u);
  EXPECT_EQ(world.scheduler().Tokens(b).size(), 7u);
  world.RunAll();
  EXPECT_EQ(world.answer(a), Answer(6));
  EXPECT_EQ(world.answer(b), Answer(6));
}

TEST(SchedulerInFlightTest, TheOldestIsCommittedFirst) {
  SchedulerWorld world(TwoInFlight());
  world.Submit({.prompt = 4, .max_new = 6});
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  EXPECT_THAT(world.scheduler().Commit(second->step_id, world.Sample(*second)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("commit that one first")));
  EXPECT_EQ(world.scheduler().num_steps_in_flight(), 2);
  world.Commit(*first);
  world.Commit(*second);
  EXPECT_EQ(world.stats().generated_tokens, 2);
}

// The device has the rows of the first step, so the second lists only its own.
TEST(SchedulerInFlightTest, ChangesAreRelativeToTheStepInFlight) {
  WorldOptions options = TwoInFlight();
  options.page_size = 4;
  SchedulerWorld world(options);
  world.Submit({.prompt = 3, .max_new = 20});
  world.Submit({.prompt = 4, .max_new = 20});
  const StepPlan* first = world.Plan();
  EXPECT_EQ(first->changed_rows.size(), 2u);
  const StepPlan* second = world.Plan();
  EXPECT_THAT(second->changed_rows, ElementsAre(1));  // position 4
  EXPECT_THAT(second->previous_rows, IsEmpty());
  world.Fail(*second);
  world.Commit(*first);
  const StepPlan* third = world.Plan();
  // The failed step's change was given back; whoever has it already gets it
  // again.
  EXPECT_THAT(third->changed_rows, testing::Contains(1));
}

TEST(SchedulerInFlightTest, ForkWaitsUntilNothingIsInFlight) {
  SchedulerWorld world(TwoInFlight());
  const RequestId a = world.Submit({.prompt = 4, .max_new = 6});
  const StepPlan* first = world.Plan();
  EXPECT_THAT(world.scheduler().Fork(a, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("commit it first")));
  world.Commit(*first);
  EXPECT_THAT(world.scheduler().Fork(a, 0), IsOk());
}

// Chunks of one prompt may be in flight together; a page is found by others
// only when the step that wrote it is committed.
TEST(SchedulerInFlightTest, ChunksOfOnePromptFollowEachOtherInFlight) {
  WorldOptions options = TwoInFlight();
  options.scheduler.max_prefill_chunk = 16;
  SchedulerWorld world(options);
  const RequestId a = world.Submit({.prompt = 40, .max_new = 2, .content = 1});
  const StepPlan* first = world.Plan();
  const StepPlan* second = world.Plan();
  EXPECT_EQ(second->positions[0], 16);
  EXPECT_EQ(world.pages().cached_pages, 0);
  world.Commit(*first);
  const RequestId b = world.Submit({.prompt = 40, .max_new = 2, .content = 1});
  const StepPlan* third = world.Plan();
  ASSERT_EQ(third->batch.num_seqs, 2);
  for (int32_t row = 0; row < 2; ++row) {
    if (third->requests[row] != b) continue;
    EXPECT_EQ(third->batch.kv_lens[row] - third->batch.q_len(row), 16);
  }
  world.Commit(*second);
  world.Commit(*third);
  world.RunAll();
  EXPECT_EQ(world.answer(a), Answer(2));
  EXPECT_EQ(world.result(b).cached_tokens, 16);
}

}  // namespace
}  // namespace tidewheel
