#include "tools/tune/front_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tidewheel {
namespace {

constexpr int kColumns = 60;
constexpr int kLines = 11;

struct Axis {
  double low = 0;
  double high = 0;

  // The cell of `value` among `cells`.
  int CellOf(double value, int cells) const {
    const double t = (value - low) / (high - low);
    return std::clamp(static_cast<int>(std::lround(t * (cells - 1))), 0,
                      cells - 1);
  }
};

// A little wider than the values, so that none lies on the frame.
Axis AxisOf(double low, double high) {
  const double margin = std::max(0.05 * (high - low), 0.01 * std::abs(high));
  return {std::max(low - margin, 0.0), high + std::max(margin, 1e-9)};
}

int RankOf(char mark) {
  return mark == 'R' ? 3 : mark == '*' ? 2 : mark == '.' ? 1 : 0;
}

}  // namespace

std::string FrontPlot(const ParetoFront& front, int32_t recommended) {
  if (front.points.empty()) return "";
  const auto [least_cost, most_cost] = std::minmax_element(
      front.points.begin(), front.points.end(),
      [](const FrontPoint& a, const FrontPoint& b) { return a.cost < b.cost; });
  const auto [least, most] =
      std::minmax_element(front.points.begin(), front.points.end(),
                          [](const FrontPoint& a, const FrontPoint& b) {
                            return a.value < b.value;
                          });
  const Axis x = AxisOf(least_cost->cost, most_cost->cost);
  const Axis y = AxisOf(least->value, most->value);
  std::vector<std::string> cells(kLines, std::string(kColumns, ' '));
  for (const FrontPoint& point : front.points) {
    char& cell =
        cells[static_cast<size_t>(kLines - 1 - y.CellOf(point.value, kLines))]
             [static_cast<size_t>(x.CellOf(point.cost, kColumns))];
    const char mark = point.candidate == recommended ? 'R'
                      : point.is_on_front            ? '*'
                                                     : '.';
    if (RankOf(mark) > RankOf(cell)) cell = mark;
  }
  std::string text = absl::StrCat("  ", front.value_name, "\n");
  for (int line = 0; line < kLines; ++line) {
    const bool has_label = line == 0 || line == kLines - 1;
    const double label = line == 0 ? y.high : y.low;
    absl::StrAppend(
        &text, has_label ? absl::StrFormat("%8.2f |", label) : "         |",
        cells[static_cast<size_t>(line)], "\n");
    while (text.size() > 1 && text[text.size() - 2] == ' ') {
      text.erase(text.size() - 2, 1);
    }
  }
  absl::StrAppend(&text, "         +", std::string(kColumns, '-'), "\n");
  const std::string low = absl::StrFormat("%.2f", x.low);
  const std::string high = absl::StrFormat("%.2f", x.high);
  const size_t gap = kColumns - low.size() - high.size();
  std::string name(gap, ' ');
  if (front.cost_name.size() + 2 <= gap) {
    name.replace((gap - front.cost_name.size()) / 2, front.cost_name.size(),
                 front.cost_name);
  }
  absl::StrAppend(&text, "          ", low, name, high, "\n");
  return text;
}

}  // namespace tidewheel
