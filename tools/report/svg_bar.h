// SvgBar: parts of a whole as one bar, with a table of them below it.
//
// Parts differ by their hatching, and the table names each with its value, so
// that nothing is said by colour alone.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_TOOLS_REPORT_SVG_BAR_H_
#define TIDEWHEEL_TOOLS_REPORT_SVG_BAR_H_

#include <string>
#include <vector>

namespace tidewheel {

struct BarPart {
  std::string name;
  double value = 0;
  std::string text;  // the value with its unit
};

// `id` is the element's. REQUIRES: values are finite and not negative, one of
// them is positive; at most kMaxChartSeries parts.
std::string SvgBar(const std::string& id, const std::string& title,
                   const std::vector<BarPart>& parts);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_SVG_BAR_H_
