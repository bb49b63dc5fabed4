// The spaces that content ids are drawn from.
//
// A content id says which tokens a segment holds, so contents that must differ
// need ids that can not meet: a block of a trace, a prompt that nobody shares,
// an output, a shared prefix of the built-in workload. The top two bits name
// the space, the rest counts within it.

#ifndef TIDEWHEEL_TOOLS_TRACES_CONTENT_IDS_H_
#define TIDEWHEEL_TOOLS_TRACES_CONTENT_IDS_H_

#include <cstdint>

namespace tidewheel {

enum class ContentSpace : uint64_t {
  kBlock = 0,   // a block that a trace names by id
  kPrompt = 1,  // prompt tokens of one request, or of one turn of a session
  kOutput = 2,  // tokens that one request generates
  kPrefix = 3,  // a prefix that prompts of the built-in workload share
};

inline constexpr int kContentSpaceShift = 62;

// REQUIRES: index < 2^62.
constexpr uint64_t ContentId(ContentSpace space, uint64_t index) {
  return (static_cast<uint64_t>(space) << kContentSpaceShift) | index;
}

constexpr ContentSpace SpaceOf(uint64_t content_id) {
  return static_cast<ContentSpace>(content_id >> kContentSpaceShift);
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_CONTENT_IDS_H_
