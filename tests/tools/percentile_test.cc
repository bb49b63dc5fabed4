#include "tools/report/percentile.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tools/report/distribution.h"
#include "tools/report/gap_histogram.h"

namespace tidewheel {
namespace {

std::vector<double> OneTo(int n) {
  std::vector<double> samples;
  for (int i = 1; i <= n; ++i) samples.push_back(i);
  return samples;
}

// numpy.percentile(range(1, n + 1), p).
struct NumpyValue {
  int n;
  double percent;
  double value;
};

class PercentileTest : public testing::TestWithParam<NumpyValue> {};

TEST_P(PercentileTest, IsNumpysDefault) {
  const NumpyValue& expected = GetParam();
  EXPECT_DOUBLE_EQ(Percentile(OneTo(expected.n), expected.percent),
                   expected.value);
}

INSTANTIATE_TEST_SUITE_P(
    SmallCounts, PercentileTest,
    testing::Values(NumpyValue{1, 0, 1}, NumpyValue{1, 50, 1},
                    NumpyValue{1, 99, 1}, NumpyValue{1, 100, 1},
                    NumpyValue{2, 50, 1.5}, NumpyValue{2, 90, 1.9},
                    NumpyValue{2, 99, 1.99}, NumpyValue{2, 100, 2},
                    NumpyValue{3, 50, 2}, NumpyValue{3, 99, 2.98},
                    NumpyValue{10, 50, 5.5}, NumpyValue{10, 90, 9.1},
                    NumpyValue{10, 99, 9.91}, NumpyValue{20, 90, 18.1},
                    NumpyValue{20, 95, 19.05}, NumpyValue{100, 50, 50.5},
                    NumpyValue{100, 99, 99.01}, NumpyValue{101, 50, 51},
                    NumpyValue{101, 7, 8}, NumpyValue{101, 99, 100},
                    NumpyValue{101, 99.9, 100.9}));

TEST(PercentileOrderTest, PercentilesAscendWithinTheSamples) {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> value(0, 1000);
  for (const int n : {1, 2, 3, 10, 20, 100, 101}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<double> samples;
      for (int i = 0; i < n; ++i) samples.push_back(value(engine));
      const std::vector<double> percents = {50, 90, 99};
      const Distribution d = DescribeSamples(samples, percents);
      EXPECT_EQ(d.count, n);
      EXPECT_EQ(d.min, *std::min_element(samples.begin(), samples.end()));
      EXPECT_EQ(d.max, *std::max_element(samples.begin(), samples.end()));
      EXPECT_LE(d.min, d.percentiles[0]);
      EXPECT_LE(d.percentiles[0], d.percentiles[1]);
      EXPECT_LE(d.percentiles[1], d.percentiles[2]);
      EXPECT_LE(d.percentiles[2], d.max);
      EXPECT_EQ(d.median, d.percentiles[0]);
    }
  }
}

TEST(PercentileOrderTest, EqualSamplesHaveThatPercentileExactly) {
  // 0.1 + (0.1 - 0.1) * f is 0.1, but 0.1 * (1 - f) + 0.1 * f is not always.
  const std::vector<double> samples(7, 0.1);
  for (int tenths = 0; tenths <= 1000; tenths += 7) {
    const double percent = tenths / 10.0;
    EXPECT_EQ(Percentile(samples, percent), 0.1);
  }
}

TEST(DistributionTest, NoSamplesHaveNoValues) {
  const std::vector<double> percents = {99};
  const Distribution d = DescribeSamples({}, percents);
  EXPECT_EQ(d.count, 0);
  EXPECT_TRUE(d.percentiles.empty());
}

TEST(DistributionTest, DeviationIsThatOfTheSamplesThemselves) {
  const Distribution d = DescribeSamples({2, 4, 4, 4, 5, 5, 7, 9}, {});
  EXPECT_DOUBLE_EQ(d.mean, 5);
  EXPECT_DOUBLE_EQ(d.std_dev, 2);  // numpy.std; with n - 1 it would be 2.138
}

TEST(DistributionTest, OrderOfSamplesDoesNotShow) {
  const Distribution a = DescribeSamples({0.1, 0.2, 0.3, 1e9}, {});
  const Distribution b = DescribeSamples({1e9, 0.3, 0.1, 0.2}, {});
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.std_dev, b.std_dev);
}

TEST(GapHistogramTest, IsWhatAllGapsOneByOneWouldBe) {
  std::mt19937_64 engine(2);
  const std::vector<double> percents = {0, 1, 50, 90, 99, 99.9, 100};
  for (const int64_t longest_us : {3L, 1000L, 262'144L, 9'000'000L}) {
    std::uniform_int_distribution<int64_t> gap(0, longest_us);
    std::uniform_int_distribution<int64_t> count(0, 5);
    GapHistogram histogram;
    std::vector<double> expanded_ms;
    for (int i = 0; i < 500; ++i) {
      const int64_t us = gap(engine);
      const int64_t times = count(engine);
      histogram.Add(us, times);
      expanded_ms.insert(expanded_ms.end(), static_cast<size_t>(times),
                         static_cast<double>(us) / 1000);
    }
    const Distribution expected = DescribeSamples(expanded_ms, percents);
    const Distribution got = histogram.DescribeMs(percents);
    EXPECT_EQ(got.count, expected.count);
    EXPECT_DOUBLE_EQ(got.min, expected.min);
    EXPECT_DOUBLE_EQ(got.max, expected.max);
    EXPECT_NEAR(got.mean, expected.mean, 1e-9 * expected.mean);
    EXPECT_NEAR(got.std_dev, expected.std_dev, 1e-9 * expected.std_dev);
    for (size_t i = 0; i < percents.size(); ++i) {
      EXPECT_NEAR(got.percentiles[i], expected.percentiles[i],
                  1e-12 * expected.max)
          << percents[i];
    }
  }
}

TEST(GapHistogramTest, GapsThatWereNeverAddedAreNone) {
  GapHistogram histogram;
  histogram.Add(7, 0);
  histogram.Add(70'000'000, 0);
  EXPECT_EQ(histogram.DescribeMs({}).count, 0);
}

TEST(PercentileDeathTest, AsksForSamplesAndAPercentage) {
  EXPECT_DEATH(RankOfPercentile(0, 50), "count > 0");
  EXPECT_DEATH(RankOfPercentile(5, 100.1), "percent");
  EXPECT_DEATH(RankOfPercentile(5, -1), "percent");
}

}  // namespace
}  // namespace tidewheel
