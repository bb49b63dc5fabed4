// Percentiles by linear interpolation between the two closest ranks.
//
// The method that numpy.percentile takes by default, and with it vLLM's
// benchmark: percentile p of n sorted samples lies at rank (n - 1) * p / 100,
// counted from 0, so that p = 0 is the smallest sample, p = 100 the largest,
// and no percentile is outside them.

#ifndef TIDEWHEEL_TOOLS_REPORT_PERCENTILE_H_
#define TIDEWHEEL_TOOLS_REPORT_PERCENTILE_H_

#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace tidewheel {

// The method's name, for reports.
inline constexpr absl::string_view kPercentileMethod =
    "linear interpolation between closest ranks (numpy's default)";

// A place between two samples: `fraction` of the way from sample `low` to the
// next one, which is needed only where fraction > 0.
struct PercentileRank {
  int64_t low = 0;
  double fraction = 0;  // in [0, 1)
};

// REQUIRES: count > 0, percent in [0, 100].
PercentileRank RankOfPercentile(int64_t count, double percent);

// The value `fraction` of the way from `low` to `high`; never outside them.
double Interpolate(double low, double high, double fraction);

// REQUIRES: samples are sorted and there is at least one; percent in [0, 100].
double Percentile(std::span<const double> sorted, double percent);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_PERCENTILE_H_
