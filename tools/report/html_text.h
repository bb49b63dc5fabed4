// Text that goes into a page.

#ifndef TIDEWHEEL_TOOLS_REPORT_HTML_TEXT_H_
#define TIDEWHEEL_TOOLS_REPORT_HTML_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

// The text as the content of an element or of a quoted attribute, in HTML and
// in XML. Bytes that are not UTF-8, and controls that XML has no way to write,
// become U+FFFD.
std::string HtmlText(absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_HTML_TEXT_H_
