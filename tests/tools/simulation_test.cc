#include "tools/simulation.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/simulated_world.h"
#include "tools/report/serving_metrics.h"
#include "tools/workload/builtin_workload.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

using State = RequestRecord::State;

// What two runs must agree on.
using Outcome =
    std::tuple<int64_t, int64_t, int64_t, int64_t, int32_t, int32_t, int32_t>;

std::vector<Outcome> OutcomesOf(const SimulationResult& result) {
  std::vector<Outcome> outcomes;
  for (const RequestRecord& r : result.requests) {
    outcomes.emplace_back(r.sent_us, r.admitted_us, r.first_token_us,
                          r.ended_us, r.generated_tokens, r.cached_tokens,
                          r.preemptions);
  }
  return outcomes;
}

Trace MixedWorkload(int64_t num_requests) {
  BuiltinWorkloadOptions options;
  options.num_requests = num_requests;
  options.request_rate = 2000;  // the tiny model is fast
  options.fixed_lengths = FixedLengths{
      .input_tokens = 120, .output_tokens = 60, .range_ratio = 0.8};
  options.seed = 3;
  const absl::StatusOr<Trace> trace = GenerateBuiltinWorkload(options);
  EXPECT_THAT(trace, IsOk());
  return *trace;
}

TEST(SimulationTest, EveryRequestGeneratesItsTrueLength) {
  const Trace trace = MixedWorkload(200);
  for (const DeclaredTokens& declared :
       {DeclaredTokens{},
        DeclaredTokens{.rule = DeclaredTokens::Rule::kAtLeast, .tokens = 100},
        DeclaredTokens{.rule = DeclaredTokens::Rule::kFactor, .factor = 1.5},
        DeclaredTokens{.rule = DeclaredTokens::Rule::kUndeclared}}) {
    const SimulationResult result =
        RunInWorld({}, trace, {.declared = declared});
    ASSERT_EQ(result.requests.size(), trace.requests.size());
    for (size_t i = 0; i < trace.requests.size(); ++i) {
      ASSERT_TRUE(result.requests[i].is_complete());
      ASSERT_EQ(result.requests[i].generated_tokens,
                trace.requests[i].output_tokens);
    }
  }
}

TEST(SimulationTest, RequestThatDeclaresMoreEndsByItsEndToken) {
  const Trace trace = TraceOf({{0, 20, 5}, {0, 20, 100}});
  const SimulationResult result = RunInWorld(
      {}, trace,
      {.declared = {.rule = DeclaredTokens::Rule::kAtLeast, .tokens = 100}});
  EXPECT_EQ(result.requests[0].finish_reason, FinishReason::kEndToken);
  EXPECT_EQ(result.requests[1].finish_reason, FinishReason::kMaxNewTokens);
}

// Two workloads that differ in their true lengths alone: until the first of
// them ends, the scheduler can not tell one from the other.
TEST(SimulationTest, TrueLengthIsInvisibleUntilTheRequestEnds) {
  using Step = std::tuple<int32_t, int32_t, int64_t, int32_t>;
  const auto steps_of = [](int32_t output_tokens) {
    std::vector<Step> steps;
    SimulationOptions options;
    options.declared = {.rule = DeclaredTokens::Rule::kAtLeast, .tokens = 200};
    options.on_step = [&steps](const StepRecord& step) {
      steps.emplace_back(step.plan.batch.num_seqs,
                         step.plan.batch.total_q_tokens(), step.plan.kv_tokens,
                         step.pages.promised_pages);
    };
    WorldOptions world;
    world.usable_pages = 60;
    world.scheduler.admission = AdmissionPolicy::kReserve;
    RunInWorld(world, EqualRequests(12, {0, 90, output_tokens}, 0), options);
    return steps;
  };
  const std::vector<Step> shorter = steps_of(40);
  const std::vector<Step> longer = steps_of(150);
  constexpr size_t kStepsBeforeAnyEnd = 39;
  ASSERT_GT(shorter.size(), kStepsBeforeAnyEnd);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.begin() + kStepsBeforeAnyEnd,
                         longer.begin()));
}

TEST(SimulationTest, ClockJumpsOverIdleTime) {
  constexpr int64_t kLate = 3'600'000'000;
  const SimulationResult result =
      RunInWorld({}, TraceOf({{0, 20, 4}, {kLate, 20, 4}}), {});
  EXPECT_EQ(result.scheduler.steps, 8);
  EXPECT_EQ(result.requests[1].admitted_us, kLate);
  EXPECT_GT(result.end_us, kLate);
  EXPECT_LT(result.usage.busy_s, 1);
}

TEST(SimulationTest, LatencyCountsFromAnArrivalWithinAStep) {
  // The second request comes one microsecond after the first step began.
  const SimulationResult result =
      RunInWorld({}, TraceOf({{0, 20, 4}, {1, 20, 4}}), {});
  const RequestRecord& late = result.requests[1];
  EXPECT_EQ(late.sent_us, 1);
  EXPECT_EQ(late.admitted_us, result.requests[0].first_token_us);
  EXPECT_GT(late.first_token_us, late.admitted_us);
}

TEST(SimulationTest, GapsAreTheTimesBetweenARequestsTokens) {
  const SimulationResult result =
      RunInWorld({}, EqualRequests(5, {0, 30, 9}, 300), {});
  double gaps_ms = 0;
  for (const RequestRecord& r : result.requests) {
    gaps_ms += static_cast<double>(r.ended_us - r.first_token_us) / 1000;
  }
  const Distribution itl = result.gaps.DescribeMs({});
  EXPECT_EQ(itl.count, 5 * 8);
  EXPECT_NEAR(itl.mean * 40, gaps_ms, 1e-9);
}

TEST(SimulationTest, PreemptedSequencesGapSpansItsAbsence) {
  WorldOptions world;
  world.usable_pages = 6;
  // Both fit with their prompts, not with what they generate.
  const SimulationResult result =
      RunInWorld(world, TraceOf({{0, 40, 40}, {0, 40, 40}}), {});
  ASSERT_GT(result.scheduler.preemptions, 0);
  EXPECT_EQ(result.requests[1].preemptions, result.scheduler.preemptions);
  const Distribution itl = result.gaps.DescribeMs({});
  EXPECT_EQ(itl.count, 2 * 39);
  EXPECT_GT(itl.max, 10 * itl.median);
}

TEST(SimulationTest, ClientsSendTheNextRequestWhenOneEnds) {
  SimulationOptions options;
  options.max_concurrency = 3;
  int32_t most = 0;
  options.on_step = [&most](const StepRecord& step) {
    most = std::max(most, step.num_running + step.num_waiting);
  };
  const SimulationResult result =
      RunInWorld({}, EqualRequests(20, {0, 30, 6}, 0), options);
  EXPECT_EQ(most, 3);
  EXPECT_EQ(result.peak_in_flight, 3);
  std::vector<int64_t> ends;
  for (const RequestRecord& r : result.requests) {
    EXPECT_EQ(r.arrival_us, 0);
    if (r.sent_us > 0) {
      EXPECT_THAT(ends, testing::Contains(r.sent_us));
    }
    ends.push_back(r.ended_us);
  }
}

TEST(SimulationTest, FreeClientSendsWithinAStep) {
  // Two clients, so the second request need not wait for the first.
  const SimulationResult result =
      RunInWorld({}, TraceOf({{0, 20, 4}, {1, 20, 4}, {2, 20, 4}}),
                 {.max_concurrency = 2});
  EXPECT_EQ(result.requests[1].sent_us, 1);
  EXPECT_EQ(result.requests[2].sent_us, result.requests[0].ended_us);
}

TEST(SimulationTest, LaterTurnArrivesAThinkTimeAfterTheTurnBefore) {
  constexpr int64_t kThink = 5'000'000;
  const SimulationResult result = RunInWorld(
      {}, TraceOf({{0, 20, 4}, {kThink, 30, 4, 0}, {100, 20, 4}}), {});
  EXPECT_EQ(result.requests[1].arrival_us,
            result.requests[0].ended_us + kThink);
  EXPECT_TRUE(result.requests[1].is_complete());
  EXPECT_LT(result.requests[2].ended_us, kThink);
}

TEST(SimulationTest, RefusedRequestsAreCountedAndFollowedByTheirLaterTurns) {
  const SimulationResult result =
      RunInWorld({}, TraceOf({{0, 5000, 4}, {10, 30, 4, 0}, {0, 20, 4}}), {});
  EXPECT_EQ(result.requests[0].state, State::kRefused);
  EXPECT_EQ(result.requests[0].refusal, Refusal::kExceedsModel);
  EXPECT_TRUE(result.requests[1].is_complete());
  EXPECT_TRUE(result.requests[2].is_complete());
  EXPECT_EQ(ComputeMetrics(result, {}).refused, 1);
}

TEST(SimulationTest, FullQueueRefusesInsteadOfGrowing) {
  WorldOptions world;
  world.scheduler.max_waiting = 4;
  const SimulationResult result =
      RunInWorld(world, EqualRequests(50, {0, 200, 20}, 0), {});
  const ServingMetrics metrics = ComputeMetrics(result, {});
  EXPECT_GT(metrics.completed, 0);
  EXPECT_GT(metrics.refused, 0);
  EXPECT_EQ(metrics.completed + metrics.refused, 50);
}

// Failure case B2: 512 prompt and 256 output tokens need 767 slots, 48 pages.
TEST(SimulationTest, PoolOfOneRequestServesThemOneByOne) {
  WorldOptions world;
  world.usable_pages = 48;
  world.scheduler.max_num_batched_tokens = 2048;
  const Trace trace = EqualRequests(20, {0, 512, 256}, 500);
  const SimulationResult result = RunInWorld(world, trace, {});
  EXPECT_EQ(ComputeMetrics(result, {}).completed, 20);
  EXPECT_EQ(result.peak_running, 1);
}

TEST(SimulationTest, PoolThatLacksOnePageRefusesAllOfThem) {
  WorldOptions world;
  world.usable_pages = 47;
  world.scheduler.max_num_batched_tokens = 2048;
  const Trace trace = EqualRequests(20, {0, 512, 256}, 500);
  const SimulationResult result = RunInWorld(world, trace, {});
  EXPECT_EQ(result.scheduler.steps, 0);
  for (const RequestRecord& r : result.requests) {
    EXPECT_EQ(r.refusal, Refusal::kExceedsPool);
  }
  ASSERT_EQ(result.refusal_examples.size(), 1u);
  EXPECT_THAT(
      result.refusal_examples[0],
      HasSubstr("request 0: prompt of 512 tokens and max_new_tokens 256 "
                "need 48 pages of 16 tokens but the whole pool has 47"));
}

// Failure case A9: 12 pages, of which the first request may need all.
TEST(SimulationTest, ReservedPagesThatNobodyUsesHoldOthersBack) {
  WorldOptions world;
  world.usable_pages = 12;
  const Trace trace = TraceOf({{0, 16, 176}, {0, 16, 8}});
  world.scheduler.admission = AdmissionPolicy::kReserve;
  const SimulationResult reserved = RunInWorld(world, trace, {});
  EXPECT_EQ(reserved.requests[1].admitted_us, reserved.requests[0].ended_us);
  EXPECT_EQ(reserved.scheduler.preemptions, 0);
  // The reason shows: all pages are spoken for, few are in use.
  EXPECT_DOUBLE_EQ(reserved.usage.peak_promised, 11.0 / 12);
  EXPECT_LT(reserved.usage.mean_slots, 0.6);
  world.scheduler.admission = AdmissionPolicy::kOptimistic;
  const SimulationResult result = RunInWorld(world, trace, {});
  EXPECT_EQ(result.requests[1].admitted_us, 0);
}

// Failure case B12: hits on pages that were given to somebody else made a
// simulator faster than its hardware.
TEST(SimulationTest, ThroughputDoesNotRiseOnceThePoolIsFull) {
  WorldOptions world;
  world.usable_pages = 100;  // 8 requests at the end of their lives
  world.scheduler.max_num_seqs = 64;
  const Trace trace = EqualRequests(150, {0, 96, 96}, 0);
  std::vector<double> throughput;
  for (const int32_t clients : {16, 32, 64}) {
    SimulationOptions options;
    options.max_concurrency = clients;
    int64_t rows = 0;
    options.on_step = [&rows](const StepRecord& step) {
      EXPECT_LE(step.plan.num_logits, step.plan.batch.num_seqs);
      rows += step.plan.batch.num_seqs;
    };
    const SimulationResult result = RunInWorld(world, trace, options);
    EXPECT_LE(result.scheduler.generated_tokens, rows);
    throughput.push_back(ComputeMetrics(result, {}).output_throughput);
  }
  for (size_t i = 1; i < throughput.size(); ++i) {
    EXPECT_LE(throughput[i], throughput[0] * 1.02) << i;
  }
}

// Failure case J3.
TEST(SimulationTest, RecomputedTokensAreNoHitsOfFirstAdmissions) {
  WorldOptions world;
  world.usable_pages = 40;
  const SimulationResult result =
      RunInWorld(world, EqualRequests(30, {0, 100, 100}, 0), {});
  ASSERT_GT(result.scheduler.preemptions, 0);
  EXPECT_EQ(result.scheduler.prefix_cache_queries, 30 * 100);
  EXPECT_EQ(result.scheduler.prefix_cache_hits, 0);
  EXPECT_GT(result.scheduler.preempted_prefix_cache_queries, 0);
  int32_t preemptions = 0;
  for (const RequestRecord& r : result.requests) preemptions += r.preemptions;
  EXPECT_EQ(preemptions, result.scheduler.preemptions);
}

// Failure case J5: 17 tokens in pages of 16 take 2 pages but 17 of 32 slots.
TEST(SimulationTest, PagesInUseAndSlotsInUseAreToldApart) {
  WorldOptions world;
  world.usable_pages = 100;
  const SimulationResult result =
      RunInWorld(world, EqualRequests(5, {0, 17, 1}, 0), {});
  EXPECT_DOUBLE_EQ(result.usage.peak_pages, 10.0 / 100);
  EXPECT_DOUBLE_EQ(result.usage.peak_slots, 5 * 17.0 / (100 * 16));
  EXPECT_DOUBLE_EQ(result.usage.mean_pages, result.usage.peak_pages);
}

TEST(SimulationTest, SharedPagesAreInUseOnce) {
  Trace trace = EqualRequests(5, {0, 33, 30}, 0);
  for (TraceRequest& request : trace.requests) request.first_segment = 0;
  // The first is alone until its prompt can be found.
  for (size_t i = 1; i < 5; ++i) trace.requests[i].arrival_us = 1;
  WorldOptions world;
  world.usable_pages = 100;
  const SimulationResult result = RunInWorld(world, trace, {});
  EXPECT_EQ(result.scheduler.prefix_cache_hits, 4 * 32);
  // Two shared pages and, in the end, two of each request's own.
  EXPECT_DOUBLE_EQ(result.usage.peak_pages, (2 + 5 * 2) / 100.0);
  EXPECT_LT(result.usage.peak_slots, result.usage.peak_pages);
}

// Failure case I14: neither the run nor the hash seed shows.
TEST(SimulationTest, SameTraceHasTheSameOutcomeWhateverTheHashSeed) {
  WorldOptions world;
  world.usable_pages = 60;
  const Trace trace = MixedWorkload(300);
  const SimulationResult first = RunInWorld(world, trace, {});
  ASSERT_GT(first.scheduler.preemptions, 0);
  const std::vector<Outcome> outcomes = OutcomesOf(first);
  EXPECT_EQ(OutcomesOf(RunInWorld(world, trace, {})), outcomes);
  world.hash_seed = 0x123456789abcdef;
  EXPECT_EQ(OutcomesOf(RunInWorld(world, trace, {})), outcomes);
}

TEST(SimulationTest, ProgressEndsWithEveryRequest) {
  std::vector<int64_t> ended;
  SimulationOptions options;
  options.on_progress = [&ended](const SimulationProgress& progress) {
    EXPECT_EQ(progress.total_requests, 20);
    ended.push_back(progress.ended_requests);
  };
  RunInWorld({}, EqualRequests(20, {0, 30, 6}, 0), options);
  ASSERT_FALSE(ended.empty());
  EXPECT_EQ(ended.back(), 20);
}

TEST(SimulationTest, ALongRunCanBeStopped) {
  SimulatedWorld world({});
  int asked = 0;
  SimulationOptions options;
  options.should_stop = [&asked] { return ++asked == 2; };
  EXPECT_THAT(RunSimulation(EqualRequests(2000, {0, 30, 6}, 1'000'000), options,
                            *world.scheduler, world.runner),
              StatusIs(absl::StatusCode::kCancelled, "stopped"));
  EXPECT_EQ(asked, 2);
}

TEST(SimulationTest, TraceWithoutRequestsEndsAtOnce) {
  const SimulationResult result = RunInWorld({}, Trace(), {});
  EXPECT_EQ(result.scheduler.steps, 0);
  EXPECT_EQ(result.end_us, 0);
}

TEST(SimulationTest, OptionsOutOfRangeAreRefusedWithARemedy) {
  const Trace trace = EqualRequests(2, {0, 30, 6}, 0);
  const auto run = [&trace](const SimulationOptions& options) {
    SimulatedWorld world({});
    return RunSimulation(trace, options, *world.scheduler, world.runner)
        .status();
  };
  EXPECT_THAT(run({.max_concurrency = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_concurrency -1")));
  for (const double factor : {0.5, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(run({.declared = {.rule = DeclaredTokens::Rule::kFactor,
                                  .factor = factor}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("finite number of at least 1")));
  }
  EXPECT_THAT(run({.declared = {.rule = DeclaredTokens::Rule::kAtLeast}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("declared tokens 0")));
}

}  // namespace
}  // namespace tidewheel
