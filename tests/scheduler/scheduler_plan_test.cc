// What a step plan says, and that it is all an embedder needs.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/sim/embedder_mirror.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

WorldOptions Budget(int32_t tokens) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = tokens;
  return options;
}

// Two decodes, a chunk of one token with more to come, and a long chunk, in
// that order however they arrived.
TEST(SchedulerPlanTest, RowsAreDecodesThenSingleTokensThenChunks) {
  WorldOptions options = Budget(40);
  options.scheduler.max_num_seqs = 4;
  options.scheduler.max_prefill_chunk = 20;
  SchedulerWorld world(options);
  const RequestId chunk = world.Submit({.prompt = 100});
  const RequestId a = world.Submit({.prompt = 8, .max_new = 20});
  const RequestId b = world.Submit({.prompt = 9, .max_new = 20});
  world.Step();
  const RequestId single = world.Submit({.prompt = 30});
  // 2 decodes and a chunk of 20 leave 18 tokens, which a cap of 20 gives out.
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->requests, ElementsAre(a, b, chunk, single));
  EXPECT_THAT(plan->batch.distribution, ElementsAre(2, 2, 4));
  EXPECT_THAT(plan->wants_logits, ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(plan->num_logits, 2);
  EXPECT_EQ(world.q_len(chunk), 20);
  EXPECT_EQ(world.q_len(single), 18);
}

TEST(SchedulerPlanTest, AChunkOfOneTokenThatSamplesNothingComesAfterDecodes) {
  WorldOptions options = Budget(2);
  options.scheduler.max_num_seqs = 2;
  SchedulerWorld world(options);
  const RequestId decode = world.Submit({.prompt = 2, .max_new = 20});
  world.Step();
  const RequestId chunk = world.Submit({.prompt = 5, .max_new = 1});
  for (int32_t step = 0; step < 5; ++step) {
    const StepPlan* plan = world.Plan();
    ASSERT_NE(plan, nullptr);
    EXPECT_EQ(plan->batch.distribution[0], 2);
    EXPECT_EQ(world.row(decode), 0);
    EXPECT_EQ(world.row(chunk), 1);
    EXPECT_EQ(plan->wants_logits[1], step == 4 ? 1 : 0);
    world.Commit();
  }
  EXPECT_TRUE(world.finished(chunk));
}

TEST(SchedulerPlanTest, TokensPositionsAndLengthsAreThoseOfTheSequence) {
  SchedulerWorld world(Budget(20));
  const RequestId id =
      world.Submit({.prompt = 30, .max_new = 3, .content = 1, .script = {55}});
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->step_id, 1);
  EXPECT_THAT(plan->token_ids, SizeIs(20));
  for (int32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(plan->token_ids[i], 10'000 + i);
    EXPECT_EQ(plan->positions[i], i);
  }
  EXPECT_EQ(plan->batch.kv_lens[0], 20);
  EXPECT_EQ(plan->kv_tokens, 20);
  EXPECT_EQ(plan->attention_pairs, 20 * 21 / 2);
  world.Commit();
  plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->token_ids.front(), 10'020);
  EXPECT_EQ(plan->positions.front(), 20);
  EXPECT_EQ(plan->batch.kv_lens[0], 30);
  // Token k of these ten sees the 20 before it and k + 1 more.
  EXPECT_EQ(plan->attention_pairs, 10 * 20 + 10 * 11 / 2);
  world.Commit();
  plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->step_id, 3);
  EXPECT_THAT(plan->token_ids, ElementsAre(55));
  EXPECT_THAT(plan->positions, ElementsAre(30));
  EXPECT_EQ(plan->attention_pairs, 31);
  EXPECT_EQ(world.q_len(id), 1);
}

TEST(SchedulerPlanTest, ArraysHaveTheTablesRowsAndArePaddedAsTheKernelWants) {
  WorldOptions options;
  SchedulerOptions fewer = options.scheduler;
  fewer.max_num_seqs = 3;
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(fewer, MakePages(options));
  ASSERT_THAT(scheduler, IsOk());
  const std::vector<int32_t> prompt(20, 1);
  Request request;
  request.prompt = prompt;
  for (int32_t i = 0; i < 4; ++i) {
    ASSERT_THAT((*scheduler)->Submit(request, 0), IsOk());
  }
  const StepPlan* plan = (*scheduler)->Plan(0).step;
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->batch.num_seqs, 3);
  EXPECT_EQ(plan->batch.max_num_seqs, 16);
  EXPECT_THAT(plan->batch.kv_lens, SizeIs(16));
  EXPECT_THAT(plan->batch.cu_q_lens, SizeIs(17));
  EXPECT_THAT(plan->batch.page_indices, SizeIs(16 * 64));
  EXPECT_THAT(plan->batch.kv_lens.subspan(3), Each(0));
  EXPECT_THAT(plan->batch.cu_q_lens.subspan(3), Each(60));
}

TEST(SchedulerPlanTest, PaddingFollowsABatchThatShrinksAndGrows) {
  SchedulerWorld world;
  for (int32_t i = 0; i < 6; ++i) {
    world.Submit({.prompt = 5, .max_new = 1 + i});
  }
  for (int32_t step = 0; step < 6; ++step) {
    const StepPlan* plan = world.Plan();
    ASSERT_NE(plan, nullptr);
    const int32_t rows = plan->batch.num_seqs;
    EXPECT_EQ(rows, 6 - step);
    EXPECT_THAT(plan->batch.kv_lens.subspan(static_cast<size_t>(rows)),
                Each(0));
    EXPECT_THAT(plan->batch.cu_q_lens.subspan(static_cast<size_t>(rows)),
                Each(plan->batch.total_q_tokens()));
    world.Commit();
  }
}

TEST(SchedulerPlanTest,
     SteadyDecodeMovesNothingAndChangesOnlyRowsThatTakeAPage) {
  SchedulerWorld world;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 8; ++i) {
    ids.push_back(world.Submit({.prompt = 17 + i, .max_new = 200}));
  }
  world.Step();
  world.Step();
  for (int32_t step = 0; step < 60; ++step) {
    const StepPlan* plan = world.Plan();
    ASSERT_NE(plan, nullptr);
    EXPECT_THAT(plan->previous_rows, IsEmpty());
    std::vector<int32_t> at_edge;
    for (int32_t row = 0; row < 8; ++row) {
      EXPECT_EQ(plan->requests[row], ids[static_cast<size_t>(row)]);
      if ((plan->batch.kv_lens[row] - 1) % 16 == 0) at_edge.push_back(row);
    }
    EXPECT_THAT(std::vector<int32_t>(plan->changed_rows.begin(),
                                     plan->changed_rows.end()),
                testing::UnorderedElementsAreArray(at_edge));
    world.Commit();
  }
}

TEST(SchedulerPlanTest, AnEmbedderThatFollowsTheListedChangesStaysInStep) {
  WorldOptions options;
  options.num_pages = 24;
  options.scheduler.max_num_seqs = 6;
  options.scheduler.max_num_batched_tokens = 48;
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  EmbedderMirror mirror;
  std::mt19937 random(7);
  std::vector<RequestId> ids;
  int32_t moves = 0;
  int32_t changes = 0;
  for (int32_t step = 0; step < 1500; ++step) {
    if (random() % 4 == 0) {
      ids.push_back(
          world.Submit({.prompt = static_cast<int32_t>(1 + random() % 90),
                        .max_new = static_cast<int32_t>(1 + random() % 90),
                        .priority = static_cast<int32_t>(random() % 3)}));
    }
    const StepPlan* plan = world.Plan();
    if (plan == nullptr) continue;
    for (const RequestId id : ids) {
      if (world.state(id) == Explanation::State::kWaiting) mirror.Forget(id);
    }
    ASSERT_THAT(mirror.Apply(*plan), IsOk()) << "step " << step;
    moves += plan->previous_rows.empty() ? 0 : 1;
    changes += mirror.num_changed();
    if (random() % 20 == 0) {
      mirror.Drop();
      world.Fail();
    } else {
      mirror.Commit();
      world.Commit();
    }
  }
  EXPECT_GT(moves, 100);
  EXPECT_GT(changes, 500);
  EXPECT_GT(world.stats().preemptions, 10);
}

// Moves after a failed step are still those since the last commit.
TEST(SchedulerPlanTest, AfterAFailedStepMovesAreThoseSinceTheLastCommit) {
  SchedulerWorld world;
  EmbedderMirror mirror;
  world.Submit({.prompt = 20, .max_new = 3});
  const RequestId b = world.Submit({.prompt = 20, .max_new = 9});
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_THAT(plan->previous_rows, ElementsAre(-1, -1));
  world.Fail();
  plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  // Only one of the two suspects runs, and neither was there at a commit.
  EXPECT_THAT(plan->requests, SizeIs(1));
  EXPECT_THAT(plan->previous_rows, ElementsAre(-1, -1));
  EXPECT_THAT(mirror.Apply(*plan), IsOk());
  mirror.Commit();
  world.Commit();
  world.RunAll();
  EXPECT_TRUE(world.finished(b));
}

TEST(SchedulerPlanTest, NothingToRunIsNoBatchAndNotInFlight) {
  SchedulerWorld world;
  EXPECT_EQ(world.Plan(), nullptr);
  EXPECT_EQ(world.Plan(), nullptr);
  EXPECT_THAT(world.scheduler().Commit(0, {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("none is")));
}

}  // namespace
}  // namespace tidewheel
