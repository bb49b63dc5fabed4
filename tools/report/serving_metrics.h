// ServingMetrics: a simulation's records as the figures that vLLM's serving
// benchmark defines.
//
//   TTFT  sent to first token
//   TPOT  (E2EL - TTFT) / (output tokens - 1), of requests with two or more
//   ITL   each gap between two tokens of a request
//   E2EL  sent to last token
//   queue sent to the begin of the first step
//
// All but ITL are of the requests that completed. Requests that did not are
// counted by reason and never add to throughput or goodput.

#ifndef TIDEWHEEL_TOOLS_REPORT_SERVING_METRICS_H_
#define TIDEWHEEL_TOOLS_REPORT_SERVING_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/distribution.h"
#include "tools/simulation_result.h"

namespace tidewheel {

// Upper bounds that a good request keeps, all that are given. Milliseconds.
struct GoodputTargets {
  std::optional<double> ttft_ms = {};
  std::optional<double> tpot_ms = {};
  std::optional<double> e2el_ms = {};

  bool empty() const {
    return !ttft_ms.has_value() && !tpot_ms.has_value() && !e2el_ms.has_value();
  }
};

struct MetricsOptions {
  std::vector<double> percentiles = {99};  // in [0, 100]
  GoodputTargets goodput = {};
};

struct ServingMetrics {
  int64_t completed = 0;
  int64_t refused = 0;
  int64_t not_completed = 0;  // refused, cut short or never sent
  // Why, as "refused: exceeds_pool" or "ended: queue_timeout", and how many.
  std::vector<std::pair<std::string, int64_t>> not_completed_by_reason;

  double duration_s = 0;      // time 0, the first arrival, to the last end
  int64_t input_tokens = 0;   // of completed requests
  int64_t output_tokens = 0;  // of completed requests
  // Per second of duration; 0 where nothing took time.
  double request_throughput = 0;
  double output_throughput = 0;
  double total_token_throughput = 0;
  std::optional<double> request_goodput;

  Distribution ttft_ms;
  Distribution tpot_ms;
  Distribution itl_ms;
  Distribution e2el_ms;
  Distribution queue_ms;
};

// REQUIRES: percentiles are in [0, 100].
ServingMetrics ComputeMetrics(const SimulationResult& result,
                              const MetricsOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_SERVING_METRICS_H_
