// PrefixIndex: which cached page holds which tokens after which prefix.
//
// A trie of full pages. A node is a page; its key is (serial number of its
// parent, its tokens). Serial numbers are never reused, so a key names one
// prefix for ever, and a child of an evicted parent can not be found by
// accident. Nodes lie in an open-addressing table that is probed with a hash
// of the whole prefix, which callers compute once (HashPage); the hash only
// finds candidates, the serial number and the tokens decide. A node also
// remembers its youngest child, so that most steps down need no probe.
//
// It does not know reference counts and never evicts: PageAllocator does, and
// takes leaves first, so that a node's parent is always in the index.
//
// Lifecycle: Root gives the serial number of an empty prefix; Insert adds a
// page below a parent; Find looks one up; Erase removes one; Clear all.
//
// Invariants (CheckInvariants): every node is found under its own key, parents
// are in the index, no two nodes have one key.
//
// Single-threaded. Insert, Find and Erase are O(1) expected. Memory, all taken
// by the constructor: 48 to 64 bytes and the tokens of a page for each page.

#ifndef TIDEWHEEL_ALLOCATOR_PREFIX_INDEX_H_
#define TIDEWHEEL_ALLOCATOR_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "allocator/huge_page_allocator.h"
#include "allocator/page_pool.h"

namespace tidewheel {

class PrefixIndex {
 public:
  struct Options {
    int32_t total_num_pages = 0;
    int32_t page_size = 0;  // tokens
    // Random per process in a server, so that a client can not choose tokens
    // that collide. It never reaches a decision.
    uint64_t hash_seed = 0;
    // ANDed to every hash. Tests set it to 0 to make everything collide.
    uint64_t hash_mask = ~uint64_t{0};
  };

  // A place in the trie: `page` is kNullPage at a root.
  struct Node {
    uint64_t serial = 0;
    PageId page = kNullPage;
  };

  // REQUIRES: total_num_pages and page_size are positive.
  explicit PrefixIndex(const Options& options);

  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // A new empty prefix: nothing below one root is found below another.
  Node NewRoot() { return {next_serial_++, kNullPage}; }

  // The hash of a prefix that ends with `tokens` ([page_size]) and begins with
  // one of hash `parent_hash`; HashRoot for the first page.
  uint64_t HashPage(uint64_t parent_hash,
                    std::span<const int32_t> tokens) const;
  // The hash of an empty prefix that only requests of this key may share.
  uint64_t HashRoot(absl::string_view key) const;

  // The child of `parent` with these tokens, or a node with serial 0.
  Node Find(const Node& parent, uint64_t hash,
            std::span<const int32_t> tokens) const;

  // The longest path from `start` whose pages hold `tokens`, page by page;
  // `hashes` has the prefix hash of each page and bounds the length. Returns
  // the last node (`start` if nothing matches) and counts the pages passed.
  Node FindLongest(Node start, std::span<const uint64_t> hashes,
                   std::span<const int32_t> tokens, int32_t& num_pages) const;

  // Adds `page` as the child of `parent` with these tokens.
  // REQUIRES: the page is not in the index, and no such child exists.
  Node Insert(const Node& parent, PageId page, uint64_t hash,
              std::span<const int32_t> tokens);

  // REQUIRES: the page is in the index.
  void Erase(PageId page);

  // Removes every node. O(total_num_pages).
  void Clear();

  // Begins to load what Find and Insert with this hash, or Erase of this page,
  // will read; with a full cache of a million pages each of them is a miss.
  void Prefetch(uint64_t hash) const {
    __builtin_prefetch(&slots_[Home(Tag(hash))]);
  }
  void PrefetchErase(PageId page) const {
    __builtin_prefetch(&slots_[Home(entries_[page].tag)]);
  }
  void PrefetchEntry(PageId page) const { __builtin_prefetch(&entries_[page]); }

  bool contains(PageId page) const { return entries_[page].serial != 0; }
  uint64_t serial(PageId page) const { return entries_[page].serial; }
  // kNullPage below a root.
  PageId parent(PageId page) const { return entries_[page].parent; }
  int32_t size() const { return size_; }
  int32_t page_size() const { return page_size_; }

  // O(total_num_pages). Errors: Internal that names the page.
  absl::Status CheckInvariants() const;

 private:
  struct Entry {
    uint64_t serial = 0;  // 0: not in the index
    uint64_t parent_serial = 0;
    uint32_t tag = 0;
    PageId parent = kNullPage;
    // The child that was inserted last. It may have been erased since: whoever
    // follows it compares parent_serial.
    PageId youngest_child = kNullPage;
  };
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash; its low bits give the home
    PageId page = kNullPage;  // kNullPage: empty
  };

  uint32_t Tag(uint64_t hash) const {
    return static_cast<uint32_t>((hash & hash_mask_) >> 32);
  }
  uint32_t Home(uint32_t tag) const { return tag & slot_mask_; }
  const int32_t* TokensOf(PageId page) const {
    return &tokens_[static_cast<size_t>(page) *
                    static_cast<size_t>(page_size_)];
  }
  // The youngest child of `parent` if it holds `tokens`, or serial 0.
  Node FollowYoungest(const Node& parent,
                      std::span<const int32_t> tokens) const;
  // In the header: gcc takes a function that does nothing but prefetch for one
  // without effect, and drops calls that it does not inline early.
  void PrefetchNode(PageId page) const {
    __builtin_prefetch(&entries_[page]);
    __builtin_prefetch(TokensOf(page));
  }
  void PrefetchCandidate(uint64_t hash) const {
    PrefetchNode(slots_[Home(Tag(hash))].page);
  }

  int32_t page_size_;
  uint64_t hash_seed_;
  uint64_t hash_mask_;
  uint32_t slot_mask_;
  int32_t size_ = 0;
  uint64_t next_serial_ = 1;
  // [power of two >= 2 * total_num_pages]
  std::vector<Slot, HugePageAllocator<Slot>> slots_;
  // [total_num_pages]
  std::vector<Entry, HugePageAllocator<Entry>> entries_;
  // [total_num_pages, page_size]
  std::vector<int32_t, HugePageAllocator<int32_t>> tokens_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_PREFIX_INDEX_H_
