// Error texts of the trace readers: where, what, and a safe look at the input.

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_ERROR_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

// InvalidArgument "conversation.jsonl:13: <what>". Lines count from 1.
absl::Status LineError(absl::string_view file, int64_t line,
                       absl::string_view what);

// `text` in quotes, cut after `max_bytes`, with bytes that are not printable
// ASCII escaped: input may be binary, or one line of megabytes.
std::string Excerpt(absl::string_view text, size_t max_bytes = 40);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_ERROR_H_
