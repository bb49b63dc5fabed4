// RunSample: one run of one candidate, request by request, and what many of
// them say together.
//
// The requests stand in the order in which they were sent, so that figures can
// be cut in front (warm_up.h) and resampled in blocks (block_bootstrap.h).
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_TUNE_RUN_SAMPLE_H_
#define TIDEWHEEL_TOOLS_TUNE_RUN_SAMPLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tools/simulation_result.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

struct RunSample {
  // By request; NaN where a request has no such latency. Milliseconds.
  std::vector<float> strain;  // see tune_result.h; never NaN
  std::vector<float> ttft_ms;
  std::vector<float> tpot_ms;
  std::vector<float> e2el_ms;
  std::vector<float> output_tokens;
  int64_t warm_up = 0;  // requests to leave out in front
  bool overloaded = false;
  double output_tokens_per_s = 0;  // after the warm-up
  LoadOutcome counts;              // all that is no estimate
};

struct SampleOptions {
  Promise promise;
  double max_warm_up = 0.5;  // fraction of the requests
};

// How a request's latencies compare with the bounds.
double StrainOf(const RequestRecord& record, const GoodputTargets& bounds);

// From a run's result; `counts` has what only the run knows.
RunSample MakeSample(const SimulationResult& result,
                     const SampleOptions& options);

struct IntervalOptions {
  int32_t resamples = 0;  // 0: no intervals
  uint64_t seed = 0;
};

// The outcome of the runs together: one, whose intervals come from a block
// bootstrap, or replications, whose intervals are Student's.
// REQUIRES: at least one sample, all of one candidate and load.
LoadOutcome Summarize(std::span<const RunSample> samples,
                      const Promise& promise, const IntervalOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_RUN_SAMPLE_H_
