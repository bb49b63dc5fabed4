// Who gives up pages, when, and that nothing is lost by it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;

WorldOptions Pool(int32_t num_pages, int32_t budget = 1024) {
  WorldOptions options;
  options.num_pages = num_pages;
  options.scheduler.max_num_batched_tokens = budget;
  return options;
}

// What a request generates when nothing else runs.
std::vector<int32_t> Undisturbed(int32_t generated) {
  std::vector<int32_t> answer;
  for (int32_t i = 0; i < generated; ++i) {
    answer.push_back(SchedulerWorld::kFirstAnswer + i);
  }
  return answer;
}

// Case A6: two page-aligned prompts fill the pool, and both want a page at
// their first decode.
TEST(SchedulerPreemptionTest,
     WhenBothNeedAPageTheLaterGivesWayAndNothingIsLost) {
  SchedulerWorld world(Pool(7));
  const RequestId a = world.Submit({.prompt = 64, .max_new = 8});
  const RequestId b = world.Submit({.prompt = 48, .max_new = 8});
  world.Step();
  EXPECT_EQ(world.pages().lent_pages, 7);
  world.RunAll();
  EXPECT_EQ(world.result(a).preemptions, 0);
  EXPECT_EQ(world.result(b).preemptions, 1);
  EXPECT_EQ(world.answer(a), Undisturbed(8));
  EXPECT_EQ(world.answer(b), Undisturbed(8));
}

// Case A12: who is preempted in a call is not looked at again in that call.
TEST(SchedulerPreemptionTest, AVictimIsNotAdmittedAgainInTheSameStep) {
  SchedulerWorld world(Pool(4));
  const RequestId first = world.Submit({.prompt = 32, .max_new = 17});
  const RequestId victim = world.Submit({.prompt = 32, .max_new = 17});
  const RequestId waiting = world.Submit({.prompt = 48, .max_new = 2});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(first), 1);
  EXPECT_EQ(world.q_len(victim), 0);
  EXPECT_EQ(world.wait_reason(victim), WaitReason::kPreempted);
  EXPECT_EQ(world.q_len(waiting), 0);
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.finish_order().size(), 3u);
  world.ExpectIdle();
}

// Case B1: admission asks for the whole context, not for the next chunk.
TEST(SchedulerPreemptionTest, TwoLongPromptsRunOneAfterTheOtherWithoutWaste) {
  SchedulerWorld world(Pool(12, 32));
  const RequestId r1 = world.Submit({.prompt = 128, .max_new = 32});
  const RequestId r2 = world.Submit({.prompt = 128, .max_new = 32});
  world.RunAll();
  EXPECT_THAT(world.finish_order(), ElementsAre(r1, r2));
  EXPECT_EQ(world.result(r2).preemptions, 0);
  EXPECT_EQ(world.computed_tokens(r1), 128 + 31);
  EXPECT_EQ(world.computed_tokens(r2), 128 + 31);
  EXPECT_EQ(world.stats().recomputed_tokens, 0);
}

// Case B2: a pool for exactly one request serves them in turn, and one page
// less serves none.
TEST(SchedulerPreemptionTest, APoolForOneRequestServesManyInTurn) {
  WorldOptions options = Pool(48);
  SchedulerWorld world(options);
  for (int32_t i = 0; i < 20; ++i) {
    world.Submit({.prompt = 512, .max_new = 256});
  }
  world.RunAll();
  EXPECT_EQ(world.finish_order().size(), 20u);
  options.num_pages = 47;
  SchedulerWorld too_small(options);
  EXPECT_FALSE(too_small.TrySubmit({.prompt = 512, .max_new = 256}).ok());
}

// Case B3: an overloaded pool, yet few preemptions for each request.
TEST(SchedulerPreemptionTest, PreemptionsPerRequestStayFewUnderPressure) {
  SchedulerWorld world(Pool(40));
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 60; ++i) {
    ids.push_back(world.Submit({.prompt = 30 + i % 9, .max_new = 100}));
  }
  world.RunAll();
  int32_t most = 0;
  for (const RequestId id : ids) {
    most = std::max(most, world.result(id).preemptions);
    EXPECT_EQ(world.answer(id), Undisturbed(100));
  }
  EXPECT_GT(world.stats().preemptions, 0);
  EXPECT_LE(most, 8);
}

// Case B10: what was generated is computed again too, and the next token is
// sampled only after the last chunk.
TEST(SchedulerPreemptionTest, ResumingComputesPromptAndGeneratedTokensAgain) {
  WorldOptions options = Pool(4, 64);
  options.prefix_cache = false;
  options.scheduler.max_prefill_chunk = 16;
  SchedulerWorld world(options);
  // Two pages at 25 tokens; the first wants the pool's last one and more.
  const RequestId first = world.Submit({.prompt = 16, .max_new = 49});
  const RequestId victim = world.Submit({.prompt = 20, .max_new = 20});
  while (world.stats().preemptions == 0) ASSERT_TRUE(world.Step());
  const size_t known = world.scheduler().Tokens(victim).size();
  ASSERT_GT(known, 32u);
  while (world.state(victim) == Explanation::State::kWaiting) {
    ASSERT_NE(world.Plan(), nullptr);
    if (world.q_len(victim) > 0) break;
    world.Commit();
  }
  EXPECT_TRUE(world.finished(first));
  EXPECT_EQ(world.q_len(victim), 16);
  EXPECT_FALSE(world.wants_logits(victim));
  world.Commit();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(victim), 16);
  EXPECT_FALSE(world.wants_logits(victim));
  world.Commit();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(victim), static_cast<int32_t>(known) - 32);
  EXPECT_TRUE(world.wants_logits(victim));
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.answer(victim), Undisturbed(20));
  EXPECT_EQ(world.stats().recomputed_tokens, static_cast<int32_t>(known) - 1);
}

TEST(SchedulerPreemptionTest, PreemptedTwiceItStillGeneratesTheSame) {
  SchedulerWorld world(Pool(9));
  const RequestId a = world.Submit({.prompt = 30, .max_new = 100});
  const RequestId b = world.Submit({.prompt = 30, .max_new = 100});
  const RequestId c = world.Submit({.prompt = 30, .max_new = 100});
  world.RunAll();
  EXPECT_GE(world.result(c).preemptions, 2);
  for (const RequestId id : {a, b, c}) {
    EXPECT_EQ(world.answer(id), Undisturbed(100));
  }
}

// Preemptions in the first two decodes of `at_edge` sequences of `prompt`
// tokens beside others that need no page, with 32 pages of 64 tokens left.
int64_t PreemptionsWithPagesLeft(int32_t at_edge, int32_t prompt) {
  constexpr int32_t kSequences = 148;
  WorldOptions options;
  options.page_size = 64;
  options.num_pages = kSequences + 32;
  options.scheduler.max_num_seqs = kSequences;
  options.scheduler.max_num_batched_tokens = kSequences * 64;
  SchedulerWorld world(options);
  for (int32_t i = 0; i < kSequences; ++i) {
    world.Submit({.prompt = i < at_edge ? prompt : 10, .max_new = 20});
  }
  for (int32_t step = 0; step < 3; ++step) world.Step();
  return world.stats().preemptions;
}

// Case D5: what a decode needs is a page, not a token, and only at an edge.
TEST(SchedulerPreemptionTest, DecodesNeedAPageOnlyAtAPageEdge) {
  EXPECT_EQ(PreemptionsWithPagesLeft(0, 64), 0);
  for (const int32_t prompt : {63, 64}) {
    EXPECT_EQ(PreemptionsWithPagesLeft(32, prompt), 0) << prompt;
    EXPECT_EQ(PreemptionsWithPagesLeft(33, prompt), 1) << prompt;
  }
  // 65 tokens have two pages from the start and need none for long.
  EXPECT_EQ(PreemptionsWithPagesLeft(32, 65), 0);
}

WorldOptions SharedPairs(int32_t num_pages) {
  WorldOptions options = Pool(num_pages);
  options.scheduler.max_prefill_chunk = 16;
  return options;
}

// Case B5b: the victim would be the one with the fewest tokens to compute, but
// it shares all its pages and frees nothing.
TEST(SchedulerPreemptionTest, AVictimThatFreesNothingIsNotChosen) {
  SchedulerWorld world(SharedPairs(5));
  const RequestId first = world.Submit({.prompt = 16, .max_new = 32});
  const RequestId holder =
      world.Submit({.prompt = 32, .max_new = 20, .content = 1});
  const RequestId sharer =
      world.Submit({.prompt = 32, .max_new = 4, .content = 1});
  while (world.stats().preemptions == 0) ASSERT_TRUE(world.Step());
  EXPECT_EQ(world.state(first), Explanation::State::kRunning);
  EXPECT_EQ(world.state(holder), Explanation::State::kWaiting);
  EXPECT_EQ(world.state(sharer), Explanation::State::kRunning);
  world.RunAll();
  EXPECT_EQ(world.result(sharer).preemptions, 0);
  EXPECT_EQ(world.answer(holder), Undisturbed(20));
}

// Two that share all their pages free none of them alone. Together they do, and
// must, for the first has nobody else to take a page from.
TEST(SchedulerPreemptionTest, SequencesThatShareAllPagesGiveThemUpTogether) {
  SchedulerWorld world(SharedPairs(5));
  const RequestId first = world.Submit({.prompt = 32, .max_new = 33});
  const RequestId b = world.Submit({.prompt = 32, .max_new = 4, .content = 1});
  const RequestId c = world.Submit({.prompt = 32, .max_new = 4, .content = 1});
  world.RunAll();
  EXPECT_EQ(world.answer(first), Undisturbed(33));
  EXPECT_EQ(world.result(first).preemptions, 0);
  EXPECT_EQ(world.answer(b), Undisturbed(4));
  EXPECT_EQ(world.answer(c), Undisturbed(4));
  world.ExpectIdle();
}

// vLLM's test_priority_scheduling_preemption.
TEST(SchedulerPreemptionTest, UnderPriorityTheLeastUrgentGivesWay) {
  WorldOptions options = Pool(7);
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  const RequestId low =
      world.Submit({.prompt = 48, .max_new = 8, .priority = 5});
  const RequestId urgent =
      world.Submit({.prompt = 64, .max_new = 8, .priority = 0});
  world.RunAll();
  EXPECT_EQ(world.result(urgent).preemptions, 0);
  EXPECT_EQ(world.result(low).preemptions, 1);
}

// vLLM's test_priority_scheduling_no_preemption_when_space_available.
TEST(SchedulerPreemptionTest, WithoutPressureNobodyIsPreempted) {
  WorldOptions options = Pool(20);
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  for (const int32_t priority : {5, 0, 3}) {
    world.Submit({.prompt = 64, .max_new = 8, .priority = priority});
  }
  world.RunAll();
  EXPECT_EQ(world.stats().preemptions, 0);
}

TEST(SchedulerPreemptionTest, TheVictimIsWhoCostsLeastAmongTheAllowed) {
  SchedulerWorld world(Pool(10));
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId cheap = world.Submit({.prompt = 20, .max_new = 8});
  const RequestId dear = world.Submit({.prompt = 60, .max_new = 8});
  world.Step();
  EXPECT_EQ(world.pages().lent_pages, 10);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.state(cheap), Explanation::State::kWaiting);
  EXPECT_EQ(world.state(dear), Explanation::State::kRunning);
}

TEST(SchedulerPreemptionTest, OfEqualCostTheLastInRankGivesWay) {
  SchedulerWorld world(Pool(8));
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId before = world.Submit({.prompt = 20, .max_new = 8});
  const RequestId last = world.Submit({.prompt = 20, .max_new = 8});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.state(before), Explanation::State::kRunning);
  EXPECT_EQ(world.state(last), Explanation::State::kWaiting);
}

// Whoever ranks last and lacks a page keeps what it has and waits.
TEST(SchedulerPreemptionTest,
     TheLastInRankWaitsForAPageWithoutPreemptingItself) {
  SchedulerWorld world(Pool(4));
  const RequestId first = world.Submit({.prompt = 40, .max_new = 8});
  const RequestId last = world.Submit({.prompt = 16, .max_new = 8});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(first), 1);
  EXPECT_EQ(world.q_len(last), 0);
  EXPECT_EQ(world.state(last), Explanation::State::kRunning);
  world.Commit();
  world.RunAll();
  EXPECT_EQ(world.result(last).preemptions, 0);
}

// vLLM's test_priority_scheduler_preempt_skipped_request: a victim whose row is
// before that of others must not make them lose their turn.
TEST(SchedulerPreemptionTest, NobodyElseLosesATurnWhenARowInTheMiddleLeaves) {
  WorldOptions options = Pool(10);
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  const RequestId victim =
      world.Submit({.prompt = 20, .max_new = 8, .priority = 9});
  std::vector<RequestId> others;
  for (int32_t i = 0; i < 3; ++i) {
    others.push_back(world.Submit({.prompt = 20, .max_new = 8, .priority = 1}));
  }
  const RequestId urgent =
      world.Submit({.prompt = 32, .max_new = 8, .priority = 0});
  world.Step();
  EXPECT_EQ(world.pages().lent_pages, 10);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.state(victim), Explanation::State::kWaiting);
  EXPECT_EQ(world.q_len(urgent), 1);
  for (const RequestId id : others) EXPECT_EQ(world.q_len(id), 1);
}

// Case J8: whoever comes back is not counted again.
TEST(SchedulerPreemptionTest, ArrivalsAreFinishedAndRunningAndWaiting) {
  SchedulerWorld world(Pool(9));
  for (int32_t i = 0; i < 6; ++i) world.Submit({.prompt = 30, .max_new = 60});
  while (world.scheduler().has_unfinished()) {
    ASSERT_TRUE(world.Step());
    EXPECT_EQ(world.stats().accepted, world.stats().finished +
                                          world.scheduler().num_running() +
                                          world.scheduler().num_waiting());
  }
  EXPECT_GT(world.stats().preemptions, 0);
  EXPECT_EQ(world.stats().finished, 6);
  EXPECT_EQ(world.stats().generated_tokens, 6 * 60);
}

// Case J3: random prompts have no hits, and what a preempted request finds of
// its own is counted apart.
TEST(SchedulerPreemptionTest, HitsOfPreemptedRequestsAreCountedApart) {
  SchedulerWorld world(Pool(9));
  for (int32_t i = 0; i < 6; ++i) world.Submit({.prompt = 30, .max_new = 60});
  world.RunAll();
  const SchedulerStats& stats = world.stats();
  EXPECT_EQ(stats.prefix_cache_queries, 6 * 30);
  EXPECT_EQ(stats.prefix_cache_hits, 0);
  EXPECT_GT(stats.preempted_prefix_cache_queries, 0);
  EXPECT_LE(stats.preempted_prefix_cache_hits,
            stats.preempted_prefix_cache_queries);
}

}  // namespace
}  // namespace tidewheel
