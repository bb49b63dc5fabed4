#include "tools/report/chart_legend.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/html_text.h"

namespace tidewheel {
namespace {

using Shape = ChartSeries::Shape;

std::string Number(double value) { return absl::StrFormat("%.1f", value); }

// A piece of the series as the chart shows it.
std::string Swatch(const ChartSeries& series, int index) {
  std::string shape;
  switch (series.shape) {
    case Shape::kArea:
      shape = absl::StrCat("<rect class=\"area a", index + 1,
                           "\" width=\"26\" height=\"12\"/>"
                           "<path class=\"line l",
                           index + 1, "\" d=\"M0 1H26\"/>");
      break;
    case Shape::kPoints:
      shape = absl::StrCat("<g class=\"p", index + 1,
                           "\"><path class=\"marker\" d=\"",
                           MarkerPath(index, 13, 6, 4), "\"/></g>");
      break;
    default:
      shape =
          absl::StrCat("<path class=\"line l", index + 1, "\" d=\"M0 6H26\"/>");
  }
  return absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"swatch\" ",
      "viewBox=\"0 0 26 12\" aria-hidden=\"true\">", shape, "</svg>");
}

}  // namespace

std::string MarkerPath(int series, double x, double y, double size) {
  const std::string at = absl::StrCat("M", Number(x), " ", Number(y));
  const std::string r = Number(size);
  const std::string d = Number(2 * size);
  switch (series % kMaxChartSeries) {
    case 0:  // circle
      return absl::StrCat(at, "m-", r, " 0a", r, " ", r, " 0 1 0 ", d, " 0a", r,
                          " ", r, " 0 1 0 -", d, " 0z");
    case 1:  // square
      return absl::StrCat(at, "m-", r, " -", r, "h", d, "v", d, "h-", d, "z");
    case 2:  // triangle
      return absl::StrCat(at, "m0 -", r, "l", r, " ", d, "h-", d, "z");
    case 3:  // diamond
      return absl::StrCat(at, "m0 -", r, "l", r, " ", r, "l-", r, " ", r, "l-",
                          r, " -", r, "z");
    default:  // cross
      return absl::StrCat(at, "m-", r, " -", r, "l", d, " ", d, "m0 -", d, "l-",
                          d, " ", d);
  }
}

std::string ChartLegend(const Chart& chart) {
  if (chart.series.size() < 2) return "";
  std::string text = "<ul class=\"legend\">";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    absl::StrAppend(&text, "<li>", Swatch(chart.series[i], static_cast<int>(i)),
                    " ", HtmlText(chart.series[i].name), "</li>");
  }
  absl::StrAppend(&text, "</ul>\n");
  return text;
}

std::string SvgPatterns() {
  const auto pattern = [](int index, absl::string_view path) {
    return absl::StrCat("<pattern id=\"fill", index,
                        "\" width=\"6\" height=\"6\" "
                        "patternUnits=\"userSpaceOnUse\">"
                        "<rect width=\"6\" height=\"6\" class=\"f",
                        index, "\"/><path class=\"h", index, "\" d=\"", path,
                        "\"/></pattern>");
  };
  return absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"patterns\" ",
      "width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>",
      pattern(1, "M0 0"), pattern(2, "M-1 1L1 -1M0 6L6 0M5 7L7 5"),
      pattern(3, "M2 2h1"), pattern(4, "M0 3H6"),
      pattern(5, "M-1 5L1 7M0 0L6 6M5 -1L7 1"), "</defs></svg>\n");
}

}  // namespace tidewheel
