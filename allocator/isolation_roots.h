// IsolationRoots: which requests may share cached pages.
//
// An isolation key names everything besides the tokens that KV depends on or
// that must keep tenants apart: a salt, an adapter, the contents behind
// multimodal placeholders. Each distinct key gets a root of its own in the
// prefix index; nothing below one root is ever found below another. Keys are
// compared byte by byte, never by a hash.
//
// Lifecycle: Acquire at submission, Release when the request is gone. A key
// that nobody holds stays known, so that a later request still finds its
// pages, until its slot is needed; the least recently released goes first. Its
// pages can then not be found any more and age out of the pool.
//
// Single-threaded. Acquire is O(slots), and is not on the step's path; Release
// and root are O(1). Memory: max_keys slots; a key's bytes are allocated by
// Acquire.

#ifndef TIDEWHEEL_ALLOCATOR_ISOLATION_ROOTS_H_
#define TIDEWHEEL_ALLOCATOR_ISOLATION_ROOTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "allocator/prefix_index.h"

namespace tidewheel {

// What must agree, besides tokens, for KV to be shared. An absent value
// differs from an empty one.
struct IsolationKey {
  // One multimodal item: its content's id and the token that it starts at.
  struct Content {
    absl::string_view id;
    int32_t position = 0;  // tokens from the start of the prompt
  };

  std::optional<absl::string_view> salt;
  std::optional<absl::string_view> adapter;
  std::span<const Content> contents;

  // An encoding in which every value carries its kind and its length, so that
  // no two keys have the same bytes. Empty for the empty key.
  std::string Encode() const;
};

class IsolationRoots {
 public:
  // Slot of the empty key, which is always known.
  static constexpr int32_t kShared = 0;

  // REQUIRES: max_keys >= 0; with 0 only the empty key is ever admitted.
  // `index` outlives this object.
  IsolationRoots(int32_t max_keys, PrefixIndex& index);

  IsolationRoots(const IsolationRoots&) = delete;
  IsolationRoots& operator=(const IsolationRoots&) = delete;

  // The slot of `key`, with one more holder. Nothing if all slots have
  // holders: the caller should have made max_keys as large as the number of
  // requests that it keeps.
  std::optional<int32_t> TryAcquire(const IsolationKey& key);
  // One more holder. REQUIRES: the slot has a holder.
  void Hold(int32_t slot);
  // REQUIRES: the slot has a holder.
  void Release(int32_t slot);

  PrefixIndex::Node root(int32_t slot) const { return slots_[slot].root; }
  // Where the slot's chain of page hashes begins; a function of the key alone.
  uint64_t root_hash(int32_t slot) const { return slots_[slot].root_hash; }
  // After the index was cleared: the same keys, with roots that nothing is
  // below.
  void RenewRoots();

 private:
  struct Slot {
    std::string bytes;
    PrefixIndex::Node root;
    uint64_t root_hash = 0;
    int32_t holders = 0;
    uint64_t released_at = 0;  // 0: never used
  };

  PrefixIndex& index_;
  uint64_t releases_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_ISOLATION_ROOTS_H_
