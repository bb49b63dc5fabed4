#include "tools/workload/arrival_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::vector<int64_t> Draw(const ArrivalOptions& options) {
  const auto arrivals = DrawArrivals(options);
  EXPECT_THAT(arrivals, IsOk());
  return arrivals.ok() ? *arrivals : std::vector<int64_t>();
}

// Of the gaps between arrivals.
double CoefficientOfVariation(const std::vector<int64_t>& times) {
  double sum = 0;
  double squares = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const auto gap = static_cast<double>(times[i] - times[i - 1]);
    sum += gap;
    squares += gap * gap;
  }
  const auto n = static_cast<double>(times.size() - 1);
  return std::sqrt(squares / n - sum / n * (sum / n)) / (sum / n);
}

struct RateCase {
  double rate;
  double burstiness;
};

class ArrivalRateTest : public testing::TestWithParam<RateCase> {};

TEST_P(ArrivalRateTest, TenThousandArrivalsHaveTheRateAndVariationAskedFor) {
  const auto [rate, burstiness] = GetParam();
  for (const uint64_t seed : {0u, 1u, 2u}) {
    const std::vector<int64_t> times = Draw({.count = 10'000,
                                             .request_rate = rate,
                                             .burstiness = burstiness,
                                             .seed = seed});
    ASSERT_EQ(times.size(), 10'000u);
    EXPECT_EQ(times.front(), 0);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_NEAR(9'999e6 / static_cast<double>(times.back()) / rate, 1, 1e-6);
    const double expected = 1 / std::sqrt(burstiness);
    EXPECT_NEAR(CoefficientOfVariation(times), expected,
                0.1 * expected + 0.001);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rates, ArrivalRateTest,
    testing::Values(RateCase{200, 1}, RateCase{0.01, 1}, RateCase{5.53, 0.8353},
                    RateCase{20, 0.25}, RateCase{20, 4}, RateCase{20, 1e4},
                    RateCase{20, 1e6}, RateCase{20, 1e12}, RateCase{20, 1e300},
                    RateCase{20, kInf}));

TEST(ArrivalScheduleTest, InfiniteBurstinessIsConstantSpacing) {
  EXPECT_THAT(Draw({.count = 4, .request_rate = 8, .burstiness = kInf}),
              ElementsAre(0, 125'000, 250'000, 375'000));
  // 3 gaps of a third of a second: rounded each from its exact place.
  EXPECT_THAT(Draw({.count = 4, .request_rate = 3, .burstiness = kInf}),
              ElementsAre(0, 333'333, 666'667, 1'000'000));
}

TEST(ArrivalScheduleTest, InfiniteRateIsAllAtOnceWhateverTheBurstiness) {
  for (const double burstiness : {0.5, 1.0, kInf}) {
    const auto times =
        Draw({.count = 100, .request_rate = kInf, .burstiness = burstiness});
    EXPECT_EQ(times.size(), 100u);
    EXPECT_THAT(times, Each(0));
  }
}

TEST(ArrivalScheduleTest, FewArrivals) {
  EXPECT_THAT(Draw({.count = 0, .request_rate = 2}), IsEmpty());
  EXPECT_THAT(Draw({.count = 1, .request_rate = 2}), ElementsAre(0));
  EXPECT_THAT(Draw({.count = 2, .request_rate = 2}), ElementsAre(0, 500'000));
}

TEST(ArrivalScheduleTest, SmallestBurstinessStillDrawsASchedule) {
  const auto times =
      Draw({.count = 10'000, .request_rate = 10, .burstiness = kMinBurstiness});
  ASSERT_EQ(times.size(), 10'000u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(times.back(), 999'900'000);
}

TEST(ArrivalScheduleTest, SeedsDifferAndRepeat) {
  const ArrivalOptions zero = {.count = 50, .request_rate = 2, .seed = 0};
  ArrivalOptions one = zero;
  one.seed = 1;
  EXPECT_EQ(Draw(zero), Draw(zero));
  EXPECT_NE(Draw(zero), Draw(one));
}

TEST(ArrivalScheduleTest, ARateScalesTheSameSchedule) {
  const auto slow = Draw({.count = 1000, .request_rate = 1});
  const auto fast = Draw({.count = 1000, .request_rate = 4});
  for (size_t i = 0; i < slow.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(slow[i]),
                4.0 * static_cast<double>(fast[i]), 3);
  }
}

TEST(ArrivalScheduleTest, OptionsOutOfRangeAreErrorsThatNameThem) {
  for (const double rate : {0.0, -1.0, -kInf, std::nan("")}) {
    EXPECT_THAT(DrawArrivals({.count = 5, .request_rate = rate}),
                StatusIs(kInvalid, HasSubstr("request rate ")));
  }
  for (const double burstiness : {0.0, -1.0, 0.0009, -kInf, std::nan("")}) {
    EXPECT_THAT(
        DrawArrivals(
            {.count = 5, .request_rate = kInf, .burstiness = burstiness}),
        StatusIs(kInvalid, HasSubstr("burstiness ")));
  }
  EXPECT_THAT(DrawArrivals({.count = -1, .request_rate = 1}),
              StatusIs(kInvalid, HasSubstr("arrivals -1 is negative")));
  for (const double rate : {1e-12, 5e-324}) {
    EXPECT_THAT(DrawArrivals({.count = 10, .request_rate = rate}),
                StatusIs(kInvalid, HasSubstr("raise the rate")));
  }
}

}  // namespace
}  // namespace tidewheel
