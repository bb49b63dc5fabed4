#include "tools/tune/stationarity.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <vector>

namespace tidewheel {
namespace {

constexpr size_t kBatches = 20;
constexpr double kSignificance = 0.01;

std::array<double, kBatches> BatchMeans(std::span<const double> series) {
  std::array<double, kBatches> means = {};
  for (size_t b = 0; b < kBatches; ++b) {
    const size_t begin = series.size() * b / kBatches;
    const size_t end = series.size() * (b + 1) / kBatches;
    for (size_t i = begin; i < end; ++i) means[b] += series[i];
    means[b] /= static_cast<double>(end - begin);
  }
  return means;
}

}  // namespace

bool QueueGrows(std::span<const double> waits, double mean_service) {
  if (waits.size() < 2 * kBatches) return false;
  const std::array<double, kBatches> means = BatchMeans(waits);
  int rises = 0;  // Kendall's S
  std::vector<double> slopes;
  slopes.reserve(kBatches * (kBatches - 1) / 2);
  for (size_t i = 0; i < kBatches; ++i) {
    for (size_t j = i + 1; j < kBatches; ++j) {
      rises += (means[j] > means[i]) - (means[j] < means[i]);
      slopes.push_back((means[j] - means[i]) / static_cast<double>(j - i));
    }
  }
  constexpr double kN = kBatches;
  const double deviation = std::sqrt(kN * (kN - 1) * (2 * kN + 5) / 18);
  const double limit =
      quantile(boost::math::normal_distribution<double>(), 1 - kSignificance);
  if ((rises - 1) / deviation <= limit) return false;
  const auto middle =
      slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  std::nth_element(slopes.begin(), middle, slopes.end());
  return *middle * kN > mean_service;
}

}  // namespace tidewheel
