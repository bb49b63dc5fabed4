// Steps that fail, tokens that do not come, results that come late or twice.

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using absl::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> Undisturbed(int32_t generated) {
  std::vector<int32_t> answer;
  for (int32_t i = 0; i < generated; ++i) {
    answer.push_back(SchedulerWorld::kFirstAnswer + i);
  }
  return answer;
}

struct Shape {
  std::vector<uint64_t> requests;
  std::vector<int32_t> positions;
  std::vector<int32_t> token_ids;

  friend bool operator==(const Shape&, const Shape&) = default;
};

Shape ShapeOf(const StepPlan& plan) {
  Shape shape;
  for (const RequestId id : plan.requests) shape.requests.push_back(id.value);
  shape.positions.assign(plan.positions.begin(), plan.positions.end());
  shape.token_ids.assign(plan.token_ids.begin(), plan.token_ids.end());
  return shape;
}

TEST(SchedulerFailureTest, AFailedStepReturnsEverythingItTook) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 32, .max_new = 8});
  world.Step();
  EXPECT_EQ(world.pages().lent_pages, 2);
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(world.pages().lent_pages, 3);
  const Shape shape = ShapeOf(*plan);
  world.Fail();
  EXPECT_EQ(world.pages().lent_pages, 2);
  EXPECT_EQ(world.stats().failed_steps, 1);
  EXPECT_EQ(world.stats().steps, 1);
  plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(ShapeOf(*plan), shape);
  EXPECT_EQ(plan->step_id, 3);
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.answer(id), Undisturbed(8));
}

TEST(SchedulerFailureTest, AFailedAdmissionIsComputedAgainFromItsHit) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = 24;
  SchedulerWorld world(options);
  world.Submit({.prompt = 65, .max_new = 1, .content = 1});
  world.RunAll();
  const RequestId id = world.Submit({.prompt = 128, .content = 1});
  for (int32_t time = 0; time < 2; ++time) {
    const StepPlan* plan = world.Plan();
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(plan->positions[0], 64);
    EXPECT_EQ(world.q_len(id), 24);
    EXPECT_EQ(world.pages().promised_pages, 2);
    world.Fail();
    EXPECT_EQ(world.pages().lent_pages, 4);
    EXPECT_EQ(world.pages().promised_pages, 4);
  }
  world.RunAll();
  EXPECT_EQ(world.answer(id), Undisturbed(4));
}

// Its pages were promised to others in the meantime, had they not been kept.
TEST(SchedulerFailureTest, WhatAFailedStepHadTakenIsKeptForItsSequences) {
  WorldOptions options;
  options.num_pages = 3;
  SchedulerWorld world(options);
  const RequestId id = world.Submit({.prompt = 32, .max_new = 8});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  world.Fail();
  const RequestId other = world.Submit({.prompt = 16, .max_new = 1});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(id), 1);
  EXPECT_EQ(world.q_len(other), 0);
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.stats().preemptions, 0);
}

// Runs all; a step with one of `poison` in it fails.
void RunWithPoison(SchedulerWorld& world,
                   const std::vector<RequestId>& poison) {
  for (int32_t step = 0; world.scheduler().has_unfinished(); ++step) {
    ASSERT_LT(step, 2000);
    ASSERT_NE(world.Plan(), nullptr);
    bool fails = false;
    for (const RequestId id : poison) fails |= world.q_len(id) > 0;
    if (fails) {
      world.Fail();
    } else {
      world.Commit();
    }
  }
}

TEST(SchedulerFailureTest, OnlyTheRequestThatFailsIsGivenUp) {
  for (int32_t guilty = 0; guilty < 9; ++guilty) {
    SchedulerWorld world;
    std::vector<RequestId> ids;
    for (int32_t i = 0; i < 9; ++i) {
      ids.push_back(world.Submit({.prompt = 10 + i, .max_new = 12}));
    }
    for (int32_t i = 0; i < 3; ++i) world.Step();
    RunWithPoison(world, {ids[static_cast<size_t>(guilty)]});
    for (int32_t i = 0; i < 9; ++i) {
      const RequestId id = ids[static_cast<size_t>(i)];
      if (i == guilty) {
        EXPECT_EQ(world.reason(id), FinishReason::kStepFailed);
        EXPECT_FALSE(IsCompletion(world.reason(id)));
      } else {
        EXPECT_EQ(world.answer(id), Undisturbed(12)) << i;
      }
    }
    world.ExpectIdle();
  }
}

TEST(SchedulerFailureTest, SeveralGuiltyOnesAreFoundAmongChunksAndDecodes) {
  WorldOptions options;
  options.scheduler.max_prefill_chunk = 32;
  SchedulerWorld world(options);
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 8; ++i) {
    ids.push_back(world.Submit({.prompt = 10 + 20 * i, .max_new = 6}));
  }
  RunWithPoison(world, {ids[1], ids[2], ids[7]});
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool guilty = i == 1 || i == 2 || i == 7;
    EXPECT_EQ(world.reason(ids[i]),
              guilty ? FinishReason::kStepFailed : FinishReason::kMaxNewTokens)
        << i;
  }
}

// An innocent request that fails alone for a while is charged, and forgiven
// once it is computed.
TEST(SchedulerFailureTest,
     FailuresInARowAreCountedAndForgivenByATokenInBetween) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.max_new = 10});
  for (int32_t round = 0; round < 5; ++round) {
    for (int32_t failure = 0; failure < 2; ++failure) {
      ASSERT_NE(world.Plan(), nullptr);
      world.Fail();
    }
    ASSERT_TRUE(world.Step());
  }
  EXPECT_FALSE(world.finished(id));
  for (int32_t failure = 0; failure < 3; ++failure) {
    ASSERT_NE(world.Plan(), nullptr);
    world.Fail();
  }
  EXPECT_EQ(world.reason(id), FinishReason::kStepFailed);
  EXPECT_EQ(world.result(id).generated_tokens, 5);
  world.ExpectIdle();
}

TEST(SchedulerFailureTest, ADeviceThatAlwaysFailsEndsEveryRequest) {
  WorldOptions options;
  options.num_pages = 20;
  options.scheduler.max_num_seqs = 4;
  SchedulerWorld world(options);
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 12; ++i) ids.push_back(world.Submit({.prompt = 40}));
  int32_t steps = 0;
  while (world.scheduler().has_unfinished()) {
    ASSERT_LT(++steps, 200);
    ASSERT_NE(world.Plan(), nullptr);
    world.Fail();
  }
  for (const RequestId id : ids) {
    EXPECT_EQ(world.reason(id), FinishReason::kStepFailed);
  }
  world.ExpectIdle();
}

TEST(SchedulerFailureTest, NobodyIsAdmittedWhileAFailureIsNarrowedDown) {
  SchedulerWorld world;
  const RequestId a = world.Submit({.max_new = 20});
  const RequestId b = world.Submit({.max_new = 20});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  world.Fail();
  const RequestId newcomer = world.Submit({});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(a) + world.q_len(b), 1);
  EXPECT_EQ(world.wait_reason(newcomer), WaitReason::kFailures);
  EXPECT_THAT(world.why(newcomer), HasSubstr("failed step"));
  world.Commit();
  ASSERT_TRUE(world.Step());
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(newcomer), 16);
}

TEST(SchedulerFailureTest, RowsThatWereNotInTheFailedStepAreNotSuspected) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 2;
  options.scheduler.max_num_batched_tokens = 16;
  SchedulerWorld world(options);
  const RequestId first = world.Submit({.prompt = 40, .max_new = 2});
  const RequestId second = world.Submit({.prompt = 40, .max_new = 2});
  // Steps of 16: the second runs in the third one first.
  for (int32_t i = 0; i < 2; ++i) world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(first), 8);
  EXPECT_EQ(world.q_len(second), 8);
  world.Fail();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(first) > 0 ? 1 : 0, world.q_len(second) > 0 ? 0 : 1);
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.answer(first), Undisturbed(2));
  EXPECT_EQ(world.answer(second), Undisturbed(2));
}

// Case D1.
TEST(SchedulerFailureTest, ATokenThatDoesNotComeIsComputedAgain) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 31, .max_new = 5});
  const RequestId other = world.Submit({.prompt = 31, .max_new = 5});
  for (int32_t step = 0; step < 9; ++step) {
    ASSERT_NE(world.Plan(), nullptr);
    EXPECT_EQ(world.q_len(id), step < 2 ? 31 : 1) << step;
    if (step % 2 == 0) {
      world.CommitWithout(id);
    } else {
      world.Commit();
    }
  }
  world.RunAll();
  EXPECT_EQ(world.answer(id), Undisturbed(5));
  EXPECT_EQ(world.answer(other), Undisturbed(5));
  EXPECT_EQ(world.stats().generated_tokens, 10);
}

// Case D1.
TEST(SchedulerFailureTest, WithoutATokenPagesGoBackAndOneTokenIsLeftToCompute) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 32, .max_new = 5});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.pages().lent_pages, 3);
  world.CommitWithout(id);
  EXPECT_EQ(world.pages().lent_pages, 2);
  EXPECT_EQ(world.scheduler().Tokens(id).size(), 33u);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(id), 1);
}

TEST(SchedulerFailureTest, ARequestThatNeverGetsATokenIsGivenUpAlone) {
  SchedulerWorld world;
  const RequestId mute = world.Submit({.max_new = 9});
  const RequestId other = world.Submit({.max_new = 9});
  for (int32_t step = 0; step < 3; ++step) {
    EXPECT_FALSE(world.finished(mute));
    ASSERT_NE(world.Plan(), nullptr);
    world.CommitWithout(mute);
  }
  EXPECT_EQ(world.reason(mute), FinishReason::kStepFailed);
  world.RunAll();
  EXPECT_EQ(world.answer(other), Undisturbed(9));
}

// Case B8: each result is applied once or dropped once.
TEST(SchedulerFailureTest, LateAndRepeatedResultsAreDropped) {
  SchedulerWorld world;
  Scheduler& scheduler = world.scheduler();
  const RequestId id = world.Submit({.max_new = 3});
  const std::vector<int32_t> token = {77};
  EXPECT_THAT(scheduler.Commit(0, token),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("none is")));
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(
      scheduler.Commit(2, token),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("step 2 is not"), HasSubstr("step 1 is"))));
  EXPECT_THAT(scheduler.Commit(1, std::vector<int32_t>{1, 2}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("1 rows"), HasSubstr("2 sampled"))));
  EXPECT_EQ(scheduler.Tokens(id).size(), 16u);
  world.Commit();
  EXPECT_THAT(scheduler.Commit(1, token),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("twice")));
  EXPECT_THAT(scheduler.Fail(1),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("late")));
  EXPECT_EQ(scheduler.Tokens(id).size(), 17u);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(scheduler.Commit(1, token),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("step 2")));
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.answer(id), Undisturbed(3));
  EXPECT_EQ(world.stats().generated_tokens, 3);
}

TEST(SchedulerFailureTest, AResultAfterAFailureIsDropped) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.max_new = 3});
  ASSERT_NE(world.Plan(), nullptr);
  world.Fail();
  EXPECT_THAT(world.scheduler().Commit(1, std::vector<int32_t>{77}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("late")));
  world.RunAll();
  EXPECT_EQ(world.answer(id), Undisturbed(3));
}

}  // namespace
}  // namespace tidewheel
