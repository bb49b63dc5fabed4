// PagePool: which KV pages are free, cached or lent, and how often each is
// lent.
//
// It is not the page table (who holds a page) and not the prefix index (what a
// page holds); the facade, PageAllocator, keeps the three in step.
//
// Life of a page:
//   1. free: on a stack. Acquire lends it.
//   2. lent: reference_count(page) holders. AddReference, DropReference.
//   3. cached: nobody holds it, but its content may be asked for again. It is
//      on a list in order of release; AddReference lends it again, Discard
//      frees it.
//
// Invariants (CheckInvariants): every page of [1, total) is in exactly one of
// the three states; page 0, the null page, is in none and is never lent.
//
// Single-threaded. Every call is O(1). Nothing allocates after construction:
// 12 bytes a page.

#ifndef TIDEWHEEL_ALLOCATOR_PAGE_POOL_H_
#define TIDEWHEEL_ALLOCATOR_PAGE_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "allocator/check.h"
#include "allocator/huge_page_allocator.h"

namespace tidewheel {

// Index of a KV page in the device's pool, as the kernel reads it.
using PageId = int32_t;

// Never lent; its KV is zero. Padding of the page table points at it.
inline constexpr PageId kNullPage = 0;

class PagePool {
 public:
  // What becomes of a page that nobody holds any more.
  enum class Afterlife { kFree, kCached };

  // REQUIRES: total_num_pages >= 1; one of them is the null page.
  explicit PagePool(int32_t total_num_pages);

  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Lends the free page that was returned last, with one reference.
  // REQUIRES: num_free() > 0.
  PageId Acquire() {
    TIDEWHEEL_CHECK_GT(num_free_, 0);
    const PageId page = next_[kStackHead];
    next_[kStackHead] = next_[page];
    --num_free_;
    next_[page] = kLent;
    reference_count_[page] = 1;
    return page;
  }

  // Adds a holder to a lent or cached page.
  // REQUIRES: the page is not free.
  void AddReference(PageId page);

  // Takes one holder away. Where it was the last, the page goes where
  // `afterlife` says and the call returns true.
  // REQUIRES: the page is lent.
  bool DropReference(PageId page, Afterlife afterlife) {
    TIDEWHEEL_CHECK_GT(reference_count_[page], 0);
    if (--reference_count_[page] > 0) return false;
    if (afterlife == Afterlife::kFree) {
      PushFree(page);
    } else {
      PushCached(page);
    }
    return true;
  }

  // Frees a cached page. REQUIRES: the page is cached.
  void Discard(PageId page);

  // The cached page that was released first, or kNullPage if none is cached.
  PageId OldestCached() const { return next_[cached_head()]; }
  // The one released next after `page`, or kNullPage.
  // REQUIRES: `page` is cached.
  PageId NextCached(PageId page) const;

  // Begins to load the links of a page.
  void Prefetch(PageId page) const {
    __builtin_prefetch(&next_[page]);
    __builtin_prefetch(&previous_[page]);
    __builtin_prefetch(&reference_count_[page]);
  }

  int32_t total_num_pages() const { return total_num_pages_; }
  int32_t num_free() const { return num_free_; }
  int32_t num_cached() const { return num_cached_; }
  int32_t num_lent() const {
    return total_num_pages_ - 1 - num_free_ - num_cached_;
  }
  int32_t reference_count(PageId page) const { return reference_count_[page]; }
  bool is_free(PageId page) const {
    return page != kNullPage && reference_count_[page] == 0 &&
           previous_[page] == kNotCached;
  }
  bool is_cached(PageId page) const { return previous_[page] != kNotCached; }

  // O(total_num_pages). Errors: Internal that names the page and its state.
  absl::Status CheckInvariants() const;

 private:
  // The null page's slot heads the free stack.
  static constexpr PageId kStackHead = kNullPage;
  // Written to next_ of lent pages, so that a list that reaches one is broken
  // visibly.
  static constexpr PageId kLent = -2;
  static constexpr PageId kNotCached = -1;

  // One slot past the pages is the cached list's sentinel; its links are
  // kNullPage where the list is empty.
  PageId cached_head() const { return total_num_pages_; }

  void PushFree(PageId page) {
    next_[page] = next_[kStackHead];
    next_[kStackHead] = page;
    ++num_free_;
  }
  void PushCached(PageId page);
  void Unlink(PageId page);

  int32_t total_num_pages_;
  int32_t num_free_;
  int32_t num_cached_ = 0;
  // [total + 1]: next free page, or next cached page, or kLent.
  std::vector<PageId, HugePageAllocator<PageId>> next_;
  // [total + 1]: previous cached page; kNotCached for pages not on that list.
  std::vector<PageId, HugePageAllocator<PageId>> previous_;
  // [total]: holders.
  std::vector<int32_t, HugePageAllocator<int32_t>> reference_count_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_PAGE_POOL_H_
