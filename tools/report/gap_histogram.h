// GapHistogram: the gaps between tokens, counted exactly by length.
//
// A replay of an hour has millions of gaps, but sequences that decode in the
// same steps share them, and a gap is a whole number of microseconds. So gaps
// are not kept but counted: in an array up to a quarter of a second, beyond
// that as pairs of gap and count. Percentiles are those of all gaps, not an
// approximation.
//
// Single-threaded. Add is O(1).

#ifndef TIDEWHEEL_TOOLS_REPORT_GAP_HISTOGRAM_H_
#define TIDEWHEEL_TOOLS_REPORT_GAP_HISTOGRAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tools/report/distribution.h"

namespace tidewheel {

class GapHistogram {
 public:
  GapHistogram() : counts_(kCountedUs) {}

  // REQUIRES: both are at least 0.
  void Add(int64_t gap_us, int64_t count) {
    if (static_cast<uint64_t>(gap_us) < counts_.size()) {
      counts_[static_cast<size_t>(gap_us)] += count;
    } else {
      AddLong(gap_us, count);
    }
  }

  // In milliseconds. REQUIRES: percents are in [0, 100].
  Distribution DescribeMs(std::span<const double> percents) const;

 private:
  struct Gap {
    int64_t us;
    int64_t count;
  };

  // Longer gaps are listed.
  static constexpr size_t kCountedUs = size_t{1} << 18;

  void AddLong(int64_t gap_us, int64_t count);
  // All gaps, shortest first, each length once.
  std::vector<Gap> SortedGaps() const;

  std::vector<int64_t> counts_;  // by gap, us
  std::vector<Gap> long_gaps_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_GAP_HISTOGRAM_H_
