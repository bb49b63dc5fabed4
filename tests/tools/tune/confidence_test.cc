#include "tools/tune/confidence.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tools/tune/block_bootstrap.h"

namespace tidewheel {
namespace {

// A first-order autoregression with mean 0: neighbours resemble each other.
std::vector<float> Autoregression(double phi, size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> noise;
  std::vector<float> series(count);
  double x = noise(engine) / std::sqrt(1 - phi * phi);
  for (float& value : series) {
    value = static_cast<float>(x);
    x = phi * x + noise(engine);
  }
  return series;
}

double Mean(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += x;
  return sum / static_cast<double>(values.size());
}

int64_t BlockLengthOf(const std::vector<float>& series) {
  const std::vector<double> values(series.begin(), series.end());
  return ChooseBlockLength(values);
}

// Of `trials` series, those whose interval contains the mean, 0.
double CoverageOfMean(double phi, bool in_blocks, int trials) {
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const std::vector<float> series =
        Autoregression(phi, 1000, static_cast<uint64_t>(trial));
    const BlockBootstrap bootstrap(
        {.length = 1000,
         .block_length = in_blocks ? BlockLengthOf(series) : 1,
         .resamples = 200,
         .seed = static_cast<uint64_t>(trial)});
    std::vector<double> means;
    std::vector<float> resample(series.size());
    for (int32_t i = 0; i < bootstrap.resamples(); ++i) {
      bootstrap.Resample(i, series, resample);
      means.push_back(Mean(resample));
    }
    const Estimate estimate = BootstrapEstimate(Mean(series), means);
    covered += estimate.low <= 0 && 0 <= estimate.high ? 1 : 0;
  }
  return static_cast<double>(covered) / trials;
}

TEST(BlockBootstrapTest, IntervalsCoverTheMeanOfDependentData) {
  // The method is known to fall a little short of 95 %.
  const double coverage = CoverageOfMean(0.6, /*in_blocks=*/true, 300);
  EXPECT_GT(coverage, 0.88);
  EXPECT_LT(coverage, 0.99);
  // Without blocks they would be half as wide as they must be.
  EXPECT_LT(CoverageOfMean(0.6, /*in_blocks=*/false, 300), 0.8);
}

TEST(BlockBootstrapTest, IntervalsCoverTheMeanOfIndependentData) {
  const double coverage = CoverageOfMean(0, /*in_blocks=*/true, 300);
  EXPECT_GT(coverage, 0.9);
  EXPECT_LT(coverage, 0.99);
}

TEST(BlockBootstrapTest, LongerMemoryGetsLongerBlocks) {
  const int64_t none = BlockLengthOf(Autoregression(0, 4000, 1));
  const int64_t some = BlockLengthOf(Autoregression(0.5, 4000, 1));
  const int64_t much = BlockLengthOf(Autoregression(0.95, 4000, 1));
  EXPECT_LE(none, 5);
  EXPECT_GT(some, none);
  EXPECT_GT(much, 3 * some);
  EXPECT_LE(much, 4000 / 3);
}

TEST(BlockBootstrapTest, AConstantSeriesHasBlocksOfOne) {
  EXPECT_EQ(ChooseBlockLength(std::vector<double>(1000, 1.0)), 1);
}

TEST(BlockBootstrapTest, PairsAreResampledAtTheSamePlaces) {
  std::vector<float> a(100);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  std::vector<float> b = a;
  for (float& x : b) x += 1000;
  const BlockBootstrap bootstrap(
      {.length = 100, .block_length = 7, .resamples = 3, .seed = 5});
  std::vector<float> of_a(100);
  std::vector<float> of_b(100);
  for (int32_t i = 0; i < 3; ++i) {
    bootstrap.Resample(i, a, of_a);
    bootstrap.Resample(i, b, of_b);
    EXPECT_NE(of_a, a);
    for (size_t k = 0; k < of_a.size(); ++k) EXPECT_EQ(of_b[k], of_a[k] + 1000);
  }
}

TEST(ConfidenceTest, StudentIntervalsCoverTheMeanOfFewReplications) {
  std::mt19937_64 engine(7);
  std::normal_distribution<double> draw(10, 3);
  int covered = 0;
  constexpr int kTrials = 1000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> replications(5);
    double mean = 0;
    for (double& x : replications) mean += (x = draw(engine)) / 5;
    const Estimate estimate = StudentEstimate(mean, replications);
    covered += estimate.low <= 10 && 10 <= estimate.high ? 1 : 0;
  }
  EXPECT_GT(covered, 930);
  EXPECT_LT(covered, 970);
}

TEST(ConfidenceTest, OneReplicationHasNoWidth) {
  const Estimate estimate = StudentEstimate(4, std::vector<double>{4});
  EXPECT_EQ(estimate.low, 4);
  EXPECT_EQ(estimate.high, 4);
}

TEST(ConfidenceTest, PercentileIsAtMostOneExactlyIfThatShareIs) {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<float> draw(0.0F, 1.2F);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<float> samples(1 + engine() % 300);
    for (float& x : samples) x = draw(engine);
    const auto kept = std::count_if(samples.begin(), samples.end(),
                                    [](float x) { return x <= 1; });
    for (const double percent : {50.0, 80.0, 90.0, 99.0}) {
      const bool share_keeps = static_cast<double>(kept) * 100 >=
                               percent * static_cast<double>(samples.size());
      std::vector<float> copy = samples;
      EXPECT_EQ(UpperPercentile(copy, percent) <= 1, share_keeps)
          << kept << " of " << samples.size() << " at " << percent;
    }
  }
}

}  // namespace
}  // namespace tidewheel
