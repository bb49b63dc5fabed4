// Token contents as a pure function of a content id and a position.
//
// A simulation needs tokens that are equal exactly where a workload says that
// they are, cheap to make (145 million prompt tokens for one public trace) and
// the same on every machine. Token j of content c is 16 plus the upper bits of
// a 64-bit mix of both (the finaliser of SplitMix64, Steele et al. 2014); ids
// below 16 stay free for end tokens.

#ifndef TIDEWHEEL_SCHEDULER_CONTENT_TOKEN_H_
#define TIDEWHEEL_SCHEDULER_CONTENT_TOKEN_H_

#include <cstdint>

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

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_CONTENT_TOKEN_H_
