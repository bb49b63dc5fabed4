// AxisScale: from values to places on an axis, and which values it names.
//
// An immutable value.

#ifndef TIDEWHEEL_TOOLS_REPORT_AXIS_SCALE_H_
#define TIDEWHEEL_TOOLS_REPORT_AXIS_SCALE_H_

#include <string>
#include <vector>

namespace tidewheel {

class AxisScale {
 public:
  // From a tick at or below min to one at or above max, with about `num_ticks`
  // of them. REQUIRES: both finite, min <= max.
  static AxisScale Linear(double min, double max, int num_ticks);
  // The same from min to max, or around one value.
  static AxisScale Exact(double min, double max, int num_ticks);
  // From min to max, since a decade more may be most of the axis, with at most
  // `num_ticks`. REQUIRES: also min > 0.
  static AxisScale Logarithmic(double min, double max, int num_ticks);

  // 0 at the axis' begin, 1 at its end; values outside are at these.
  double Place(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  double min() const { return min_; }
  double max() const { return max_; }

 private:
  double min_ = 0;
  double max_ = 1;
  bool is_log_ = false;
  std::vector<double> ticks_;
};

// A number beside an axis, short: 250000 -> "250k", 0.05 -> "0.05".
std::string TickText(double value);
// The same where there is room: "250,000", "0.0512".
std::string ValueText(double value);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_AXIS_SCALE_H_
