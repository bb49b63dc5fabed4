#include "tools/tune/cliff_search.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/status_macros.h"
#include "tools/report/number_text.h"
#include "tools/tune/edge_search.h"

namespace tidewheel {
namespace {

class PoolSweep {
 public:
  PoolSweep(const CandidateEvaluator& evaluator, const Candidate& candidate,
            const CliffOptions& options, const StopCheck& stop)
      : evaluator_(evaluator),
        candidate_(candidate),
        options_(options),
        stop_(stop) {}

  // With intervals where `intervals` asks for resamples. Each size runs once.
  absl::StatusOr<LoadOutcome> Outcome(int64_t pages,
                                      const IntervalOptions& intervals) {
    auto found = samples_.find(pages);
    if (found == samples_.end()) {
      if (stop_ && stop_()) return absl::CancelledError("stopped");
      TIDEWHEEL_ASSIGN_OR_RETURN(
          std::vector<RunSample> samples,
          evaluator_.RunReplications(WithPages(candidate_, pages),
                                     {.request_rate = options_.request_rate,
                                      .requests = options_.requests},
                                     options_.replications));
      found = samples_.emplace(pages, std::move(samples)).first;
    }
    return Summarize(found->second, evaluator_.options().promise, intervals);
  }

  std::vector<LoadOutcome> AllOutcomes() const {
    std::vector<LoadOutcome> outcomes;
    for (const auto& [pages, samples] : samples_) {
      outcomes.push_back(Summarize(samples, evaluator_.options().promise, {}));
    }
    return outcomes;
  }

 private:
  const CandidateEvaluator& evaluator_;
  const Candidate candidate_;
  const CliffOptions& options_;
  const StopCheck& stop_;
  std::map<int64_t, std::vector<RunSample>> samples_;
};

// The plateau's pool: the first, doubling from the recommended one, to which a
// further doubling adds less than 1 %.
absl::StatusOr<LoadOutcome> FindPlateau(const Candidate& candidate,
                                        PoolSweep& sweep) {
  constexpr double kGain = 0.01;
  constexpr int64_t kMostPages = int64_t{1} << 22;
  int64_t pages = candidate.total_num_pages;
  TIDEWHEEL_ASSIGN_OR_RETURN(LoadOutcome outcome, sweep.Outcome(pages, {}));
  while (2 * pages <= kMostPages) {
    TIDEWHEEL_ASSIGN_OR_RETURN(LoadOutcome doubled,
                               sweep.Outcome(2 * pages, {}));
    const bool is_flat =
        outcome.overloaded == doubled.overloaded &&
        doubled.strain.value >= outcome.strain.value * (1 - kGain);
    if (is_flat) break;
    pages *= 2;
    outcome = std::move(doubled);
  }
  return outcome;
}

// Where the promise breaks: the smallest pool of those run that keeps it, with
// all larger ones keeping it too.
int64_t PromisePages(const std::vector<LoadOutcome>& points) {
  int64_t pages = 0;
  for (auto point = points.rbegin(); point != points.rend(); ++point) {
    if (!point->keeps_promise) break;
    pages = point->candidate.total_num_pages;
  }
  return pages;
}

}  // namespace

absl::StatusOr<Cliff> FindCliff(const CandidateEvaluator& evaluator,
                                const Candidate& candidate,
                                const CliffOptions& options,
                                const StopCheck& stop) {
  PoolSweep sweep(evaluator, candidate, options, stop);
  Cliff cliff;
  cliff.request_rate = options.request_rate;
  cliff.recommended_pages = candidate.total_num_pages;
  TIDEWHEEL_ASSIGN_OR_RETURN(const LoadOutcome flat,
                             FindPlateau(candidate, sweep));
  cliff.plateau_pages = flat.candidate.total_num_pages;
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const LoadOutcome plateau,
      sweep.Outcome(cliff.plateau_pages, options.intervals));
  cliff.plateau_strain = plateau.strain.value;
  cliff.tolerance = options.least_tolerance;
  if (plateau.strain.value > 0) {
    cliff.tolerance =
        std::max(cliff.tolerance, (plateau.strain.high - plateau.strain.low) /
                                      2 / plateau.strain.value);
  }
  const double limit = cliff.plateau_strain * (1 + cliff.tolerance);
  const int32_t max_model_len =
      evaluator.options().serving.plan.max_model_len.value_or(1);
  const int64_t low = std::min(FewestPages(candidate, max_model_len),
                               candidate.total_num_pages);
  const auto on_plateau = [&](int64_t pages) -> absl::StatusOr<bool> {
    TIDEWHEEL_ASSIGN_OR_RETURN(const LoadOutcome outcome,
                               sweep.Outcome(pages, {}));
    return !outcome.overloaded && outcome.strain.value <= limit;
  };
  // Between the pool in question and the edge lies the answer, so first on
  // which side of it the edge is.
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool recommended_is_on,
                             on_plateau(candidate.total_num_pages));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const CountEdge edge,
      FindLowestCount(
          {.low = recommended_is_on ? low : candidate.total_num_pages,
           .high = recommended_is_on ? candidate.total_num_pages
                                     : cliff.plateau_pages},
          on_plateau));
  cliff.edge_pages = edge.holds.value_or(cliff.plateau_pages);
  cliff.has_edge = edge.breaks.has_value();
  cliff.below_pages = edge.breaks.value_or(0);
  cliff.margin_pages = cliff.recommended_pages - cliff.edge_pages;
  constexpr double kGib = 1 << 30;
  cliff.margin_gib = static_cast<double>(cliff.margin_pages) *
                     static_cast<double>(options.bytes_per_page) / kGib;
  cliff.margin_ratio = static_cast<double>(cliff.margin_pages) /
                       static_cast<double>(cliff.recommended_pages);
  TIDEWHEEL_ASSIGN_OR_RETURN(
      cliff.at_edge, sweep.Outcome(cliff.edge_pages, options.intervals));
  if (cliff.has_edge) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        cliff.below_edge, sweep.Outcome(cliff.below_pages, options.intervals));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      cliff.at_recommended,
      sweep.Outcome(cliff.recommended_pages, options.intervals));
  cliff.points = sweep.AllOutcomes();
  cliff.promise_pages = PromisePages(cliff.points);
  return cliff;
}

std::string CliffMarginText(const Cliff& cliff) {
  if (!cliff.has_edge) {
    return absl::StrCat(
        "no edge: even ", WithThousands(cliff.edge_pages),
        " pages, the fewest that run the longest request, are on the plateau");
  }
  const std::string distance = absl::StrFormat(
      "%s pages, %.2f GiB on each device",
      WithThousands(std::abs(cliff.margin_pages)), std::abs(cliff.margin_gib));
  if (cliff.margin_pages >= 0) {
    return absl::StrCat("you are ", distance, ", ",
                        AsPercent(cliff.margin_ratio), " from the edge");
  }
  return absl::StrFormat(
      "this pool is below the plateau: the edge is %s further, at %.1f times "
      "the pages",
      distance, 1 - cliff.margin_ratio);
}

}  // namespace tidewheel
