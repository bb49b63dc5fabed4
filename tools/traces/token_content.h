// Token contents as a pure function of a content id and a position.
//
// Synthetic prompts must be equal exactly where a trace says that they are,
// cheap to make (145 million tokens for one public trace) and reproducible
// across machines. Token j of content c is 16 plus the upper bits of a 64-bit
// mix of both (the finaliser of SplitMix64, Steele et al. 2014); ids below 16
// stay free for end tokens.

#ifndef TIDEWHEEL_TOOLS_TRACES_TOKEN_CONTENT_H_
#define TIDEWHEEL_TOOLS_TRACES_TOKEN_CONTENT_H_

#include <cstdint>
#include <span>

#include "tools/traces/trace.h"

namespace tidewheel {

// The lowest token id that content is made of.
inline constexpr int32_t kFirstContentToken = 16;

inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Token `position` of content `content_id`, in [16, 2^30 + 16).
inline int32_t ContentToken(uint64_t content_id, uint64_t position) {
  const uint64_t mixed =
      MixBits(content_id * 0x9e3779b97f4a7c15u + position + 1);
  return kFirstContentToken + static_cast<int32_t>(mixed >> 34);
}

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
