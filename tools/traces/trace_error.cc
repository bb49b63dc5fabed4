#include "tools/traces/trace_error.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidewheel {

absl::Status LineError(absl::string_view file, int64_t line,
                       absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", what));
}

std::string Excerpt(absl::string_view text, size_t max_bytes) {
  const bool cut = text.size() > max_bytes;
  return absl::StrCat("'", absl::CEscape(text.substr(0, max_bytes)),
                      cut ? "...'" : "'");
}

}  // namespace tidewheel
