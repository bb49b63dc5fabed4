// Who is let in, with how many tokens, and who may pass whom.

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

std::vector<int32_t> QueryLengths(const SchedulerWorld& world,
                                  const std::vector<RequestId>& ids) {
  std::vector<int32_t> lengths;
  for (const RequestId id : ids) lengths.push_back(world.q_len(id));
  return lengths;
}

// vLLM's test_schedule.
TEST(SchedulerAdmissionTest, AllThatFitIsAdmittedInOneStep) {
  SchedulerWorld world;
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 10; ++i) ids.push_back(world.Submit({.prompt = 10}));
  EXPECT_EQ(world.scheduler().num_waiting(), 10);
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(QueryLengths(world, ids), std::vector<int32_t>(10, 10));
  EXPECT_EQ(world.scheduler().num_running(), 10);
  EXPECT_EQ(world.scheduler().num_waiting(), 0);
}

// vLLM's test_schedule_concurrent_partial_requests.
TEST(SchedulerAdmissionTest, LongPromptsShareTheBudgetUnderACap) {
  WorldOptions options;
  options.num_pages = 300;
  options.scheduler.max_prefill_chunk = 400;
  SchedulerWorld world(options);
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 3; ++i) ids.push_back(world.Submit({.prompt = 800}));
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, ids), ElementsAre(400, 400, 224));
  world.Commit();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, ids), ElementsAre(400, 400, 224));
  world.Commit();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, ids), ElementsAre(1, 1, 352));
}

// Case D9.
TEST(SchedulerAdmissionTest, WhatATailLeavesIsFilledWithAPieceOfTheNext) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = 64;
  SchedulerWorld world(options);
  const RequestId a = world.Submit({.prompt = 74});
  world.Step();
  const RequestId b = world.Submit({.prompt = 100});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(a), 10);
  EXPECT_EQ(world.q_len(b), 54);
}

TEST(SchedulerAdmissionTest, DecodesGoBeforeChunksAndChunksBeforeAdmissions) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = 64;
  SchedulerWorld world(options);
  const RequestId decode = world.Submit({.prompt = 10, .max_new = 30});
  const RequestId chunks = world.Submit({.prompt = 164});
  world.Step();
  const RequestId waiting = world.Submit({.prompt = 20});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(decode), 1);
  EXPECT_EQ(world.q_len(chunks), 63);
  EXPECT_EQ(world.q_len(waiting), 0);
  world.Commit();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(chunks), 164 - 54 - 63);
  EXPECT_EQ(world.q_len(waiting), 16);
}

// vLLM's test_schedule_order: without chunks a head that does not fit the rest
// of the budget is not passed by shorter ones.
TEST(SchedulerAdmissionTest, WithoutChunksNobodyPassesAHeadThatLacksTokens) {
  WorldOptions options;
  options.num_pages = 200;
  options.scheduler.chunked_prefill = false;
  SchedulerWorld world(options);
  const RequestId first = world.Submit({.prompt = 800});
  const RequestId head = world.Submit({.prompt = 800});
  const RequestId small = world.Submit({.prompt = 10});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, {first, head, small}),
              ElementsAre(800, 0, 0));
  EXPECT_EQ(world.wait_reason(head), WaitReason::kTokens);
  world.Commit();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, {first, head, small}),
              ElementsAre(1, 800, 10));
}

TEST(SchedulerAdmissionTest, RowsAreTheLimitThoughPagesAreFree) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 2;
  SchedulerWorld world(options);
  std::vector<RequestId> ids;
  for (int32_t i = 0; i < 3; ++i) ids.push_back(world.Submit({.max_new = 3}));
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, ids), ElementsAre(16, 16, 0));
  EXPECT_EQ(world.wait_reason(ids[2]), WaitReason::kRows);
  world.Commit();
  EXPECT_EQ(world.RunAll(), 5);
}

// Case A4, with the figures of the report: a sequence that holds pages goes on
// before a head that lacks them, and a small one behind the head gets in.
TEST(SchedulerAdmissionTest, HoldersOfPagesFinishBehindAHeadThatDoesNotFit) {
  WorldOptions options;
  options.num_pages = 270;
  options.scheduler.max_model_len = 4200;
  options.scheduler.max_num_batched_tokens = 4000;
  SchedulerWorld world(options);
  const RequestId holder = world.Submit({.prompt = 4080, .max_new = 1});
  world.Step();
  EXPECT_EQ(world.pages().lent_pages, 250);
  const RequestId head = world.Submit({.prompt = 1600, .max_new = 1});
  const RequestId small = world.Submit({.prompt = 160, .max_new = 1});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(QueryLengths(world, {holder, head, small}),
              ElementsAre(80, 0, 160));
  world.Commit();
  EXPECT_EQ(world.RunAll(), 1);
  EXPECT_TRUE(world.finished(head));
}

WorldOptions TwelvePages(AdmissionPolicy admission) {
  WorldOptions options;
  options.num_pages = 12;
  options.scheduler.admission = admission;
  return options;
}

// Case A9.
TEST(SchedulerAdmissionTest, ReserveSerialisesHugeLimitsAndSaysSo) {
  SchedulerWorld world(TwelvePages(AdmissionPolicy::kReserve));
  const RequestId huge = world.Submit(
      {.prompt = 16, .max_new = 176, .end_token = 2, .script = {9, 9, 2}});
  const RequestId small = world.Submit({.prompt = 16, .max_new = 8});
  world.Step();
  EXPECT_EQ(world.pages().promised_pages, 11);
  EXPECT_EQ(world.wait_reason(small), WaitReason::kPages);
  EXPECT_THAT(world.why(small),
              testing::HasSubstr("2 pages and 0 of 12 are not promised"));
  EXPECT_THAT(world.why(small), testing::HasSubstr("lower max_new_tokens"));
  world.RunAll();
  EXPECT_THAT(world.finish_order(), ElementsAre(huge, small));
  EXPECT_EQ(world.stats().preemptions, 0);
}

// Case A9.
TEST(SchedulerAdmissionTest, OptimisticLetsBothInAtOnce) {
  SchedulerWorld world(TwelvePages(AdmissionPolicy::kOptimistic));
  world.Submit({.prompt = 16, .max_new = 176});
  const RequestId small = world.Submit({.prompt = 16, .max_new = 8});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(small), 16);
}

TEST(SchedulerAdmissionTest, ReserveNeverPreemptsHoweverTightThePool) {
  SchedulerWorld world(TwelvePages(AdmissionPolicy::kReserve));
  for (int32_t i = 0; i < 30; ++i) {
    world.Submit({.prompt = 1 + 7 * i % 90, .max_new = 1 + 5 * i % 60});
  }
  world.RunAll();
  EXPECT_EQ(world.stats().preemptions, 0);
  world.ExpectIdle();
}

TEST(SchedulerAdmissionTest, WatermarkStaysFreeWhileSomethingRuns) {
  WorldOptions options = TwelvePages(AdmissionPolicy::kOptimistic);
  options.scheduler.watermark_pages = 4;
  SchedulerWorld world(options);
  world.Submit({.prompt = 64, .max_new = 8});
  const RequestId exact = world.Submit({.prompt = 64, .max_new = 8});
  const RequestId above = world.Submit({.prompt = 1, .max_new = 8});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.q_len(exact), 64);
  EXPECT_EQ(world.q_len(above), 0);
  EXPECT_EQ(world.wait_reason(above), WaitReason::kPages);
  EXPECT_EQ(world.scheduler().Explain(above).needed, 1 + 4);
  EXPECT_EQ(world.scheduler().Explain(above).available, 4);
}

TEST(SchedulerAdmissionTest, WatermarkDoesNotKeepTheOnlyRequestOut) {
  WorldOptions options = TwelvePages(AdmissionPolicy::kOptimistic);
  options.scheduler.watermark_pages = 12;
  SchedulerWorld world(options);
  const RequestId id = world.Submit({.prompt = 192, .max_new = 1});
  world.RunAll();
  EXPECT_TRUE(world.finished(id));
}

// Case K5: a nine-page request and an endless stream of two-page ones.
TEST(SchedulerAdmissionTest, ABlockedHeadIsPassedExactlyMaxBypassesTimes) {
  WorldOptions options;
  options.num_pages = 10;
  options.scheduler.max_bypasses = 5;
  SchedulerWorld world(options);
  const RequestId running = world.Submit({.prompt = 32, .max_new = 14});
  world.Step();
  const RequestId big = world.Submit({.prompt = 140, .max_new = 4});
  std::vector<RequestId> stream;
  int32_t passed = 0;
  for (int32_t step = 0; step < 200 && !world.finished(big); ++step) {
    stream.push_back(world.Submit({.prompt = 20, .max_new = 3}));
    ASSERT_TRUE(world.Step());
    if (world.state(big) == Explanation::State::kWaiting) {
      passed = static_cast<int32_t>(
          std::count_if(stream.begin(), stream.end(), [&world](RequestId id) {
            return world.state(id) != Explanation::State::kWaiting;
          }));
    }
  }
  EXPECT_TRUE(world.finished(running));
  EXPECT_TRUE(world.finished(big));
  EXPECT_EQ(passed, 5);
}

TEST(SchedulerAdmissionTest, WithNoBypassesNobodyPassesAHead) {
  WorldOptions options;
  options.num_pages = 10;
  options.scheduler.max_bypasses = 0;
  SchedulerWorld world(options);
  world.Submit({.prompt = 32, .max_new = 14});
  world.Step();
  const RequestId big = world.Submit({.prompt = 140, .max_new = 4});
  const RequestId small = world.Submit({.prompt = 16, .max_new = 1});
  world.Step();
  EXPECT_EQ(world.wait_reason(big), WaitReason::kPages);
  EXPECT_EQ(world.wait_reason(small), WaitReason::kProtected);
  while (world.state(big) == Explanation::State::kWaiting) {
    ++world.now_us;
    EXPECT_EQ(world.state(small), Explanation::State::kWaiting);
    ASSERT_TRUE(world.Step());
  }
  world.RunAll();
  EXPECT_LE(world.result(big).admitted_us, world.result(small).admitted_us);
  EXPECT_EQ(world.stats().preemptions, 0);
}

TEST(SchedulerAdmissionTest, OnlyTheLookaheadMayPass) {
  WorldOptions options;
  options.num_pages = 10;
  options.scheduler.bypass_lookahead = 1;
  SchedulerWorld world(options);
  world.Submit({.prompt = 32, .max_new = 14});
  world.Step();
  world.Submit({.prompt = 140, .max_new = 4});
  const RequestId also_big = world.Submit({.prompt = 138, .max_new = 4});
  const RequestId small = world.Submit({.prompt = 16, .max_new = 1});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.wait_reason(also_big), WaitReason::kPages);
  EXPECT_EQ(world.q_len(small), 0);
  EXPECT_EQ(world.wait_reason(small), WaitReason::kBehind);
}

// Case D6: what is taken is the hit and the chunk, not the chunk alone.
TEST(SchedulerAdmissionTest, PagesCoverTheHitAndTheChunk) {
  WorldOptions options;
  options.scheduler.max_num_batched_tokens = 24;
  SchedulerWorld world(options);
  world.Submit({.prompt = 65, .max_new = 1, .content = 1});
  world.RunAll();
  const RequestId id = world.Submit({.prompt = 128, .content = 1});
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(world.q_len(id), 24);
  EXPECT_EQ(plan->batch.kv_lens[0], 88);
  const std::span<const int32_t> pages = plan->batch.pages(0);
  EXPECT_EQ(std::count_if(pages.begin(), pages.end(),
                          [](int32_t page) { return page != 0; }),
            6);
}

// Case J5: 17 tokens take two pages.
TEST(SchedulerAdmissionTest, PagesAndTokensAreCountedApart) {
  SchedulerWorld world;
  world.Submit({.prompt = 17});
  const StepPlan* plan = world.Plan();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(world.pages().lent_pages, 2);
  EXPECT_EQ(plan->kv_tokens, 17);
}

// Case I14: a waiting request never evicts a running one.
TEST(SchedulerAdmissionTest, AdmissionNeverTakesPagesFromAnybody) {
  WorldOptions options;
  options.num_pages = 8;
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  const RequestId low = world.Submit({.prompt = 100, .priority = 9});
  world.Step();
  const RequestId urgent = world.Submit({.prompt = 100, .priority = 0});
  while (!world.finished(low)) {
    ASSERT_TRUE(world.Step());
    if (!world.finished(low)) {
      EXPECT_EQ(world.state(urgent), Explanation::State::kWaiting);
    }
  }
  world.RunAll();
  EXPECT_EQ(world.stats().preemptions, 0);
}

// vLLM's test_priority_scheduling_basic_ordering, _arrival_time_tiebreaker,
// _fcfs_fallback, _with_limited_slots, _heap_property.
TEST(SchedulerAdmissionTest, PriorityOrdersAndArrivalBreaksTies) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  std::vector<RequestId> ids;
  for (const int32_t priority : {3, 1, 2, 1, -7, 3}) {
    ids.push_back(world.Submit({.max_new = 1, .priority = priority}));
  }
  world.RunAll();
  EXPECT_THAT(world.finish_order(),
              ElementsAre(ids[4], ids[1], ids[3], ids[2], ids[0], ids[5]));
}

TEST(SchedulerAdmissionTest, FcfsIgnoresPriorities) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  SchedulerWorld world(options);
  const RequestId a = world.Submit({.max_new = 1, .priority = 5});
  const RequestId b = world.Submit({.max_new = 1, .priority = 0});
  world.RunAll();
  EXPECT_THAT(world.finish_order(), ElementsAre(a, b));
}

// Case B7, as decided: a free slot is waited for, whoever holds it.
TEST(SchedulerAdmissionTest, AnUrgentRequestWaitsForASlotInsteadOfTakingOne) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 2;
  options.scheduler.policy = OrderingPolicy::kPriority;
  SchedulerWorld world(options);
  const RequestId low = world.Submit({.max_new = 9, .priority = 5});
  world.Submit({.max_new = 30, .priority = 5});
  world.Step();
  const RequestId urgent = world.Submit({.max_new = 1, .priority = 0});
  world.Step();
  EXPECT_EQ(world.wait_reason(urgent), WaitReason::kRows);
  world.RunAll();
  EXPECT_THAT(world.finish_order()[0], low);
  EXPECT_THAT(world.finish_order()[1], urgent);
  EXPECT_EQ(world.stats().preemptions, 0);
}

// How many urgent requests are served before one of low priority, if one
// urgent request arrives each millisecond.
int32_t UrgentServedBeforeLow(int64_t priority_age_us) {
  WorldOptions options;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.policy = OrderingPolicy::kPriority;
  options.scheduler.priority_age_us = priority_age_us;
  SchedulerWorld world(options);
  world.Submit({.max_new = 1, .priority = 0});
  const RequestId low = world.Submit({.max_new = 1, .priority = 10});
  for (int32_t served = 0; served < 100; ++served) {
    world.Step();
    if (world.finished(low)) return served;
    world.now_us += 1000;
    world.Submit({.max_new = 1, .priority = 0});
  }
  return 100;
}

// Case K3.
TEST(SchedulerAdmissionTest, AgeingEndsStarvationAfterTheStatedTime) {
  EXPECT_EQ(UrgentServedBeforeLow(0), 100);
  // Ten levels of 2 ms each are outweighed after 20 ms.
  EXPECT_EQ(UrgentServedBeforeLow(2000), 20);
}

}  // namespace
}  // namespace tidewheel
