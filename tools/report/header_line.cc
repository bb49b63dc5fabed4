#include "tools/report/header_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace tidewheel {
namespace {

constexpr size_t kWidth = 80;

// Words filled into lines of kWidth columns, later ones indented by `indent`.
std::string Fill(absl::string_view text, size_t indent) {
  std::string filled;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > indent && column + word.size() + 1 > kWidth) {
      absl::StrAppend(&filled, "\n", std::string(indent, ' '));
      column = indent;
    } else if (!filled.empty()) {
      absl::StrAppend(&filled, " ");
      ++column;
    }
    absl::StrAppend(&filled, word);
    column += word.size();
  }
  return filled;
}

}  // namespace

std::string HeaderLine(absl::string_view label, absl::string_view text) {
  constexpr size_t kIndent = 12;
  const std::string line =
      Fill(absl::StrCat(std::string(kIndent, '.'), text), kIndent);
  return absl::StrCat(absl::StrFormat("%-12s", label), line.substr(kIndent),
                      "\n");
}

}  // namespace tidewheel
