// When requests arrive: gamma-distributed gaps at a given mean rate.
//
// The schedule is absolute and normalised: the gaps drawn are scaled so that
// count - 1 of them last exactly (count - 1) / request_rate seconds. Without
// that, the rate of a short run is off by chance, and a client that sleeps gap
// by gap drifts (183.5 requests/s achieved for 200 asked: vLLM issue 21104).
//
// Burstiness has vLLM's meaning, the shape of the gamma distribution: 1 is a
// Poisson process, less is burstier (the gaps' coefficient of variation is
// 1 / sqrt(burstiness)), infinity is constant spacing.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_ARRIVAL_SCHEDULE_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_ARRIVAL_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidewheel {

// Below this, nearly all gaps of a gamma distribution are too small for a
// double, and their sum is one gap.
inline constexpr double kMinBurstiness = 0.001;
// Above this, gaps vary by less than 0.1 %: drawn as constant spacing.
inline constexpr double kMaxDrawnBurstiness = 1e6;

struct ArrivalOptions {
  int64_t count = 0;
  // Requests per second; infinity is all at time 0.
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1;
  uint64_t seed = 0;
};

// Errors: InvalidArgument for a rate that is not positive, a burstiness below
// kMinBurstiness, or NaN in either.
absl::Status CheckRate(double request_rate, double burstiness);

// `count` arrival times in microseconds, in order, the first at 0.
// Errors: as CheckRate; InvalidArgument for a negative count, or a rate so low
// that the last arrival is past 2^62 us.
absl::StatusOr<std::vector<int64_t>> DrawArrivals(
    const ArrivalOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_ARRIVAL_SCHEDULE_H_
