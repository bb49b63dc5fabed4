#include "tools/tune/tune_search.h"

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/tune/tune_world.h"
#include "tools/tune/candidate_search.h"
#include "tools/tune/rung_plan.h"
#include "tools/tune/tune_json.h"

namespace tidewheel {
namespace {

using ::testing::HasSubstr;

TuneResult Search(const TuneOptions& options, const Traffic& traffic) {
  absl::StatusOr<TuneResult> result = RunTuneSearch(options, traffic);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? *std::move(result) : TuneResult();
}

// Three pools only, for what does not hang on the size of a space.
TuneOptions FewCandidates(const Traffic& traffic) {
  TuneOptions options = SmallSearch(traffic);
  options.space.max_num_seqs = {48};
  options.space.max_num_batched_tokens = {1024};
  options.space.admission = {AdmissionPolicy::kOptimistic};
  return options;
}

// The highest of many rates up to half as much again as `known` at which a
// candidate keeps the promise, or `known` if there is none beyond it.
double RateByScan(const CandidateEvaluator& evaluator,
                  const Candidate& candidate, double known,
                  int32_t replications) {
  double best = known;
  for (int step = 0; step < 84; ++step) {
    const double rate = std::pow(1.05, step);
    if (rate <= known) continue;
    if (rate > 1.5 * best && best > 0) break;
    const absl::StatusOr<std::vector<RunSample>> samples =
        evaluator.RunReplications(candidate, {.request_rate = rate},
                                  replications);
    EXPECT_THAT(samples, IsOk());
    if (Summarize(*samples, evaluator.options().promise, {}).keeps_promise) {
      best = rate;
    }
  }
  return best;
}

TEST(TuneSearchTest, FindsTheBestOfEveryCandidateTried) {
  const Traffic traffic = TuneTraffic();
  const TuneOptions options = SmallSearch(traffic);
  const TuneResult result = Search(options, traffic);
  ASSERT_TRUE(result.attainable);
  EXPECT_EQ(result.space_size, 36);
  const CandidateEvaluator evaluator(options.server, traffic);
  double best = 0;
  for (const CandidateResult& candidate : result.candidates) {
    best = RateByScan(evaluator, candidate.candidate, best,
                      /*replications=*/2);
  }
  const CandidateResult& found =
      result.candidates[static_cast<size_t>(result.best)];
  // The scan has a resolution of 5 %, the bracket one of 2 %.
  EXPECT_GT(found.objective.value, best / 1.03);
  EXPECT_LT(found.objective.value, best * 1.08);
  // And the one recommended is the cheapest of those that can not be told from
  // it and give at most 5 % away.
  const CandidateResult& chosen =
      result.candidates[static_cast<size_t>(result.recommended)];
  EXPECT_TRUE(chosen.is_equal);
  EXPECT_TRUE(chosen.objective.Overlaps(found.objective));
  EXPECT_GE(chosen.objective.value, 0.95 * found.objective.value);
  for (const CandidateResult& other : result.candidates) {
    if (other.keeps_promise && other.reached_last_rung) {
      EXPECT_EQ(other.is_equal, other.objective.Overlaps(found.objective));
    }
    if (!other.is_equal ||
        other.objective.value < 0.95 * found.objective.value) {
      continue;
    }
    EXPECT_FALSE(IsCheaper(other.candidate, chosen.candidate))
        << CandidateText(other.candidate);
  }
}

TEST(TuneSearchTest, SameSeedSameBytesWithAnyNumberOfThreads) {
  const Traffic traffic = TuneTraffic();
  TuneOptions options = FewCandidates(traffic);
  const std::string once = TuneJson(Search(options, traffic));
  EXPECT_EQ(TuneJson(Search(options, traffic)), once);
  options.threads = 2;
  TuneResult two = Search(options, traffic);
  two.threads = 1;
  EXPECT_EQ(TuneJson(two), once);
}

TEST(TuneSearchTest, EveryFigureOfTheResultHasItsInterval) {
  const Traffic traffic = TuneTraffic({.requests = 300, .replications = 2});
  const TuneResult result = Search(FewCandidates(traffic), traffic);
  const auto is_proper = [](const Estimate& e) {
    return e.low <= e.value && e.value <= e.high;
  };
  for (const CandidateResult& candidate : result.candidates) {
    if (!candidate.reached_last_rung || !candidate.keeps_promise) continue;
    EXPECT_TRUE(is_proper(candidate.objective));
    EXPECT_LT(candidate.objective.low, candidate.objective.high);
  }
  for (const Estimate* estimate :
       {&result.base->strain, &result.base->ttft_ms, &result.base->tpot_ms,
        &result.base->e2el_ms, &result.base->output_tokens_per_s}) {
    EXPECT_TRUE(is_proper(*estimate));
    EXPECT_LT(estimate->low, estimate->high);
  }
  // Two replications may keep the same share.
  EXPECT_TRUE(is_proper(result.base->kept_ratio));
  int run = 0;
  for (const SensitivityRow& row : result.sensitivity) {
    if (row.is_refused) continue;
    EXPECT_TRUE(is_proper(row.strain_change)) << row.name;
    ++run;
  }
  EXPECT_GT(run, 20);
}

TEST(TuneSearchTest, SensitivityHasTheSignThatQueueingSays) {
  const Traffic traffic = TuneTraffic({.requests = 300, .replications = 2});
  TuneOptions options = FewCandidates(traffic);
  // Where nobody set a limit, longer requests are not refused but take longer.
  options.server.serving.plan.max_model_len.reset();
  const TuneResult result = Search(options, traffic);
  int seen = 0;
  for (const SensitivityRow& row : result.sensitivity) {
    if (row.name == "request rate" || row.name == "prompt lengths" ||
        row.name == "output lengths") {
      ++seen;
      EXPECT_EQ(row.outcome.not_completed, 0) << row.name;
      if (row.change == "+10 %") {
        EXPECT_GT(row.strain_change.value, 0) << row.name;
        EXPECT_FALSE(row.keeps_promise) << row.name;
      } else {
        EXPECT_LE(row.strain_change.value, 0) << row.name;
        EXPECT_TRUE(row.keeps_promise) << row.name;
      }
    }
  }
  EXPECT_EQ(seen, 6);
}

TEST(TuneSearchTest, TheFrontHasNoPointThatAnotherBeats) {
  const Traffic traffic = TuneTraffic();
  const TuneResult result = Search(FewCandidates(traffic), traffic);
  ASSERT_FALSE(result.front.points.empty());
  int on_front = 0;
  for (const FrontPoint& a : result.front.points) {
    bool is_beaten = false;
    for (const FrontPoint& b : result.front.points) {
      is_beaten = is_beaten || (b.cost <= a.cost && b.value > a.value) ||
                  (b.cost < a.cost && b.value >= a.value);
    }
    EXPECT_LE(a.is_on_front, !is_beaten);
    on_front += a.is_on_front ? 1 : 0;
  }
  EXPECT_GE(on_front, 2);
}

TEST(TuneSearchTest, FindsTheFewestPagesAtARate) {
  const Traffic traffic = TuneTraffic({.requests = 200, .replications = 2});
  TuneOptions options = SmallSearch(traffic);
  options.objective = TuneObjective::kFewestPages;
  options.request_rate = 3;
  options.space.admission = {AdmissionPolicy::kOptimistic};
  const TuneResult result = Search(options, traffic);
  ASSERT_TRUE(result.attainable);
  const CandidateResult& chosen =
      result.candidates[static_cast<size_t>(result.recommended)];
  EXPECT_TRUE(result.base->keeps_promise);
  EXPECT_EQ(result.base->request_rate, 3);
  // No pool that is smaller by the resolution of 2 % keeps the promise.
  const CandidateEvaluator evaluator(options.server, traffic);
  const int64_t least =
      FewestPages(chosen.candidate, traffic.longest_request_tokens());
  const int64_t pages = chosen.candidate.total_num_pages;
  ASSERT_GT(pages, least);
  EXPECT_GT(chosen.broken_at, 0);
  EXPECT_LE(static_cast<double>(pages), chosen.broken_at * 1.02 + 1);
  const absl::StatusOr<std::vector<RunSample>> smaller =
      evaluator.RunReplications(
          WithPages(chosen.candidate, static_cast<int64_t>(chosen.broken_at)),
          {.request_rate = 3}, 2);
  ASSERT_THAT(smaller, IsOk());
  EXPECT_FALSE(Summarize(*smaller, options.server.promise, {}).keeps_promise);
}

TEST(TuneSearchTest, FindsTheFewestChipsAtARate) {
  const Traffic traffic = TuneTraffic({.requests = 200, .replications = 2});
  TuneOptions options = FewCandidates(traffic);
  const TuneResult one = Search(options, traffic);
  const double rate =
      one.candidates[static_cast<size_t>(one.best)].objective.value;
  options.objective = TuneObjective::kFewestChips;
  options.request_rate = 2.5 * rate;
  options.space.chips = {1};
  const TuneResult result = Search(options, traffic);
  ASSERT_TRUE(result.attainable);
  const CandidateResult& chosen =
      result.candidates[static_cast<size_t>(result.recommended)];
  EXPECT_EQ(chosen.objective.value, 3);
  EXPECT_EQ(chosen.copies, 3);
  EXPECT_TRUE(result.base->keeps_promise);
  EXPECT_DOUBLE_EQ(result.base->request_rate, 2.5 * rate / 3);
}

struct Unattainable {
  const char* what;
  GoodputTargets bounds;
  double rate;  // 0: the highest rate is looked for
  Resource resource;
  const char* text;
};

class UnattainableTest : public testing::TestWithParam<Unattainable> {};

TEST_P(UnattainableTest, NamesTheBindingResource) {
  const Unattainable& world = GetParam();
  const std::string what = world.what;
  const bool is_long = what == "compute";
  const Traffic traffic = TuneTraffic({.requests = 200,
                                       .replications = 2,
                                       .input_len = is_long             ? 4000
                                                    : what == "weights" ? 100
                                                                        : 400});
  TuneOptions options = SmallSearch(traffic);
  options.server.promise.bounds = world.bounds;
  options.space = SearchSpace();
  options.space.page_size = {32};
  options.space.total_num_pages = {400};
  options.space.max_num_seqs = {48};
  options.space.max_num_batched_tokens = {256};
  if (is_long) options.space.max_num_batched_tokens = {2048};
  if (what == "rows") options.space.max_num_seqs = {1, 2};
  if (what == "pages") {
    options.space.total_num_pages = {30, 40};
    options.space.max_num_seqs = {24};
  }
  if (what == "tokens") options.space.max_num_batched_tokens = {48};
  if (what == "length") options.server.serving.plan.max_model_len = 300;
  if (world.rate > 0) {
    options.objective = TuneObjective::kFewestPages;
    options.request_rate = world.rate;
  }
  const TuneResult result = Search(options, traffic);
  EXPECT_FALSE(result.attainable);
  EXPECT_EQ(result.recommended, -1);
  EXPECT_EQ(result.binding, world.resource) << result.binding_text;
  EXPECT_THAT(result.binding_text, HasSubstr(world.text));
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, UnattainableTest,
    testing::Values(
        Unattainable{"weights",
                     {.ttft_ms = 5},
                     0,
                     Resource::kMemoryBandwidth,
                     "the prefill of a prompt of"},
        Unattainable{"compute",
                     {.ttft_ms = 40},
                     0,
                     Resource::kCompute,
                     "the prefill of a prompt of"},
        Unattainable{"bandwidth",
                     {.tpot_ms = 5},
                     0,
                     Resource::kMemoryBandwidth,
                     "a step of one sequence"},
        Unattainable{
            "rows", {.ttft_ms = 200}, 6, Resource::kRows, "max_num_seqs 2"},
        Unattainable{"pages",
                     {.ttft_ms = 200},
                     6,
                     Resource::kPages,
                     "total_num_pages 40"},
        Unattainable{"tokens",
                     {.ttft_ms = 600},
                     12,
                     Resource::kTokens,
                     "max_num_batched_tokens 48"},
        Unattainable{"step_time",
                     {.tpot_ms = 12},
                     12,
                     Resource::kStepTime,
                     "steps with so many are too long"},
        Unattainable{"length",
                     {.ttft_ms = 500},
                     0,
                     Resource::kSequenceLength,
                     "max_model_len 300"}),
    [](const testing::TestParamInfo<Unattainable>& world) {
      return std::string(world.param.what);
    });

TEST(TuneSearchTest, StoppingLeavesTheBestSoFar) {
  const Traffic traffic = TuneTraffic();
  TuneOptions options = SmallSearch(traffic);
  // Somewhere in each stage, and before anything has run.
  for (const int64_t after : {0, 5, 60, 120, 300}) {
    std::atomic<int64_t> asked = 0;
    options.should_stop = [&asked, after] { return ++asked > after; };
    const TuneResult result = Search(options, traffic);
    EXPECT_TRUE(result.interrupted) << after;
    if (after == 0) {
      EXPECT_EQ(result.recommended, -1);
    }
    if (after >= 120) {
      EXPECT_GE(result.recommended, 0) << after;
    }
  }
}

TEST(RungPlanTest, RungsGrowFourfoldDownToTenRequestsBeyondThePercentile) {
  const std::vector<SearchRung> rungs = PlanRungs({.requests = 19366,
                                                   .replications = 1,
                                                   .candidates = 400,
                                                   .percentile = 99});
  ASSERT_EQ(rungs.size(), 3U);
  EXPECT_EQ(rungs[0].requests, 1210);
  EXPECT_EQ(rungs[1].requests, 4841);
  EXPECT_EQ(rungs[2].requests, 19366);
  // At 99.9 % the first of them would be too short.
  EXPECT_EQ(PlanRungs({.requests = 19366,
                       .replications = 1,
                       .candidates = 400,
                       .percentile = 99.9})
                .size(),
            1U);
}

TEST(RungPlanTest, ReplicationsComeLast) {
  const std::vector<SearchRung> rungs = PlanRungs({.requests = 4000,
                                                   .replications = 5,
                                                   .candidates = 400,
                                                   .percentile = 99});
  ASSERT_EQ(rungs.size(), 3U);
  EXPECT_EQ(rungs[0].requests, 1250);
  EXPECT_EQ(rungs[0].replications, 1);
  EXPECT_EQ(rungs[1].requests, 4000);
  EXPECT_EQ(rungs[1].replications, 1);
  EXPECT_EQ(rungs[2].replications, 5);
}

TEST(RungPlanTest, FewCandidatesRunInFullAtOnce) {
  EXPECT_EQ(PlanRungs({.requests = 100'000,
                       .replications = 1,
                       .candidates = 8,
                       .percentile = 99})
                .size(),
            1U);
}

}  // namespace
}  // namespace tidewheel
