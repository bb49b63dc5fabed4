#include "tools/tune/pareto_front.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

bool Beats(const CostPair& a, const CostPair& b) {
  return a.first <= b.first && a.second <= b.second &&
         (a.first < b.first || a.second < b.second);
}

// By the definition, one front after the other.
std::vector<int32_t> NaiveFronts(const std::vector<CostPair>& points) {
  std::vector<int32_t> fronts(points.size(), -1);
  for (int32_t front = 0;; ++front) {
    std::vector<size_t> free;
    for (size_t i = 0; i < points.size(); ++i) {
      if (fronts[i] >= 0) continue;
      bool is_beaten = false;
      for (size_t j = 0; j < points.size(); ++j) {
        is_beaten = is_beaten || (fronts[j] < 0 && Beats(points[j], points[i]));
      }
      if (!is_beaten) free.push_back(i);
    }
    if (free.empty()) return fronts;
    for (const size_t i : free) fronts[i] = front;
  }
}

TEST(ParetoFrontTest, AgreesWithTheDefinition) {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> draw(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<CostPair> points(1 + engine() % 60);
    for (CostPair& point : points) point = {draw(engine), draw(engine)};
    EXPECT_EQ(FrontNumbers(points), NaiveFronts(points));
  }
}

TEST(ParetoFrontTest, OfPointsAlikeTheFirstIsOnTheLowerFront) {
  const std::vector<CostPair> points = {{1, 1}, {1, 1}, {2, 0}};
  EXPECT_EQ(FrontNumbers(points), (std::vector<int32_t>{0, 1, 0}));
}

TEST(ParetoFrontTest, WhereLargerIsBetterTheFrontTurnsRound) {
  ParetoFront front;
  front.larger_is_better = true;
  const double cost_and_value[][2] = {{4, 9}, {1, 3}, {2, 2}, {3, 8}};
  for (const auto& [cost, value] : cost_and_value) {
    FrontPoint& point = front.points.emplace_back();
    point.cost = cost;
    point.value = value;
  }
  MarkFront(front);
  std::vector<bool> marks;
  for (const FrontPoint& point : front.points) {
    marks.push_back(point.is_on_front);
  }
  EXPECT_EQ(marks, (std::vector<bool>{true, false, true, true}));
}

}  // namespace
}  // namespace tidewheel
