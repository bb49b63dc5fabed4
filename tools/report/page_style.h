// The style sheet and the script that every page carries in itself.
//
// Both are also content of an XML element: the script has no "<" and no "&".

#ifndef TIDEWHEEL_TOOLS_REPORT_PAGE_STYLE_H_
#define TIDEWHEEL_TOOLS_REPORT_PAGE_STYLE_H_

#include "absl/strings/string_view.h"

namespace tidewheel {

// Light or dark as the reader's system is, light in print; one or two charts
// side by side as there is room.
absl::string_view PageStyle();

// Shows what an element of class "hit" says beside the pointer or the finger.
// Without it a browser shows the same a little later.
absl::string_view PageScript();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_PAGE_STYLE_H_
