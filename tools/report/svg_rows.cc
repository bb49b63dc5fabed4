#include "tools/report/svg_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "tools/report/axis_scale.h"
#include "tools/report/html_text.h"

namespace tidewheel {
namespace {

// As SvgChart's, whose style the page sizes.
constexpr double kWidth = 420;
constexpr double kLeft = 14;
constexpr double kRight = 406;
constexpr double kTop = 6;
constexpr double kRowHeight = 30;
constexpr double kAxisHeight = 40;
constexpr int kTicks = 6;

std::string Number(double value) { return absl::StrFormat("%.1f", value); }

AxisScale ScaleOf(const RowChart& chart) {
  double min = chart.rows.front().low;
  double max = chart.rows.front().high;
  for (const IntervalRow& row : chart.rows) {
    TIDEWHEEL_CHECK(std::isfinite(row.low) && std::isfinite(row.high) &&
                    row.low <= row.value && row.value <= row.high);
    min = std::min(min, row.low);
    max = std::max(max, row.high);
  }
  if (chart.has_zero_line) {
    min = std::min(min, 0.0);
    max = std::max(max, 0.0);
  }
  return AxisScale::Linear(min, max, kTicks);
}

std::string RowText(const RowChart& chart, const IntervalRow& row) {
  std::string text = row.name;
  if (row.is_emphasised) absl::StrAppend(&text, " (", chart.emphasis, ")");
  absl::StrAppend(&text, "\n", chart.axis_label, ": ", ValueText(row.value));
  if (row.low < row.high) {
    absl::StrAppend(&text, " (", ValueText(row.low), " to ",
                    ValueText(row.high), ")");
  }
  if (!row.text.empty()) absl::StrAppend(&text, "\n", row.text);
  return text;
}

}  // namespace

std::string SvgRows(const RowChart& chart) {
  TIDEWHEEL_CHECK(!chart.rows.empty());
  const AxisScale scale = ScaleOf(chart);
  const auto x = [&scale](double value) {
    return kLeft + scale.Place(value) * (kRight - kLeft);
  };
  const double bottom =
      kTop + kRowHeight * static_cast<double>(chart.rows.size());
  std::string text = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 ",
      kWidth, " ", bottom + kAxisHeight, "\" aria-labelledby=\"", chart.id,
      "-title ", chart.id, "-desc\"><title id=\"", chart.id, "-title\">",
      HtmlText(chart.title), "</title><desc id=\"", chart.id, "-desc\">",
      HtmlText(chart.description), "</desc>\n");
  for (const double tick : scale.ticks()) {
    absl::StrAppend(&text, "<path class=\"grid\" d=\"M", Number(x(tick)), " ",
                    kTop, "V", bottom, "\"/><text class=\"tick\" x=\"",
                    Number(x(tick)), "\" y=\"", bottom + 15,
                    "\" text-anchor=\"middle\">", TickText(tick), "</text>\n");
  }
  if (chart.has_zero_line) {
    absl::StrAppend(&text, "<path class=\"axis\" d=\"M", Number(x(0)), " ",
                    kTop, "V", bottom, "\"/>\n");
  }
  absl::StrAppend(&text, "<path class=\"axis\" d=\"M", kLeft, " ", bottom, "H",
                  kRight, "\"/><text class=\"name\" x=\"", kRight, "\" y=\"",
                  bottom + 33, "\" text-anchor=\"end\">",
                  HtmlText(chart.axis_label), "</text>\n");
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const IntervalRow& row = chart.rows[i];
    const double top = kTop + kRowHeight * static_cast<double>(i);
    const std::string y = Number(top + 22);
    absl::StrAppend(&text, "<g class=\"hit ", row.is_emphasised ? "p2" : "p1",
                    "\"><rect x=\"0\" y=\"", top, "\" width=\"", kWidth,
                    "\" height=\"", kRowHeight, "\"/><text class=\"row\" x=\"",
                    kLeft, "\" y=\"", top + 12, "\">", HtmlText(row.name),
                    "</text><path class=\"interval\" d=\"M", Number(x(row.low)),
                    " ", y, "H", Number(x(row.high)), "M", Number(x(row.low)),
                    " ", Number(top + 19), "v6M", Number(x(row.high)), " ",
                    Number(top + 19), "v6\"/><path class=\"marker\" d=\"");
    const std::string at = absl::StrCat("M", Number(x(row.value)), " ", y);
    absl::StrAppend(&text, at,
                    row.is_emphasised ? "m-4 -4h8v8h-8z"
                                      : "m-3.5 0a3.5 3.5 0 1 0 7 0"
                                        "a3.5 3.5 0 1 0 -7 0z",
                    "\"/><title>", HtmlText(RowText(chart, row)),
                    "</title></g>\n");
  }
  return absl::StrCat(text, "</svg>\n");
}

}  // namespace tidewheel
