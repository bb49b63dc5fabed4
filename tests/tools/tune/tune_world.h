// A small world for searches: a small model on one chip, short requests that
// are drawn, and spaces of a few dozen configurations.
//
// One run takes a few milliseconds, so that a test can try every candidate.

#ifndef TIDEWHEEL_TESTS_TOOLS_TUNE_TUNE_WORLD_H_
#define TIDEWHEEL_TESTS_TOOLS_TUNE_TUNE_WORLD_H_

#include <cstdint>

#include "allocator/check.h"
#include "tools/tune/traffic.h"
#include "tools/tune/tune_options.h"

namespace tidewheel {

struct TuneWorldOptions {
  int64_t requests = 150;
  int32_t replications = 2;
  int32_t input_len = 400;
  int32_t output_len = 60;
};

inline WorkloadChoice TuneWorkload(const TuneWorldOptions& options) {
  WorkloadChoice workload;
  workload.num_prompts = options.requests;
  workload.builtin.fixed_lengths = {.input_tokens = options.input_len,
                                    .output_tokens = options.output_len,
                                    .range_ratio = 0.5};
  workload.builtin.burstiness = 1;
  workload.seed = 5;
  return workload;
}

inline Traffic TuneTraffic(const TuneWorldOptions& options = {}) {
  absl::StatusOr<Traffic> traffic =
      Traffic::Create(TuneWorkload(options), options.replications);
  TIDEWHEEL_CHECK(traffic.ok());
  return *std::move(traffic);
}

// 95 % of requests within 400 ms to the first token and 25 ms a token, with
// 3 x 3 x 2 x 2 configurations of llama-3.1-8b on a v6e.
inline TuneOptions SmallSearch(const Traffic& traffic) {
  TuneOptions options;
  options.server.promise = {
      .bounds = {.ttft_ms = 400, .tpot_ms = 25, .e2el_ms = {}},
      .percentile = 95};
  options.server.serving.plan.max_model_len = traffic.longest_request_tokens();
  options.space.page_size = {32};
  options.space.total_num_pages = {60, 150, 600};
  options.space.max_num_seqs = {4, 16, 48};
  options.space.max_num_batched_tokens = {256, 1024};
  options.space.admission = {AdmissionPolicy::kOptimistic,
                             AdmissionPolicy::kReserve};
  options.space.watermark = {0.02};
  options.resamples = 50;
  return options;
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_TUNE_TUNE_WORLD_H_
