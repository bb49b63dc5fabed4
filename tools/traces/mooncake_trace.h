// The traces of Mooncake: one JSON object a line with timestamp (ms),
// input_length, output_length and hash_ids, one id for each block of 512
// prompt tokens, the last of which may be partial.
//
// A block id becomes the id of a content, so prompts share prefixes exactly
// where the trace says so, whatever the page size. An id may name a partial
// block in one prompt and a full one in another: the shorter is a prefix of
// the longer. Source: github.com/kvcache-ai/Mooncake; Qin et al., FAST 2025.

#ifndef TIDEWHEEL_TOOLS_TRACES_MOONCAKE_TRACE_H_
#define TIDEWHEEL_TOOLS_TRACES_MOONCAKE_TRACE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tools/traces/trace_builder.h"

namespace tidewheel {

inline constexpr int32_t kMooncakeBlockTokens = 512;

// Adds all lines of `text` to `builder`; blank lines are skipped. Keys that
// are not named above are ignored.
// Errors: InvalidArgument, naming file and line, for a line that is no JSON
// object, a key that is absent, twice there or of another type, or a number of
// ids that is not ceil(input_length / 512).
absl::Status ReadMooncakeLines(absl::string_view text, TraceBuilder& builder);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_MOONCAKE_TRACE_H_
