#include "tools/tune/edge_search.h"

#include <cmath>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

RateEdge HighestRateBelow(double edge, const RateEdgeOptions& options,
                          int* probes = nullptr) {
  int count = 0;
  const absl::StatusOr<RateEdge> found =
      FindHighestRate(options, [&](double rate) -> absl::StatusOr<bool> {
        ++count;
        EXPECT_GE(rate, options.floor);
        EXPECT_LE(rate, options.cap);
        return rate <= edge;
      });
  EXPECT_THAT(found, IsOk());
  if (probes != nullptr) *probes = count;
  return *found;
}

TEST(EdgeSearchTest, BracketsTheEdgeFromEitherSideOfTheGuess) {
  for (const double edge : {0.02, 0.9, 1.0, 1.01, 3.7, 900.0}) {
    const RateEdge found = HighestRateBelow(
        edge, {.start = 1, .floor = 1e-4, .cap = 1e6, .resolution = 1.02});
    ASSERT_TRUE(found.holds && found.breaks) << edge;
    EXPECT_LE(*found.holds, edge);
    EXPECT_GT(*found.breaks, edge);
    EXPECT_LE(*found.breaks / *found.holds, 1.02);
  }
}

TEST(EdgeSearchTest, AGoodGuessIsCheap) {
  int probes = 0;
  HighestRateBelow(1.03,
                   {.start = 1,
                    .floor = 1e-4,
                    .cap = 1e6,
                    .first_step = 1.08,
                    .resolution = 1.02},
                   &probes);
  EXPECT_LE(probes, 4);
}

TEST(EdgeSearchTest, NothingHoldsIsKnownAfterTwoProbes) {
  int probes = 0;
  const RateEdge found =
      HighestRateBelow(0, {.start = 1, .floor = 1e-4, .cap = 1e6}, &probes);
  EXPECT_FALSE(found.holds.has_value());
  EXPECT_EQ(found.breaks, 1e-4);
  EXPECT_EQ(probes, 2);
}

TEST(EdgeSearchTest, TheCapIsNotExceeded) {
  const RateEdge found =
      HighestRateBelow(1e9, {.start = 1, .floor = 0.1, .cap = 40});
  EXPECT_EQ(found.holds, 40);
  EXPECT_FALSE(found.breaks.has_value());
}

TEST(EdgeSearchTest, AnErrorOfTheProbeEndsTheSearch) {
  EXPECT_THAT(FindHighestRate({.start = 1, .floor = 0.1, .cap = 10},
                              [](double) -> absl::StatusOr<bool> {
                                return absl::CancelledError("enough");
                              }),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
}

TEST(EdgeSearchTest, FindsEveryLowestCount) {
  for (int64_t edge = 3; edge <= 200; ++edge) {
    const absl::StatusOr<CountEdge> found = FindLowestCount(
        {.low = 3, .high = 200},
        [&](int64_t count) -> absl::StatusOr<bool> { return count >= edge; });
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->holds, edge);
    if (edge == 3) {
      EXPECT_FALSE(found->breaks.has_value());
    } else {
      EXPECT_EQ(found->breaks, edge - 1);
    }
  }
}

TEST(EdgeSearchTest, ACoarseCountStopsEarlier) {
  int probes = 0;
  const absl::StatusOr<CountEdge> found =
      FindLowestCount({.low = 10, .high = 100'000, .resolution = 1.05},
                      [&](int64_t count) -> absl::StatusOr<bool> {
                        ++probes;
                        return count >= 4321;
                      });
  ASSERT_THAT(found, IsOk());
  EXPECT_GE(*found->holds, 4321);
  EXPECT_LT(*found->holds, 4321 * 1.05);
  EXPECT_LE(probes, 10);
}

TEST(EdgeSearchTest, NoCountHolds) {
  const absl::StatusOr<CountEdge> found =
      FindLowestCount({.low = 1, .high = 50},
                      [](int64_t) -> absl::StatusOr<bool> { return false; });
  ASSERT_THAT(found, IsOk());
  EXPECT_FALSE(found->holds.has_value());
  EXPECT_EQ(found->breaks, 50);
}

}  // namespace
}  // namespace tidewheel
