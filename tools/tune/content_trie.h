// ContentTrie: numbers for prefixes, so that equal prefixes have equal numbers.
//
// A node is the content that a path of pieces from the root spells; a piece is
// `length` tokens of one content. Whoever cuts content at the same places, and
// never where a content simply goes on, gets the same node exactly for the same
// content: keys are compared, not their hashes alone. It holds no tokens and
// knows no pages.
//
// Single-threaded. Step is O(1) expected and allocates as nodes are added.

#ifndef TIDEWHEEL_TOOLS_TUNE_CONTENT_TRIE_H_
#define TIDEWHEEL_TOOLS_TUNE_CONTENT_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/huge_page_allocator.h"
#include "tools/traces/trace.h"

namespace tidewheel {

class ContentTrie {
 public:
  static constexpr int32_t kRoot = 0;

  // Room for `expected_nodes` without moving.
  explicit ContentTrie(size_t expected_nodes);

  // The node below `parent` that `piece` leads to; a new one where there is
  // none. REQUIRES: parent is a node; fewer than 2^31 - 1 nodes.
  int32_t Step(int32_t parent, const ContentSegment& piece);

  int32_t num_nodes() const { return static_cast<int32_t>(nodes_.size()); }

 private:
  struct Node {
    ContentSegment piece;
    int32_t parent = -1;
    // Added last. Prefixes are mostly walked in the order in which they were
    // first seen, so this answers most steps from the next line of memory.
    int32_t youngest_child = -1;
  };
  struct Slot {
    uint32_t tag = 0;
    int32_t node = -1;  // -1: empty
  };

  bool Is(int32_t node, int32_t parent, const ContentSegment& piece) const;
  int32_t AddNode(int32_t parent, const ContentSegment& piece);
  void Grow();

  std::vector<Node> nodes_;
  // [power of two, at least twice the nodes]
  std::vector<Slot, HugePageAllocator<Slot>> slots_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CONTENT_TRIE_H_
