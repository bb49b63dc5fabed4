#include "tools/report/percentile.h"

#include <algorithm>
#include <cmath>

#include "allocator/check.h"

namespace tidewheel {

PercentileRank RankOfPercentile(int64_t count, double percent) {
  TIDEWHEEL_CHECK_GT(count, 0);
  TIDEWHEEL_CHECK(percent >= 0 && percent <= 100);
  // Multiplied before divided: 7 / 100 * 100 is above 7.
  const double rank = static_cast<double>(count - 1) * percent / 100;
  const double low = std::floor(rank);
  return {static_cast<int64_t>(low), rank - low};
}

double Interpolate(double low, double high, double fraction) {
  const double value = low + (high - low) * fraction;
  return std::clamp(value, low, high);
}

double Percentile(std::span<const double> sorted, double percent) {
  const PercentileRank rank =
      RankOfPercentile(static_cast<int64_t>(sorted.size()), percent);
  const size_t low = static_cast<size_t>(rank.low);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return Interpolate(sorted[low], sorted[high], rank.fraction);
}

}  // namespace tidewheel
