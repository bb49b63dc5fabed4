// The tokens of a prompt, from the segments that a trace describes it by.
//
// What a token of a content is, is in scheduler/content_token.h: the simulated
// runner generates tokens by the same rule.

#ifndef TIDEWHEEL_TOOLS_TRACES_TOKEN_CONTENT_H_
#define TIDEWHEEL_TOOLS_TRACES_TOKEN_CONTENT_H_

#include <cstdint>
#include <span>

#include "scheduler/content_token.h"
#include "tools/traces/trace.h"

namespace tidewheel {

// Writes the tokens of `segments`, one after the other, to `tokens`.
// REQUIRES: tokens.size() is the sum of the segments' lengths.
inline void WriteContent(std::span<const ContentSegment> segments,
                         std::span<int32_t> tokens) {
  size_t at = 0;
  for (const ContentSegment& segment : segments) {
    for (int32_t j = 0; j < segment.length; ++j) {
      tokens[at++] = ContentToken(segment.content_id,
                                  static_cast<uint64_t>(segment.offset + j));
    }
  }
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TOKEN_CONTENT_H_
