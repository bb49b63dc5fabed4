// Lines that stand above a result: a label and a text, filled to 80 columns.

#ifndef TIDEWHEEL_TOOLS_REPORT_HEADER_LINE_H_
#define TIDEWHEEL_TOOLS_REPORT_HEADER_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

// The label, and the text from column 12 on; ends with a newline.
std::string HeaderLine(absl::string_view label, absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_HEADER_LINE_H_
