#include "tools/report/gap_histogram.h"

#include <algorithm>
#include <cmath>

#include "allocator/check.h"
#include "tools/report/percentile.h"

namespace tidewheel {

void GapHistogram::AddLong(int64_t gap_us, int64_t count) {
  TIDEWHEEL_CHECK_GE(gap_us, 0);
  TIDEWHEEL_CHECK_GE(count, 0);
  if (count == 0) return;
  long_gaps_.push_back({gap_us, count});
}

std::vector<GapHistogram::Gap> GapHistogram::SortedGaps() const {
  std::vector<Gap> gaps;
  for (size_t us = 0; us < counts_.size(); ++us) {
    const int64_t count = counts_[us];
    if (count > 0) gaps.push_back({static_cast<int64_t>(us), count});
  }
  std::vector<Gap> long_gaps = long_gaps_;
  std::sort(long_gaps.begin(), long_gaps.end(),
            [](const Gap& a, const Gap& b) { return a.us < b.us; });
  for (const Gap& gap : long_gaps) {
    if (!gaps.empty() && gaps.back().us == gap.us) {
      gaps.back().count += gap.count;
    } else {
      gaps.push_back(gap);
    }
  }
  return gaps;
}

Distribution GapHistogram::DescribeMs(std::span<const double> percents) const {
  constexpr double kUsPerMs = 1000;
  const std::vector<Gap> gaps = SortedGaps();
  Distribution result;
  std::vector<int64_t> counts_through;  // gaps up to and including this length
  double sum_us = 0;
  for (const Gap& gap : gaps) {
    result.count += gap.count;
    counts_through.push_back(result.count);
    sum_us += static_cast<double>(gap.us) * static_cast<double>(gap.count);
  }
  if (result.count == 0) return result;

  const auto at_rank = [&](int64_t rank) {
    const auto place =
        std::upper_bound(counts_through.begin(), counts_through.end(), rank);
    return static_cast<double>(gaps[place - counts_through.begin()].us);
  };
  const auto percentile_ms = [&](double percent) {
    const PercentileRank rank = RankOfPercentile(result.count, percent);
    const int64_t next = std::min(rank.low + 1, result.count - 1);
    return Interpolate(at_rank(rank.low), at_rank(next), rank.fraction) /
           kUsPerMs;
  };
  const double count = static_cast<double>(result.count);
  const double mean_us = sum_us / count;
  double squares = 0;
  for (const Gap& gap : gaps) {
    const double distance = static_cast<double>(gap.us) - mean_us;
    squares += distance * distance * static_cast<double>(gap.count);
  }
  result.mean = mean_us / kUsPerMs;
  result.std_dev = std::sqrt(squares / count) / kUsPerMs;
  result.min = static_cast<double>(gaps.front().us) / kUsPerMs;
  result.max = static_cast<double>(gaps.back().us) / kUsPerMs;
  result.median = percentile_ms(50);
  for (const double percent : percents) {
    result.percentiles.push_back(percentile_ms(percent));
  }
  return result;
}

}  // namespace tidewheel
