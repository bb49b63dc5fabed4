// Chart: what a chart shows, without how it is drawn (SvgChart does that).
//
// A value of plain numbers. All are finite (CHECKed when it is drawn), and on
// logarithmic axes positive.

#ifndef TIDEWHEEL_TOOLS_REPORT_CHART_H_
#define TIDEWHEEL_TOOLS_REPORT_CHART_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tidewheel {

struct ChartAxis {
  std::string label;  // with its unit: "time, s"
  bool is_log = false;
  // The range also holds this; by default a linear axis begins at 0 and all
  // else is the data's.
  std::optional<double> max = {};  // y
  bool begins_at_zero = true;      // linear axes
};

struct ChartPoint {
  double x = 0;
  double y = 0;
  // An interval around y; absent where low is not below high.
  double low = 0;
  double high = 0;
  std::string text = {};  // shown besides x and y on a hover; may be empty
};

struct ChartSeries {
  enum class Shape {
    kLine,
    kStep,    // a value holds from its x to the next
    kArea,    // on top of the areas before it; these share their x
    kPoints,  // and their intervals
  };

  std::string name;
  Shape shape = Shape::kLine;
  std::vector<ChartPoint> points;  // by x, unless kPoints
};

// A line across the chart.
struct ChartMark {
  enum class Direction { kAtX, kAtY };

  Direction direction = Direction::kAtX;
  double at = 0;
  std::string label;
};

struct Chart {
  std::string id;  // of the element; one word, unlike any other of the page
  std::string title;
  std::string description;  // a sentence or two for a reader
  ChartAxis x;
  ChartAxis y;
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks = {};
  // Where a chart is empty, and labels of marks at an x may stand.
  bool has_labels_at_bottom = false;

  bool has_points() const {
    for (const ChartSeries& one : series) {
      if (!one.points.empty()) return true;
    }
    return false;
  }
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_CHART_H_
