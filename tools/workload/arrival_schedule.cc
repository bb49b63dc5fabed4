#include "tools/workload/arrival_schedule.h"

#include <boost/random/gamma_distribution.hpp>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/workload/random_stream.h"

namespace tidewheel {
namespace {

// The time after each of `count` gaps, from 0, in units of the mean gap.
std::vector<double> DrawCumulativeGaps(size_t count, double burstiness,
                                       uint64_t seed) {
  std::vector<double> times(count);
  if (burstiness > kMaxDrawnBurstiness) {
    for (size_t i = 0; i < count; ++i) times[i] = static_cast<double>(i + 1);
    return times;
  }
  RandomEngine engine = RandomStream(seed, RandomUse::kArrivals);
  boost::random::gamma_distribution<double> gap(burstiness, 1 / burstiness);
  double time = 0;
  for (double& t : times) t = time += gap(engine);
  return times;
}

}  // namespace

absl::Status CheckRate(double request_rate, double burstiness) {
  // Written so that NaN fails.
  if (!(request_rate > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request rate ", request_rate,
        " is not a positive number; give requests per second, or inf for all "
        "at once"));
  }
  if (!(burstiness >= kMinBurstiness)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "burstiness ", burstiness, " is not a number of at least ",
        kMinBurstiness,
        "; use 1 for a Poisson process, less for bursts, or inf for constant "
        "spacing"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> DrawArrivals(
    const ArrivalOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRate(options.request_rate, options.burstiness));
  if (options.count < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "number of arrivals ", options.count, " is negative; use 0 or more"));
  }
  const auto count = static_cast<size_t>(options.count);
  std::vector<int64_t> arrivals_us(count, 0);
  if (count < 2 || std::isinf(options.request_rate)) return arrivals_us;

  const double last_us =
      static_cast<double>(count - 1) / options.request_rate * 1e6;
  constexpr double kMaxUs = 4611686018427387904.0;  // 2^62
  if (!(last_us <= kMaxUs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("request rate ", options.request_rate,
                     " puts the last of ", count, " arrivals at ", last_us,
                     " us, past the limit of ", kMaxUs, " us; raise the rate"));
  }
  const std::vector<double> times =
      DrawCumulativeGaps(count - 1, options.burstiness, options.seed);
  if (!(times.back() > 0) || std::isinf(times.back())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "burstiness ", options.burstiness, " gave ", count - 1,
        " gaps that are all 0; raise it or ask for more requests"));
  }
  for (size_t i = 1; i < count; ++i) {
    arrivals_us[i] = std::llround(times[i - 1] / times.back() * last_us);
  }
  return arrivals_us;
}

}  // namespace tidewheel
