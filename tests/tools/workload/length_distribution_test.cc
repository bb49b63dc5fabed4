#include "tools/workload/length_distribution.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

TEST(LengthDistributionTest, LognormalDrawsAreClippedAtBothEnds) {
  const LengthDistribution lengths(LognormalLengths{
      .log_mean = 3, .log_sigma = 5, .min_tokens = 4, .max_tokens = 90});
  RandomEngine engine = RandomStream(0, RandomUse::kPromptLengths);
  std::map<int32_t, int> counts;
  for (int i = 0; i < 10'000; ++i) ++counts[lengths.Draw(engine)];
  EXPECT_EQ(counts.begin()->first, 4);
  EXPECT_EQ(counts.rbegin()->first, 90);
  EXPECT_GT(counts.size(), 80u);
}

TEST(LengthDistributionTest, HugeDrawsAreTheMaximum) {
  const LengthDistribution lengths(LognormalLengths{.log_mean = 600,
                                                    .log_sigma = 300,
                                                    .min_tokens = 1,
                                                    .max_tokens = 2147483647});
  RandomEngine engine = RandomStream(0, RandomUse::kPromptLengths);
  int at_maximum = 0;
  for (int i = 0; i < 1'000; ++i) {
    const int32_t length = lengths.Draw(engine);
    EXPECT_GE(length, 1);
    at_maximum += length == 2147483647 ? 1 : 0;
  }
  EXPECT_GT(at_maximum, 900);
}

TEST(LengthDistributionTest, UniformDrawsEveryLengthOfItsRange) {
  const auto lengths = LengthDistribution::Uniform(10, 0.25);
  EXPECT_EQ(lengths.min_tokens(), 7);   // 7.5 rounded outwards
  EXPECT_EQ(lengths.max_tokens(), 13);  // 12.5
  RandomEngine engine = RandomStream(0, RandomUse::kPromptLengths);
  std::map<int32_t, int> counts;
  for (int i = 0; i < 7'000; ++i) ++counts[lengths.Draw(engine)];
  EXPECT_EQ(counts.size(), 7u);
  for (const auto& [length, count] : counts) {
    EXPECT_NEAR(count, 1'000, 150) << length;
  }
}

TEST(LengthDistributionTest, RatioOfZeroIsOneLength) {
  const auto lengths = LengthDistribution::Uniform(1024, 0);
  EXPECT_EQ(lengths.min_tokens(), 1024);
  EXPECT_EQ(lengths.max_tokens(), 1024);
}

TEST(LengthDistributionTest, LengthsAreNeverBelowOne) {
  EXPECT_EQ(LengthDistribution::Uniform(1, 0.99).min_tokens(), 1);
}

TEST(LengthDistributionDeathTest, MisuseIsFatal) {
  EXPECT_DEATH(LengthDistribution::Uniform(0, 0), "mean_tokens >= 1");
  EXPECT_DEATH(LengthDistribution::Uniform(5, 1), "range_ratio < 1");
  EXPECT_DEATH(LengthDistribution::Uniform(2147483647, 0.5), "high");
  EXPECT_DEATH(LengthDistribution(LognormalLengths{.log_sigma = -1}),
               "log_sigma >= 0");
  EXPECT_DEATH(LengthDistribution(LognormalLengths{.min_tokens = 0}),
               "min_tokens >= 1");
  EXPECT_DEATH(LengthDistribution(LognormalLengths{.min_tokens = 2}),
               "min_tokens <= ");
}

}  // namespace
}  // namespace tidewheel
