#include "tools/tune/warm_up.h"

#include <vector>

#include "allocator/check.h"

namespace tidewheel {
namespace {

constexpr size_t kBatch = 5;

std::vector<double> BatchMeans(std::span<const double> series) {
  std::vector<double> means(series.size() / kBatch);
  for (size_t i = 0; i < means.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < kBatch; ++j) sum += series[i * kBatch + j];
    means[i] = sum / kBatch;
  }
  return means;
}

}  // namespace

int64_t WarmUpLength(std::span<const double> series, double max_fraction) {
  TIDEWHEEL_CHECK(max_fraction >= 0 && max_fraction <= 0.5);
  const std::vector<double> means = BatchMeans(series);
  const size_t limit =
      static_cast<size_t>(max_fraction * static_cast<double>(means.size()));
  size_t best_cut = 0;
  double best = 0;
  bool has_best = false;
  // From the back, so that each step adds one batch to what remains (Welford's
  // update of mean and sum of squares).
  double mean = 0;
  double squares = 0;
  for (size_t i = means.size(); i-- > 0;) {
    const double count = static_cast<double>(means.size() - i);
    const double delta = means[i] - mean;
    mean += delta / count;
    squares += delta * (means[i] - mean);
    if (i > limit) continue;
    const double mser = squares / (count * count);
    // At a tie the smaller cut.
    if (!has_best || mser <= best) {
      has_best = true;
      best = mser;
      best_cut = i;
    }
  }
  return static_cast<int64_t>(best_cut * kBatch);
}

}  // namespace tidewheel
