#include "tools/tune/content_trie.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "allocator/check.h"
#include "scheduler/content_token.h"

namespace tidewheel {
namespace {

uint32_t TagOf(int32_t parent, const ContentSegment& piece) {
  const uint64_t place =
      (uint64_t{static_cast<uint32_t>(parent)} << 32) ^
      (uint64_t{static_cast<uint32_t>(piece.offset)} * 0x9e3779b9u) ^
      static_cast<uint32_t>(piece.length);
  return static_cast<uint32_t>(MixBits(MixBits(piece.content_id) + place) >>
                               32);
}

}  // namespace

ContentTrie::ContentTrie(size_t expected_nodes)
    : slots_(std::bit_ceil(std::max<size_t>(2 * expected_nodes, 16))) {
  nodes_.reserve(expected_nodes);
  nodes_.emplace_back();
}

bool ContentTrie::Is(int32_t node, int32_t parent,
                     const ContentSegment& piece) const {
  const Node& found = nodes_[static_cast<size_t>(node)];
  return found.parent == parent && found.piece.content_id == piece.content_id &&
         found.piece.offset == piece.offset &&
         found.piece.length == piece.length;
}

int32_t ContentTrie::Step(int32_t parent, const ContentSegment& piece) {
  const int32_t youngest = nodes_[static_cast<size_t>(parent)].youngest_child;
  if (youngest >= 0 && Is(youngest, parent, piece)) return youngest;
  const uint32_t tag = TagOf(parent, piece);
  const size_t mask = slots_.size() - 1;
  size_t at = tag & mask;
  for (; slots_[at].node >= 0; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && Is(slots_[at].node, parent, piece)) {
      return slots_[at].node;
    }
  }
  slots_[at] = {tag, AddNode(parent, piece)};
  const int32_t node = slots_[at].node;
  if (2 * nodes_.size() > slots_.size()) Grow();
  return node;
}

int32_t ContentTrie::AddNode(int32_t parent, const ContentSegment& piece) {
  TIDEWHEEL_CHECK_LT(nodes_.size(),
                     static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  const int32_t node = num_nodes();
  nodes_.push_back({piece, parent, -1});
  nodes_[static_cast<size_t>(parent)].youngest_child = node;
  return node;
}

void ContentTrie::Grow() {
  std::vector<Slot, HugePageAllocator<Slot>> larger(2 * slots_.size());
  const size_t mask = larger.size() - 1;
  for (const Slot& slot : slots_) {
    if (slot.node < 0) continue;
    size_t at = slot.tag & mask;
    while (larger[at].node >= 0) at = (at + 1) & mask;
    larger[at] = slot;
  }
  slots_.swap(larger);
}

}  // namespace tidewheel
