#include "tools/report/distribution.h"

#include <algorithm>
#include <cmath>

#include "tools/report/percentile.h"

namespace tidewheel {

Distribution DescribeSamples(std::vector<double> samples,
                             std::span<const double> percents) {
  Distribution result;
  if (samples.empty()) return result;
  // Sums run over sorted samples, so that the order in which requests happened
  // to end does not show in the last digits.
  std::sort(samples.begin(), samples.end());
  const double count = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  result.mean = sum / count;
  double squares = 0;
  for (const double sample : samples) {
    squares += (sample - result.mean) * (sample - result.mean);
  }
  result.std_dev = std::sqrt(squares / count);
  result.count = static_cast<int64_t>(samples.size());
  result.min = samples.front();
  result.max = samples.back();
  result.median = Percentile(samples, 50);
  for (const double percent : percents) {
    result.percentiles.push_back(Percentile(samples, percent));
  }
  return result;
}

}  // namespace tidewheel
