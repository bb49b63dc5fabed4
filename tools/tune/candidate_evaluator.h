// CandidateEvaluator: runs a candidate under a load, through the scheduler and
// the allocator that a server would run.
//
// Same candidate, load and constants: same sample, whatever else runs.
//
// Thread-safety: const methods may be called from several threads; counters
// are atomic.

#ifndef TIDEWHEEL_TOOLS_TUNE_CANDIDATE_EVALUATOR_H_
#define TIDEWHEEL_TOOLS_TUNE_CANDIDATE_EVALUATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/tpu_cost_constants.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/tune/candidate.h"
#include "tools/tune/run_sample.h"
#include "tools/tune/traffic.h"

namespace tidewheel {

// A constant of the cost model, changed for one run.
struct ConstantChange {
  double TpuCostConstants::*field = nullptr;
  double factor = 1;
};

class CandidateEvaluator {
 public:
  struct Options {
    ServingOptions serving;  // what all candidates share
    // serving.plan.max_model_len is not a limit that somebody set but the
    // longest request of the traffic, and grows with the lengths of a load.
    bool max_model_len_follows_traffic = false;
    Promise promise;
    int32_t max_concurrency = 0;
    DeclaredTokens declared = {};
    // Asked during runs, from several threads; true ends them. May be empty.
    std::function<bool()> should_stop = {};
  };

  // REQUIRES: traffic outlives the evaluator.
  CandidateEvaluator(const Options& options, const Traffic& traffic)
      : options_(options), traffic_(traffic) {}

  const Options& options() const { return options_; }
  const Traffic& traffic() const { return traffic_; }

  // options().serving with a max_model_len for requests as long as `load`'s.
  ServingOptions ServingFor(const Load& load) const;

  // Errors: those of PrepareServing, Traffic::Make and RunSimulation, as
  // Cancelled where should_stop asked for it.
  absl::StatusOr<RunSample> Run(const Candidate& candidate, const Load& load,
                                const ConstantChange& change = {}) const;
  // Replications 0 to `replications` - 1 of it.
  absl::StatusOr<std::vector<RunSample>> RunReplications(
      const Candidate& candidate, const Load& load, int32_t replications,
      const ConstantChange& change = {}) const;

  // Of all runs so far.
  int64_t runs() const { return runs_; }
  int64_t simulated_requests() const { return simulated_requests_; }

 private:
  Options options_;
  const Traffic& traffic_;
  mutable std::atomic<int64_t> runs_ = 0;
  mutable std::atomic<int64_t> simulated_requests_ = 0;
};

// Fills in max_model_len, unless it is a limit that somebody set.
void FollowTraffic(const Traffic& traffic,
                   CandidateEvaluator::Options& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CANDIDATE_EVALUATOR_H_
