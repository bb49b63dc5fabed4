// PageAllocatorOptions and its like: what a PageAllocator is made from, what it
// hands out, and what it counts.

#ifndef TIDEWHEEL_ALLOCATOR_PAGE_ALLOCATOR_OPTIONS_H_
#define TIDEWHEEL_ALLOCATOR_PAGE_ALLOCATOR_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "allocator/isolation_roots.h"
#include "allocator/page_pool.h"
#include "allocator/prefix_index.h"

namespace tidewheel {

struct PageAllocatorOptions {
  int32_t total_num_pages = 0;  // the null page included
  int32_t page_size = 0;        // tokens
  int32_t max_num_seqs = 0;     // rows of the page table
  int32_t pages_per_seq = 0;    // columns of the page table
  bool enable_prefix_cache = true;
  // Isolation keys that are kept apart at one time, besides the empty one.
  int32_t max_isolation_keys = 256;
  int32_t max_pins = 64;
  uint64_t hash_seed = 0;             // see PrefixIndex
  uint64_t hash_mask = ~uint64_t{0};  // see PrefixIndex
  std::optional<int64_t> smem_bytes;  // of a TPU; absent: no such limit
};

struct PageAllocatorStats {
  int32_t total_pages = 0;  // without the null page
  int32_t free_pages = 0;
  int32_t cached_pages = 0;
  int32_t lent_pages = 0;
  int32_t promised_pages = 0;
  int64_t pages_taken = 0;    // since Create
  int64_t pages_evicted = 0;  // of those, taken from the cache
};

enum class PrefixCacheReset { kRefuseWhileInUse, kForce };

// What a row's pages hold or will hold.
struct PageContent {
  std::span<const int32_t> tokens;
  std::span<const uint64_t> hashes;  // of each full page, see HashPages
  int32_t isolation = IsolationRoots::kShared;
};

// The cached pages that a prompt begins with.
struct PrefixMatch {
  PrefixIndex::Node last;  // serial 0: nothing matched yet
  int32_t num_pages = 0;
};

// What an admission asks for.
struct PageAdmitOptions {
  PrefixMatch match;
  int32_t num_tokens = 0;       // slots to take now, those matched included
  int32_t promised_tokens = 0;  // the length up to which pages are promised
  int32_t headroom_pages = 0;   // must stay available and unpromised
};

// A copy of KV from page to page, for a backend to do.
struct PageCopy {
  PageId source = kNullPage;
  PageId target = kNullPage;
  int32_t num_tokens = 0;  // the first slots of the page
};

// A prefix that is kept from being evicted.
struct PagePin {
  int32_t handle = -1;
  int32_t num_tokens = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_PAGE_ALLOCATOR_OPTIONS_H_
