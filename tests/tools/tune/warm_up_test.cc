#include "tools/tune/warm_up.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

// A transient that decays with `scale` observations, on white noise.
std::vector<double> Decaying(double height, double scale, size_t count,
                             uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> noise;
  std::vector<double> series(count);
  for (size_t i = 0; i < count; ++i) {
    series[i] =
        height * std::exp(-static_cast<double>(i) / scale) + noise(engine);
  }
  return series;
}

TEST(WarmUpTest, CutsAKnownTransientAndLittleMore) {
  // 20 exp(-i / 50) has fallen below the noise of a batch of five, 0.45,
  // after 190 observations.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_THAT(WarmUpLength(Decaying(20, 50, 4000, seed), 0.5),
                AllOf(Ge(100), Le(400)))
        << seed;
  }
}

TEST(WarmUpTest, TheBiasOfWhatRemainsIsSmall) {
  double with_cut = 0;
  double without = 0;
  constexpr int kRuns = 50;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    const std::vector<double> series = Decaying(20, 50, 2000, seed);
    const int64_t cut = WarmUpLength(series, 0.5);
    double sum = 0;
    double all = 0;
    for (size_t i = 0; i < series.size(); ++i) {
      all += series[i];
      if (static_cast<int64_t>(i) >= cut) sum += series[i];
    }
    with_cut += sum / static_cast<double>(2000 - cut) / kRuns;
    without += all / 2000 / kRuns;
  }
  EXPECT_GT(without, 0.45);  // 20 * 50 / 2000
  EXPECT_LT(std::abs(with_cut), 0.05);
}

TEST(WarmUpTest, CutsNothingOfAConstant) {
  EXPECT_EQ(WarmUpLength(std::vector<double>(500, 3.0), 0.5), 0);
}

TEST(WarmUpTest, NeverCutsMoreThanTheFraction) {
  // A series that falls all the time wants to be cut everywhere.
  std::vector<double> falling(1000);
  for (size_t i = 0; i < falling.size(); ++i) {
    falling[i] = -std::pow(static_cast<double>(i), 2);
  }
  EXPECT_EQ(WarmUpLength(falling, 0.1), 0);  // the end varies most
  std::vector<double> settling(1000);
  for (size_t i = 0; i < 900; ++i) settling[i] = 900 - static_cast<double>(i);
  EXPECT_EQ(WarmUpLength(settling, 0.1), 100);
  EXPECT_EQ(WarmUpLength(settling, 0.5), 500);
  EXPECT_EQ(WarmUpLength(settling, 0), 0);
}

TEST(WarmUpTest, SeriesShorterThanABatchAreLeftAlone) {
  EXPECT_EQ(WarmUpLength({}, 0.5), 0);
  EXPECT_EQ(WarmUpLength(std::vector<double>{9, 1, 1, 1}, 0.5), 0);
}

}  // namespace
}  // namespace tidewheel
