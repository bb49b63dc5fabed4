// Distribution: what a report says about a set of samples.

#ifndef TIDEWHEEL_TOOLS_REPORT_DISTRIBUTION_H_
#define TIDEWHEEL_TOOLS_REPORT_DISTRIBUTION_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tidewheel {

// With no samples (count 0), nothing else means anything; reports then show
// that there is no value rather than 0.
struct Distribution {
  int64_t count = 0;
  double mean = 0;
  double median = 0;
  double std_dev = 0;  // of the samples themselves: divided by count
  double min = 0;
  double max = 0;
  std::vector<double> percentiles;  // in the order in which they were asked
};

// REQUIRES: percents are in [0, 100].
Distribution DescribeSamples(std::vector<double> samples,
                             std::span<const double> percents);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_DISTRIBUTION_H_
