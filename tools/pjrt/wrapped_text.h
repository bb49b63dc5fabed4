// WrapText: a text in lines of a terminal's width.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_TOOLS_PJRT_WRAPPED_TEXT_H_
#define TIDEWHEEL_TOOLS_PJRT_WRAPPED_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

struct WrapOptions {
  size_t first_column = 0;  // columns that are taken in the first line
  size_t indent = 0;        // blanks before each further line
  size_t width = 80;
};

// The words of `text`, with line feeds where a line would pass `width`. A word
// that is longer has a line of its own. Blanks and line feeds in `text` only
// separate words.
std::string WrapText(absl::string_view text, const WrapOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_WRAPPED_TEXT_H_
