// Confidence: 95 % intervals of figures from replications.
//
// Runs with different seeds are independent, so the mean of one figure of each
// has Student's t distribution. Figures that are positive (latencies, rates)
// are taken in logarithms, where what multiplies is symmetric and no interval
// reaches below 0. One run's requests are not independent: block_bootstrap.h.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_TUNE_CONFIDENCE_H_
#define TIDEWHEEL_TOOLS_TUNE_CONFIDENCE_H_

#include <span>
#include <vector>

#include "tools/tune/tune_result.h"

namespace tidewheel {

inline constexpr double kConfidence = 0.95;

// `value` with half the width that Student's t gives to the mean of
// `replications`; with fewer than two, an interval of no width.
Estimate StudentEstimate(double value, std::span<const double> replications);

// The same in logarithms: a factor instead of a width.
// Without width where a figure is not positive.
Estimate StudentFactorEstimate(double value,
                               std::span<const double> replications);

// `value` with the middle kConfidence of `resamples` (the percentile
// bootstrap; Efron, 1979); the interval is widened to contain `value`.
// No width where there are no resamples.
Estimate BootstrapEstimate(double value, std::vector<double> resamples);

// The smallest value that at least `percent` of the samples do not exceed: the
// order statistic of rank ceil(n * percent / 100). Unlike an interpolated
// percentile it is at most x exactly if that share of the samples is at most x.
// Reorders `samples`. REQUIRES: not empty; percent in (0, 100].
double UpperPercentile(std::span<float> samples, double percent);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CONFIDENCE_H_
