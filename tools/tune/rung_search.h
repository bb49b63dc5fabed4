// RungSearch: the candidates of a space, judged on longer and longer runs.
//
// Successive halving: every candidate runs a short front of the traffic, the
// better quarter four times as much, and so on (rung_plan.h). On each rung a
// candidate is judged by its own best load (candidate_search.h). Where a rate
// is looked for, who is better at a cost is kept by front numbers of rate and
// memory (pareto_front.h), so that small pools are not driven out by large
// ones.
//
// Same options, same result, whatever the number of threads; but not where
// should_stop ends it: candidates that were not finished are as the rung before
// left them.

#ifndef TIDEWHEEL_TOOLS_TUNE_RUNG_SEARCH_H_
#define TIDEWHEEL_TOOLS_TUNE_RUNG_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/candidate_search.h"
#include "tools/tune/search_progress.h"
#include "tools/tune/traffic.h"
#include "tools/tune/tune_options.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// Of the traffic's rate: so low that requests seldom meet.
inline constexpr double kAloneRate = 1e-4;

// What a candidate's rungs found, without its requests.
struct SearchedCandidate {
  CandidateResult result;
  int64_t bytes_per_page = 0;         // on each device
  double next_start = 0;              // rate to begin with on the next rung
  std::vector<LoadOutcome> outcomes;  // of every load of the last rung
};

// What the objective counts, so that smaller is better.
double CostOf(TuneObjective objective, const CandidateResult& result);

// The pool on all devices of one copy.
double PoolGib(int64_t kv_bytes, int32_t chips, int32_t devices_per_chip);

class RungSearch {
 public:
  struct Options {
    const TuneOptions& tune;
    std::optional<double> request_rate;  // given, or the traffic's own
    int32_t devices_per_chip = 1;
  };

  // REQUIRES: all outlive it.
  RungSearch(const Options& options, const Traffic& traffic,
             const CandidateEvaluator& evaluator, SearchProgress& progress)
      : tune_(options.tune),
        request_rate_(options.request_rate),
        devices_per_chip_(options.devices_per_chip),
        traffic_(traffic),
        evaluator_(evaluator),
        progress_(progress) {}

  // Runs all rungs. One summary a rung that was run.
  // Errors: those of CandidateEvaluator::Run.
  absl::Status Run(std::vector<SearchedCandidate>& candidates,
                   std::vector<RungSummary>& summaries) const;

  // Of these candidates; the last one is the whole traffic.
  std::vector<SearchRung> Rungs(size_t candidates) const;
  // A typical rate of this traffic.
  double base_rate() const {
    return request_rate_.value_or(traffic_.own_rate().value_or(1));
  }

 private:
  absl::Status GuessRate(const SearchRung& rung,
                         std::vector<SearchedCandidate>& candidates) const;
  absl::Status RunRung(const SearchRung& rung, int32_t number, bool is_last,
                       const std::vector<size_t>& indices,
                       std::vector<SearchedCandidate>& candidates) const;
  absl::Status SearchOne(const SearchRung& rung, bool is_last,
                         SearchedCandidate& searched) const;
  void ToObjective(bool keeps_promise, CandidateResult& result) const;
  std::vector<size_t> Keep(
      const std::vector<size_t>& indices,
      const std::vector<SearchedCandidate>& candidates) const;

  bool is_rate_search() const {
    return tune_.objective != TuneObjective::kFewestPages;
  }
  bool stopped() const { return tune_.should_stop && tune_.should_stop(); }

  const TuneOptions& tune_;
  std::optional<double> request_rate_;
  int32_t devices_per_chip_;
  const Traffic& traffic_;
  const CandidateEvaluator& evaluator_;
  SearchProgress& progress_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_RUNG_SEARCH_H_
