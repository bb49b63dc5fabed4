// SvgRows: values with their intervals, a named row each, on one axis.
//
// The name stands above its interval, so that long names need no margin, also
// on a phone. Whether a row is emphasised shows in its marker's shape too.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_TOOLS_REPORT_SVG_ROWS_H_
#define TIDEWHEEL_TOOLS_REPORT_SVG_ROWS_H_

#include <string>
#include <vector>

namespace tidewheel {

struct IntervalRow {
  std::string name;
  double value = 0;
  double low = 0;  // low <= value <= high
  double high = 0;
  bool is_emphasised = false;
  std::string text = {};  // shown besides the values on a hover; may be empty
};

struct RowChart {
  std::string id;  // as Chart's
  std::string title;
  std::string description;
  std::string axis_label;         // with its unit
  bool has_zero_line = false;     // the axis holds 0, and shows it
  std::string emphasis;           // what an emphasised row is; empty: none is
  std::vector<IntervalRow> rows;  // from top to bottom
};

// REQUIRES: there is a row, and all numbers are finite.
std::string SvgRows(const RowChart& chart);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_SVG_ROWS_H_
