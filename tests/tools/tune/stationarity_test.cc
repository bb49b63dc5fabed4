#include "tools/tune/stationarity.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

// Waits of an M/M/1 queue (Lindley's recursion), mean service 1.
std::vector<double> QueueWaits(double utilization, size_t count,
                               uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::exponential_distribution<double> service(1);
  std::exponential_distribution<double> gap(utilization);
  std::vector<double> waits(count);
  for (size_t i = 1; i < count; ++i) {
    waits[i] = std::max(0.0, waits[i - 1] + service(engine) - gap(engine));
  }
  return waits;
}

int GrowingOf100(double utilization, size_t count) {
  int growing = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    growing += QueueGrows(QueueWaits(utilization, count, seed), 1) ? 1 : 0;
  }
  return growing;
}

TEST(StationarityTest, AQueueThatIsFedFasterThanItServesGrows) {
  EXPECT_EQ(GrowingOf100(1.2, 2000), 100);
}

TEST(StationarityTest, AStableQueueDoesNot) {
  EXPECT_LE(GrowingOf100(0.5, 2000), 1);
  EXPECT_LE(GrowingOf100(0.8, 5000), 6);
}

TEST(StationarityTest, ABurstIsNoTrend) {
  std::vector<double> waits(1000, 0.1);
  for (size_t i = 400; i < 500; ++i) waits[i] = 50;
  EXPECT_FALSE(QueueGrows(waits, 1));
}

TEST(StationarityTest, ARiseOfLessThanAServiceIsNotOverload) {
  std::vector<double> waits(1000);
  for (size_t i = 0; i < waits.size(); ++i) {
    waits[i] = static_cast<double>(i) / 1000;
  }
  EXPECT_TRUE(QueueGrows(waits, 0.5));
  EXPECT_FALSE(QueueGrows(waits, 2));
}

TEST(StationarityTest, TooFewRequestsSayNothing) {
  std::vector<double> waits(39);
  for (size_t i = 0; i < waits.size(); ++i) waits[i] = static_cast<double>(i);
  EXPECT_FALSE(QueueGrows(waits, 0.001));
}

}  // namespace
}  // namespace tidewheel
