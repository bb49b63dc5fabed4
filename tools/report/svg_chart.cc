#include "tools/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "tools/report/axis_scale.h"
#include "tools/report/chart_legend.h"
#include "tools/report/html_text.h"

namespace tidewheel {
namespace {

using Shape = ChartSeries::Shape;

// The drawing's own units; the page scales it. A wide page shows two charts
// side by side, a phone one: the type is sized for both (page_style).
constexpr double kWidth = 420;
constexpr double kHeight = 250;
constexpr double kLeft = 48;
constexpr double kRight = 400;
constexpr double kTop = 24;
constexpr double kBottom = 208;
constexpr int kXTicks = 6;
constexpr int kYTicks = 5;
constexpr double kLineHeight = 13;

std::string Number(double value) { return absl::StrFormat("%.1f", value); }

bool IsByX(Shape shape) { return shape != Shape::kPoints; }

struct Range {
  double min = 0;
  double max = 0;
  bool is_empty = true;

  void Add(double value) {
    TIDEWHEEL_CHECK(std::isfinite(value));
    min = is_empty ? value : std::min(min, value);
    max = is_empty ? value : std::max(max, value);
    is_empty = false;
  }
};

// Room at both ends for markers, which are wider than their points.
void Widen(bool is_log, Range& range) {
  constexpr double kShare = 0.04;
  if (is_log) {
    const double factor = std::pow(range.max / range.min, kShare);
    range.min /= factor;
    range.max *= factor;
  } else {
    const double room = kShare * (range.max - range.min);
    range.min -= room;
    range.max += room;
  }
}

AxisScale XScaleOf(const ChartAxis& axis, Range range, bool has_markers) {
  if (has_markers) Widen(axis.is_log, range);
  if (axis.is_log) {
    return AxisScale::Logarithmic(range.min, range.max, kXTicks);
  }
  if (axis.begins_at_zero) {
    range.Add(0);
    if (has_markers) range.min = 0;
  }
  return AxisScale::Exact(range.min, range.max, kXTicks);
}

AxisScale YScaleOf(const ChartAxis& axis, Range range, bool has_markers) {
  if (axis.max.has_value()) range.Add(*axis.max);
  if (axis.is_log) {
    if (has_markers) Widen(true, range);
    return AxisScale::Logarithmic(range.min, range.max, kYTicks);
  }
  if (axis.begins_at_zero) range.Add(0);
  return AxisScale::Linear(range.min, range.max, kYTicks);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart);

  std::string text() &&;

 private:
  double X(double value) const {
    return kLeft + x_.Place(value) * (kRight - kLeft);
  }
  double Y(double value) const {
    return kBottom - y_.Place(value) * (kBottom - kTop);
  }
  void DrawAxes();
  void DrawArea(int index);
  void DrawLine(int index);
  void DrawPoints(int index);
  void DrawMarks();
  void DrawColumns();
  std::string PointText(const ChartSeries& series, const ChartPoint& point);

  const Chart& chart_;
  // By series and point: the top of an area, y elsewhere.
  std::vector<std::vector<double>> tops_;
  AxisScale x_;
  AxisScale y_;
  std::string marks_;  // their labels, to be drawn above all lines
  std::string text_;
};

Drawing::Drawing(const Chart& chart) : chart_(chart) {
  TIDEWHEEL_CHECK(chart.has_points());
  TIDEWHEEL_CHECK(chart.series.size() <= size_t{kMaxChartSeries});
  Range x;
  Range y;
  const std::vector<double>* below = nullptr;
  for (const ChartSeries& series : chart.series) {
    std::vector<double> tops;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const ChartPoint& point = series.points[i];
      double top = point.y;
      if (series.shape == Shape::kArea && below != nullptr) top += (*below)[i];
      tops.push_back(top);
      x.Add(point.x);
      y.Add(top);
      if (point.low < point.high) {
        y.Add(point.low);
        y.Add(point.high);
      }
    }
    tops_.push_back(std::move(tops));
    if (series.shape == Shape::kArea) below = &tops_.back();
  }
  for (const ChartMark& mark : chart.marks) {
    (mark.direction == ChartMark::Direction::kAtX ? x : y).Add(mark.at);
  }
  bool has_markers = false;
  for (const ChartSeries& series : chart.series) {
    has_markers |= series.shape == Shape::kPoints && !series.points.empty();
  }
  x_ = XScaleOf(chart.x, x, has_markers);
  y_ = YScaleOf(chart.y, y, has_markers);
}

void Drawing::DrawAxes() {
  for (const double tick : y_.ticks()) {
    const std::string y = Number(Y(tick));
    absl::StrAppend(&text_, "<path class=\"grid\" d=\"M", kLeft, " ", y, "H",
                    kRight, "\"/><text class=\"tick\" x=\"", kLeft - 5,
                    "\" y=\"", Number(Y(tick) + 3.5), "\" text-anchor=\"end\">",
                    TickText(tick), "</text>\n");
  }
  for (const double tick : x_.ticks()) {
    const std::string x = Number(X(tick));
    absl::StrAppend(&text_, "<path class=\"axis\" d=\"M", x, " ", kBottom,
                    "v4\"/><text class=\"tick\" x=\"", x, "\" y=\"",
                    kBottom + 16, "\" text-anchor=\"middle\">", TickText(tick),
                    "</text>\n");
  }
  absl::StrAppend(&text_, "<path class=\"axis\" d=\"M", kLeft, " ", kTop, "V",
                  kBottom, "H", kRight,
                  "\"/><text class=\"name\" x=\"2\" y=\"11\">",
                  HtmlText(chart_.y.label), "</text><text class=\"name\" x=\"",
                  kRight, "\" y=\"", kHeight - 7, "\" text-anchor=\"end\">",
                  HtmlText(chart_.x.label), "</text>\n");
}

void Drawing::DrawArea(int index) {
  const ChartSeries& series = chart_.series[index];
  const std::vector<double>* below = nullptr;
  for (int i = 0; i < index; ++i) {
    if (chart_.series[i].shape == Shape::kArea) below = &tops_[i];
  }
  std::string edge;
  std::string path;
  for (size_t i = 0; i < series.points.size(); ++i) {
    absl::StrAppend(&edge, i == 0 ? "M" : "L", Number(X(series.points[i].x)),
                    " ", Number(Y(tops_[index][i])));
  }
  path = edge;
  for (size_t i = series.points.size(); i-- > 0;) {
    const double bottom = below != nullptr ? (*below)[i] : y_.min();
    absl::StrAppend(&path, "L", Number(X(series.points[i].x)), " ",
                    Number(Y(bottom)));
  }
  absl::StrAppend(&text_, "<path class=\"area a", index + 1, "\" d=\"", path,
                  "Z\"/><path class=\"line l", index + 1, "\" d=\"", edge,
                  "\"/>\n");
}

void Drawing::DrawLine(int index) {
  const ChartSeries& series = chart_.series[index];
  std::string path;
  for (size_t i = 0; i < series.points.size(); ++i) {
    const std::string x = Number(X(series.points[i].x));
    const std::string y = Number(Y(series.points[i].y));
    if (i > 0 && series.shape == Shape::kStep) {
      absl::StrAppend(&path, "H", x, "V", y);
    } else {
      absl::StrAppend(&path, i == 0 ? "M" : "L", x, " ", y);
    }
  }
  absl::StrAppend(&text_, "<path class=\"line l", index + 1, "\" d=\"", path,
                  "\"/>\n");
}

std::string Drawing::PointText(const ChartSeries& series,
                               const ChartPoint& point) {
  std::string text = series.name;
  if (!point.text.empty()) absl::StrAppend(&text, ": ", point.text);
  absl::StrAppend(&text, "\n", chart_.x.label, ": ", ValueText(point.x), "\n",
                  chart_.y.label, ": ", ValueText(point.y));
  if (point.low < point.high) {
    absl::StrAppend(&text, " (", ValueText(point.low), " to ",
                    ValueText(point.high), ")");
  }
  return text;
}

void Drawing::DrawPoints(int index) {
  const ChartSeries& series = chart_.series[index];
  for (const ChartPoint& point : series.points) {
    const double x = X(point.x);
    absl::StrAppend(&text_, "<g class=\"hit p", index + 1, "\">");
    if (point.low < point.high) {
      absl::StrAppend(&text_, "<path class=\"interval\" d=\"M", Number(x), " ",
                      Number(Y(point.low)), "V", Number(Y(point.high)), "M",
                      Number(x - 3), " ", Number(Y(point.low)), "h6M",
                      Number(x - 3), " ", Number(Y(point.high)), "h6\"/>");
    }
    absl::StrAppend(&text_, "<path class=\"marker\" d=\"",
                    MarkerPath(index, x, Y(point.y), 4), "\"/><title>",
                    HtmlText(PointText(series, point)), "</title></g>\n");
  }
}

// Lines first, so that none lies on a label.
void Drawing::DrawMarks() {
  std::string labels;
  const bool from_bottom = chart_.has_labels_at_bottom;
  double label_y = from_bottom ? kBottom - 6 : kTop + kLineHeight - 3;
  const auto label = [&labels](double x, double y, bool is_end,
                               const std::string& text) {
    absl::StrAppend(&labels, "<text class=\"mark\" x=\"", Number(x), "\" y=\"",
                    Number(y), "\" text-anchor=\"", is_end ? "end" : "start",
                    "\">", HtmlText(text), "</text>\n");
  };
  for (const ChartMark& mark : chart_.marks) {
    if (mark.direction == ChartMark::Direction::kAtY) {
      const double y = Y(mark.at);
      absl::StrAppend(&text_, "<path class=\"mark\" d=\"M", kLeft, " ",
                      Number(y), "H", kRight, "\"/>\n");
      label(kRight - 2, y - 4, true, mark.label);
      continue;
    }
    const double x = X(mark.at);
    absl::StrAppend(&text_, "<path class=\"mark\" d=\"M", Number(x), " ", kTop,
                    "V", kBottom, "\"/>\n");
    const bool is_right = x > (kLeft + kRight) / 2;
    label(is_right ? x - 4 : x + 4, label_y, is_right, mark.label);
    // Labels of near marks do not lie on each other.
    label_y += from_bottom ? -kLineHeight : kLineHeight;
  }
  marks_ = std::move(labels);
}

// A column from halfway to the x before to halfway to the next, which says all
// series' values at its x.
void Drawing::DrawColumns() {
  std::map<double, std::string> columns;
  for (const ChartSeries& series : chart_.series) {
    if (!IsByX(series.shape)) continue;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const ChartPoint& point = series.points[i];
      // Of a vertical piece of a line, the end.
      const bool is_last = i + 1 == series.points.size();
      if (!is_last && series.points[i + 1].x == point.x) continue;
      std::string& text = columns[point.x];
      if (text.empty()) {
        text = absl::StrCat(chart_.x.label, ": ", ValueText(point.x));
      }
      absl::StrAppend(&text, "\n",
                      series.name.empty() ? chart_.y.label : series.name, ": ",
                      ValueText(point.y));
      if (!point.text.empty()) absl::StrAppend(&text, " (", point.text, ")");
    }
  }
  double left = kLeft;
  for (auto column = columns.begin(); column != columns.end(); ++column) {
    const auto next = std::next(column);
    const double right = next == columns.end()
                             ? kRight
                             : (X(column->first) + X(next->first)) / 2;
    absl::StrAppend(&text_, "<g class=\"hit\"><rect x=\"", Number(left),
                    "\" y=\"", kTop, "\" width=\"", Number(right - left),
                    "\" height=\"", kBottom - kTop,
                    "\"/><path class=\"cursor\" d=\"M",
                    Number(X(column->first)), " ", kTop, "V", kBottom,
                    "\"/><title>", HtmlText(column->second), "</title></g>\n");
    left = right;
  }
}

std::string Drawing::text() && {
  absl::StrAppend(
      &text_, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" ",
      "viewBox=\"0 0 ", kWidth, " ", kHeight, "\" aria-labelledby=\"",
      chart_.id, "-title ", chart_.id, "-desc\"><title id=\"", chart_.id,
      "-title\">", HtmlText(chart_.title), "</title><desc id=\"", chart_.id,
      "-desc\">", HtmlText(chart_.description), "</desc>\n");
  DrawAxes();
  const int count = static_cast<int>(chart_.series.size());
  for (int i = 0; i < count; ++i) {
    if (chart_.series[i].shape == Shape::kArea) DrawArea(i);
  }
  DrawMarks();
  for (int i = 0; i < count; ++i) {
    const Shape shape = chart_.series[i].shape;
    if (shape == Shape::kLine || shape == Shape::kStep) DrawLine(i);
  }
  absl::StrAppend(&text_, marks_);
  DrawColumns();
  for (int i = 0; i < count; ++i) {
    if (chart_.series[i].shape == Shape::kPoints) DrawPoints(i);
  }
  absl::StrAppend(&text_, "</svg>\n");
  return std::move(text_);
}

}  // namespace

std::string SvgChart(const Chart& chart) { return Drawing(chart).text(); }

}  // namespace tidewheel
