// Numbers as reports show them.

#ifndef TIDEWHEEL_TOOLS_REPORT_NUMBER_TEXT_H_
#define TIDEWHEEL_TOOLS_REPORT_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

namespace tidewheel {

// 22361870 -> "22,361,870".
std::string WithThousands(int64_t value);

// A fraction as per cent: 0.1234 -> "12.3 %".
std::string AsPercent(double fraction);

// A percentile as it stands in a name: 99 -> "99", 99.9 -> "99.9".
std::string PercentileName(double percent);

// Microseconds as seconds with all six digits: 1500000 -> "1.500000"; empty
// for -1, which says that it did not happen.
std::string SecondsText(int64_t us);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_NUMBER_TEXT_H_
