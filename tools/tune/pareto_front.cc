#include "tools/tune/pareto_front.h"

#include <algorithm>
#include <numeric>

namespace tidewheel {

std::vector<int32_t> FrontNumbers(std::span<const CostPair> points) {
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (points[a].first != points[b].first) {
      return points[a].first < points[b].first;
    }
    return points[a].second < points[b].second;
  });
  // In this order a point is beaten by a front exactly if the front's smallest
  // second figure so far is at most its own. Those minima grow with the
  // front's number, so the first front that does not beat it is found by
  // bisection.
  std::vector<double> smallest;
  std::vector<int32_t> numbers(points.size());
  for (const size_t i : order) {
    const double second = points[i].second;
    const auto front =
        std::upper_bound(smallest.begin(), smallest.end(), second);
    numbers[i] = static_cast<int32_t>(front - smallest.begin());
    if (front == smallest.end()) {
      smallest.push_back(second);
    } else {
      *front = second;
    }
  }
  return numbers;
}

void MarkFront(ParetoFront& front) {
  std::stable_sort(
      front.points.begin(), front.points.end(),
      [](const FrontPoint& a, const FrontPoint& b) { return a.cost < b.cost; });
  std::vector<CostPair> pairs;
  for (const FrontPoint& point : front.points) {
    pairs.push_back(
        {point.cost, front.larger_is_better ? -point.value : point.value});
  }
  const std::vector<int32_t> numbers = FrontNumbers(pairs);
  for (size_t i = 0; i < numbers.size(); ++i) {
    front.points[i].is_on_front = numbers[i] == 0;
  }
}

}  // namespace tidewheel
