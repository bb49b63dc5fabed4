// CandidateSearch: one candidate's best load, and how sure that is.
//
// At a free rate it looks for the highest that keeps the promise, at a given
// rate for the smallest pool. Every load that it tries is kept with its
// requests, so that the interval of the edge costs no further run:
//
//   The strain's percentile at each load that was run is resampled, the same
//   requests at every load, and each resample has its own edge, where strain
//   is 1 between two loads (linear in the logarithms). The middle 95 % of
//   these edges is the interval. With replications each of them has an edge,
//   and the interval is Student's.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_TUNE_CANDIDATE_SEARCH_H_
#define TIDEWHEEL_TOOLS_TUNE_CANDIDATE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/tune/candidate.h"
#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/run_sample.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

struct ProbePoint {
  double load = 0;                 // requests per second, or total_num_pages
  std::vector<RunSample> samples;  // by replication
  LoadOutcome outcome;             // without intervals
};

struct SearchRung {
  int64_t requests = 0;  // of the traffic's front
  int32_t replications = 1;
  // Of the edge, as FindHighestRate and FindLowestCount take them.
  double first_step = 1.2;
  double resolution = 1.02;
};

struct CandidateEdge {
  bool keeps_promise = false;      // at some load
  double best = 0;                 // load that keeps it; else the easiest tried
  double broken = 0;               // the nearest that does not; 0: none
  bool more_is_harder = true;      // of loads; false for pages
  std::vector<ProbePoint> points;  // by load

  const ProbePoint& best_point() const;
};

struct RateRange {
  double start = 0;
  double floor = 0;
  double cap = 0;
};

// `stop` is asked before each run; a search that was stopped is Cancelled.
using StopCheck = std::function<bool()>;

// Errors: those of CandidateEvaluator::Run; Cancelled.
absl::StatusOr<CandidateEdge> SearchRate(const CandidateEvaluator& evaluator,
                                         const Candidate& candidate,
                                         const SearchRung& rung,
                                         const RateRange& range,
                                         const StopCheck& stop);

// From the smallest pool that runs a request of max_model_len, up to the
// candidate's own. Errors: as SearchRate.
absl::StatusOr<CandidateEdge> SearchPages(const CandidateEvaluator& evaluator,
                                          const Candidate& candidate,
                                          const SearchRung& rung, double rate,
                                          const StopCheck& stop);

// The fewest pages that hold one longest request, a page for each row, and a
// step's tokens.
int64_t FewestPages(const Candidate& candidate, int32_t max_model_len);

// Where strain is 1 between the loads that were tried; 0 if none keeps the
// promise. What a rung with a coarse resolution knows of its candidates.
double InterpolatedEdge(const CandidateEdge& edge);

// The edge with its interval. REQUIRES: edge.keeps_promise.
Estimate EdgeEstimate(const CandidateEdge& edge, const Promise& promise,
                      const IntervalOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CANDIDATE_SEARCH_H_
