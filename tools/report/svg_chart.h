// SvgChart: a Chart as an SVG element that stands in a page.
//
// Colours and type are those of the page's style sheet (page_style), so that
// light, dark and print are one drawing. Every point of the data is in the
// document: as an element of class "hit" with a <title> that says its values,
// which a browser shows on a hover, and the page's script at once.
//
// Series differ by more than colour: lines by their dashes, areas by their
// hatching, points by their shape.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_TOOLS_REPORT_SVG_CHART_H_
#define TIDEWHEEL_TOOLS_REPORT_SVG_CHART_H_

#include <string>

#include "tools/report/chart.h"

namespace tidewheel {

// REQUIRES: the chart has a point, all numbers are finite, at most
// kMaxChartSeries series.
std::string SvgChart(const Chart& chart);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_SVG_CHART_H_
