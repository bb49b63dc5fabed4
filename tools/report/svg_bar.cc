#include "tools/report/svg_bar.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "tools/report/chart_legend.h"
#include "tools/report/html_text.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

constexpr double kWidth = 420;
constexpr double kHeight = 34;

}  // namespace

std::string SvgBar(const std::string& id, const std::string& title,
                   const std::vector<BarPart>& parts) {
  TIDEWHEEL_CHECK(parts.size() <= size_t{kMaxChartSeries});
  double whole = 0;
  for (const BarPart& part : parts) {
    TIDEWHEEL_CHECK(std::isfinite(part.value) && part.value >= 0);
    whole += part.value;
  }
  TIDEWHEEL_CHECK(whole > 0);
  std::string bar = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 ",
      kWidth, " ", kHeight, "\" aria-labelledby=\"", id,
      "-title\"><title id=\"", id, "-title\">", HtmlText(title), "</title>\n");
  std::string legend = "<table class=\"parts\">\n";
  double left = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const BarPart& part = parts[i];
    const double width = kWidth * part.value / whole;
    const std::string share = AsPercent(part.value / whole);
    absl::StrAppend(
        &bar, "<g class=\"hit\"><rect class=\"area a", i + 1, "\" x=\"",
        absl::StrFormat("%.1f", left), "\" y=\"1\" width=\"",
        absl::StrFormat("%.1f", width), "\" height=\"", kHeight - 2,
        "\"/><title>",
        HtmlText(absl::StrCat(part.name, ": ", part.text, " (", share, ")")),
        "</title></g>\n");
    absl::StrAppend(
        &legend, "<tr><td><svg xmlns=\"http://www.w3.org/2000/svg\" ",
        "class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\"><rect ",
        "class=\"area a", i + 1,
        "\" width=\"26\" height=\"12\"/></svg></td><th scope=\"row\">",
        HtmlText(part.name), "</th><td class=\"number\">", HtmlText(part.text),
        "</td><td class=\"number\">", share, "</td></tr>\n");
    left += width;
  }
  return absl::StrCat(bar, "</svg>\n", legend, "</table>\n");
}

}  // namespace tidewheel
