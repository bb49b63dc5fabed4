#include "tools/tune/confidence.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "allocator/check.h"
#include "tools/report/percentile.h"

namespace tidewheel {

Estimate StudentEstimate(double value, std::span<const double> replications) {
  const size_t count = replications.size();
  if (count < 2) return {value, value, value};
  const double n = static_cast<double>(count);
  double mean = 0;
  for (const double x : replications) mean += x / n;
  double squares = 0;
  for (const double x : replications) squares += (x - mean) * (x - mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const boost::math::students_t_distribution<double> t(n - 1);
  const double half = quantile(t, 0.5 + kConfidence / 2) * error;
  return {value, value - half, value + half};
}

Estimate StudentFactorEstimate(double value,
                               std::span<const double> replications) {
  std::vector<double> logarithms;
  for (const double x : replications) {
    if (!(x > 0) || !(value > 0)) return {value, value, value};
    logarithms.push_back(std::log(x));
  }
  const Estimate width = StudentEstimate(0, logarithms);
  return {value, value * std::exp(width.low), value * std::exp(width.high)};
}

Estimate BootstrapEstimate(double value, std::vector<double> resamples) {
  if (resamples.empty()) return {value, value, value};
  std::sort(resamples.begin(), resamples.end());
  constexpr double kTail = 100 * (1 - kConfidence) / 2;
  return {value, std::min(value, Percentile(resamples, kTail)),
          std::max(value, Percentile(resamples, 100 - kTail))};
}

double UpperPercentile(std::span<float> samples, double percent) {
  TIDEWHEEL_CHECK(!samples.empty() && percent > 0 && percent <= 100);
  const double n = static_cast<double>(samples.size());
  // A hair is taken off so that 99 % of 1000 is rank 990 in floating point.
  constexpr double kHair = 1e-9;
  const double rank = std::ceil(n * percent / 100 - kHair * n);
  const size_t index = static_cast<size_t>(std::clamp(rank, 1.0, n)) - 1;
  const auto nth = samples.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(samples.begin(), nth, samples.end());
  return *nth;
}

}  // namespace tidewheel
