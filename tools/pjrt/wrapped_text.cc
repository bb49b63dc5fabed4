#include "tools/pjrt/wrapped_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tidewheel {

std::string WrapText(absl::string_view text, const WrapOptions& options) {
  std::string result;
  size_t column = options.first_column;
  bool line_has_word = false;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
    const size_t blank = line_has_word ? 1 : 0;
    if (line_has_word && column + blank + word.size() > options.width) {
      absl::StrAppend(&result, "\n", std::string(options.indent, ' '));
      column = options.indent;
    } else if (line_has_word) {
      result.push_back(' ');
      ++column;
    }
    absl::StrAppend(&result, word);
    column += word.size();
    line_has_word = true;
  }
  return result;
}

}  // namespace tidewheel
