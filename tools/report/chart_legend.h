// What tells the series of a chart apart, in the chart and in its legend.
//
// Lines differ by their dashes, areas by their hatching, points by their shape,
// each also by colour: by the series' place in the chart, and by the page's
// style sheet (page_style).
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_REPORT_CHART_LEGEND_H_
#define TIDEWHEEL_TOOLS_REPORT_CHART_LEGEND_H_

#include <string>

#include "tools/report/chart.h"

namespace tidewheel {

// The most series that differ in a chart.
inline constexpr int kMaxChartSeries = 5;

// The legend as a list; empty for a single series.
std::string ChartLegend(const Chart& chart);

// The outline of a point of the series, as the `d` of a path.
std::string MarkerPath(int series, double x, double y, double size);

// Patterns that areas are filled with; once in each page.
std::string SvgPatterns();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_CHART_LEGEND_H_
