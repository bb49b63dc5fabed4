#include "tools/tune/block_bootstrap.h"

#include <algorithm>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <random>

#include "allocator/check.h"

namespace tidewheel {
namespace {

// Autocovariances for lags 0 to max_lag.
std::vector<double> Autocovariances(std::span<const double> series,
                                    size_t max_lag) {
  const double n = static_cast<double>(series.size());
  double sum_all = 0;
  for (const double x : series) sum_all += x;
  const double mean = sum_all / n;
  std::vector<double> centred(series.begin(), series.end());
  for (double& x : centred) x -= mean;
  std::vector<double> covariances(max_lag + 1);
  for (size_t lag = 0; lag <= max_lag; ++lag) {
    double sum = 0;
    for (size_t i = lag; i < centred.size(); ++i) {
      sum += centred[i] * centred[i - lag];
    }
    covariances[lag] = sum / n;
  }
  return covariances;
}

// The lag after which `run` autocorrelations in a row are insignificant; the
// last significant one if there is no such run.
size_t LastSignificantLag(const std::vector<double>& covariances, size_t run,
                          double threshold) {
  size_t last = 0;
  for (size_t lag = 1; lag < covariances.size(); ++lag) {
    if (std::abs(covariances[lag]) >= threshold * covariances[0]) {
      last = lag;
    } else if (lag >= last + run) {
      break;
    }
  }
  return last;
}

}  // namespace

int64_t ChooseBlockLength(std::span<const double> series) {
  constexpr size_t kFewest = 20;
  if (series.size() < kFewest) return 1;
  const double n = static_cast<double>(series.size());
  const double log_n = std::log10(n);
  const size_t run =
      std::max<size_t>(5, static_cast<size_t>(std::ceil(std::sqrt(log_n))));
  const size_t max_lag = std::min(
      series.size() - 1, static_cast<size_t>(std::ceil(std::sqrt(n))) + run);
  const std::vector<double> covariances = Autocovariances(series, max_lag);
  if (!(covariances[0] > 0)) return 1;  // a constant
  const size_t significant =
      LastSignificantLag(covariances, run, 2 * std::sqrt(log_n / n));
  if (significant == 0) return 1;
  const size_t window = std::min(2 * significant, max_lag);
  // Sums with the flat-top window: 1 up to half of it, then down to 0.
  double spectrum = covariances[0];
  double weighted = 0;
  for (size_t lag = 1; lag <= window; ++lag) {
    const double t = static_cast<double>(lag) / static_cast<double>(window);
    const double weight = t <= 0.5 ? 1 : 2 * (1 - t);
    spectrum += 2 * weight * covariances[lag];
    weighted += 2 * weight * static_cast<double>(lag) * covariances[lag];
  }
  const double longest = std::ceil(std::min(3 * std::sqrt(n), n / 3));
  const double denominator = 4.0 / 3.0 * spectrum * spectrum;
  if (!(denominator > 0)) return static_cast<int64_t>(longest);
  const double length =
      std::cbrt(2 * weighted * weighted / denominator) * std::cbrt(n);
  return static_cast<int64_t>(std::clamp(std::ceil(length), 1.0, longest));
}

BlockBootstrap::BlockBootstrap(const Options& options) : options_(options) {
  TIDEWHEEL_CHECK(options.block_length >= 1 &&
                  options.block_length <= options.length);
  blocks_ = (options.length + options.block_length - 1) / options.block_length;
  starts_.resize(static_cast<size_t>(options.resamples) *
                 static_cast<size_t>(blocks_));
  std::mt19937_64 engine(options.seed);
  const boost::random::uniform_int_distribution<int64_t> place(
      0, options.length - options.block_length);
  for (int64_t& start : starts_) start = place(engine);
}

void BlockBootstrap::Resample(int32_t index, std::span<const float> series,
                              std::span<float> resample) const {
  TIDEWHEEL_CHECK_EQ(series.size(), static_cast<size_t>(options_.length));
  TIDEWHEEL_CHECK_EQ(resample.size(), series.size());
  const int64_t* start = &starts_[static_cast<size_t>(index * blocks_)];
  for (int64_t at = 0; at < options_.length; at += options_.block_length) {
    const int64_t count = std::min(options_.block_length, options_.length - at);
    std::copy_n(series.begin() + *start, count, resample.begin() + at);
    ++start;
  }
}

}  // namespace tidewheel
