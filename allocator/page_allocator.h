// PageAllocator: KV pages for the rows of a page table, shared by prefix.
//
// The facade over PagePool (states), PageTable (the kernel's operand),
// PrefixIndex (contents) and IsolationRoots (who may share). It decides and
// keeps books; it never touches KV itself, but lists the page copies that a
// backend must do. It knows nothing of requests, time or devices.
//
// Life of a row:
//   1. Match finds the cached pages of a prompt; TryAdmit takes a row, those
//      pages and new ones, and may promise more.
//   2. TryExtend takes pages for a longer sequence, Truncate gives them back.
//   3. Publish, after the step that wrote them, lets others find full pages.
//   4. Release gives all pages back; published ones stay cached.
//
// A *promise* is a number of pages that a row may still take without being
// refused; pages promised to one are not lent to another. Every call does all
// that it says or changes nothing.
//
//     [ free | cached (nobody's, may be found again) | lent: rows, pins ]
//       `----- available, of which promised -----'
//
// Invariants (CheckInvariants): those of the parts; free + cached + lent =
// total - 1; references = rows and pins and copies that name a page; promised
// <= available; a lent or cached page's parent is indexed, so eviction from
// the cached list's head never orphans a page.
//
// A row that is passed must be in use; this is CHECKed.
//
// Single-threaded. O(1) a page taken or given back, whatever the pool's size.
// Nothing allocates after Create, but for AcquireIsolation.

#ifndef TIDEWHEEL_ALLOCATOR_PAGE_ALLOCATOR_H_
#define TIDEWHEEL_ALLOCATOR_PAGE_ALLOCATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/check.h"
#include "allocator/isolation_roots.h"
#include "allocator/page_allocator_options.h"
#include "allocator/page_pool.h"
#include "allocator/page_table.h"
#include "allocator/pending_copies.h"
#include "allocator/prefix_index.h"

namespace tidewheel {

class PageAllocator {
 public:
  using Options = PageAllocatorOptions;
  using Stats = PageAllocatorStats;
  using PageCopy = tidewheel::PageCopy;
  using Pin = PagePin;
  using PrefixMatch = tidewheel::PrefixMatch;
  using AdmitOptions = PageAdmitOptions;
  using Content = PageContent;
  using ResetMode = PrefixCacheReset;

  // Errors: InvalidArgument that names value, limit and remedy, among them a
  // page table that the scalar memory can not hold; ResourceExhausted if the
  // host has no memory for the books.
  static absl::StatusOr<std::unique_ptr<PageAllocator>> Create(
      const Options& options);

  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;
  // Rows may still be in use when a server shuts down.
  ~PageAllocator() = default;

  // A slot for the isolation key of a request; see IsolationRoots.
  std::optional<int32_t> TryAcquireIsolation(const IsolationKey& key) {
    return roots_.TryAcquire(key);
  }
  // REQUIRES: the slot has a holder.
  void HoldIsolation(int32_t isolation) { roots_.Hold(isolation); }
  void ReleaseIsolation(int32_t isolation) { roots_.Release(isolation); }

  // Fills hashes[first_page, end_page) of a sequence whose earlier ones are
  // there. REQUIRES: tokens cover end_page pages.
  void HashPages(std::span<const int32_t> tokens, int32_t isolation,
                 int32_t first_page, int32_t end_page,
                 std::span<uint64_t> hashes) const;

  // The longest cached prefix of content.tokens, leaving at least one token to
  // compute. `hint` is an earlier answer for the same content: what it found is
  // not compared again while it is still cached. Changes nothing.
  PrefixMatch Match(const Content& content, const PrefixMatch& hint) const;

  // Available pages that such an admission takes or promises.
  int32_t PagesToAdmit(const AdmitOptions& options) const;
  // The new row, at the end of the table; nothing if rows or pages lack.
  // REQUIRES: options.match is still cached, match <= num_tokens <=
  // pages_per_seq * page_size (match in tokens).
  std::optional<int32_t> TryAdmit(const AdmitOptions& options);

  // Available pages that TryExtend takes.
  int32_t PagesToExtend(int32_t row, int32_t new_len) const;
  // Slots for tokens [0, new_len) of which the row will write those past the
  // ones that it was truncated or forked at. False if pages lack, or if
  // max_num_seqs copies are pending and it needs one more.
  // REQUIRES: new_len <= pages_per_seq * page_size.
  bool TryExtend(int32_t row, int32_t new_len);

  // Forgets the tokens past the first `new_len` and gives their pages back;
  // other ones may be written there after a TryExtend. What becomes available
  // is promised to the row again if it has a promise.
  void Truncate(int32_t row, int32_t new_len);
  // The same for slots that were taken and never written: nothing is forgotten.
  void GiveBack(int32_t row, int32_t length);

  // A row that shares the first num_tokens of `row`; its next write into a
  // partial last page copies that page first. Nothing if rows or pages lack.
  // REQUIRES: `row` has pages for num_tokens.
  std::optional<int32_t> TryFork(int32_t row, int32_t num_tokens,
                                 int32_t promised_tokens);

  // Lets others find the row's full pages among its first `committed_len`
  // tokens, which the device has written. A page whose twin is already
  // published is exchanged for the twin; where a fork shares it, it and what
  // follows stays unpublished for now. REQUIRES: no pending copy writes to
  // these pages; content covers committed_len, which is at most capacity(row).
  void Publish(int32_t row, const Content& content, int32_t committed_len);

  // Begins to load what TryExtend by a page will write.
  void PrefetchExtend(int32_t row) const { table_.PrefetchAppend(row); }
  // Begins to load what Publish of a page with this hash will read.
  void PrefetchPublish(uint64_t hash) const { index_.Prefetch(hash); }

  // Gives back all pages, last first, and removes the row; the last row takes
  // its number.
  void Release(int32_t row);

  // Pages that Release would make available or stop promising. O(pages).
  int32_t PagesFreedByRelease(int32_t row) const;

  // Whether releasing all other rows surely frees a page. O(max_pins).
  bool OthersHoldPages(int32_t row) const;

  void SwapRows(int32_t a, int32_t b);

  // Copies to do before anything is written, in this order. Their sources are
  // held until CompleteCopies.
  std::span<const PageCopy> pending_copies() const { return copies_.all(); }
  // Of those, the ones that no step has been handed yet.
  std::span<const PageCopy> new_copies() const { return copies_.fresh(); }
  // new_copies() are part of this step; copies from this step on did not
  // happen. REQUIRES: step ids increase.
  void HandOutCopies(int64_t step_id) { copies_.HandOut(step_id); }
  void RecallCopies(int64_t step_id) { copies_.Recall(step_id); }
  // The copies of the steps up to this one are done; or all are.
  void CompleteCopies(int64_t step_id);
  void CompleteCopies() { CompleteFirstCopies(copies_.size()); }

  // Keeps the longest cached prefix of content.tokens (full pages) from being
  // evicted. Errors: NotFound if none is cached, ResourceExhausted if max_pins
  // are held or the pages are promised to rows.
  absl::StatusOr<Pin> PinPrefix(const Content& content);
  // REQUIRES: the handle is held.
  void Unpin(int32_t handle);

  // Forgets all cached content. Errors: FailedPrecondition while rows or pins
  // hold published pages, unless forced.
  absl::Status ResetPrefixCache(ResetMode mode);

  const PageTable& table() const { return table_; }
  void ClearChanges() { table_.ClearChanges(); }
  void RestoreChanges(std::span<const int32_t> rows,
                      std::span<const int32_t> previous_rows) {
    table_.RestoreChanges(rows, previous_rows);
  }
  int32_t page_size() const { return options_.page_size; }
  const Options& options() const { return options_; }
  // Pages that can be lent now: free or cached, and promised to nobody.
  int32_t num_unpromised() const {
    return pool_.num_free() + pool_.num_cached() - promised_;
  }
  // Tokens that the row's pages have slots for.
  int32_t capacity(int32_t row) const {
    return table_.num_pages(row) * options_.page_size;
  }
  Stats stats() const;

  // O(pool + table). Errors: Internal that says what is wrong.
  absl::Status CheckInvariants() const;

 private:
  struct Row {
    int32_t promised = 0;        // pages that it may still take
    int32_t num_published = 0;   // leading pages that are in the index
    bool keeps_promise = false;  // pages given back are promised again
    // Valid slots of a last page that the row was truncated or forked in; such
    // a page is copied before the row writes to it, if others may read it.
    int32_t tail_tokens = 0;
  };
  struct PinnedPath {
    bool in_use = false;
    PageId last = kNullPage;
    int32_t num_pages = 0;
  };

  explicit PageAllocator(const Options& options);

  // 32-bit division throughout: a step does several for each page.
  int32_t CeilDiv(int32_t tokens) const {
    return tokens / options_.page_size +
           (tokens % options_.page_size != 0 ? 1 : 0);
  }
  void CheckRow(int32_t row) const {  // one comparison, also if negative
    TIDEWHEEL_CHECK_LT(static_cast<uint32_t>(row),
                       static_cast<uint32_t>(table_.num_rows()));
  }
  PageId TakePage();
  void EvictOldest();
  // Whether the page became available. A copy to it need not be done then.
  bool DropPage(PageId page);
  // The same for a page that no pending copy writes to.
  bool ReturnPage(PageId page);
  void AddPromise(int32_t row, int32_t pages);
  PrefixIndex::Node NodeBefore(int32_t row, int32_t column,
                               int32_t isolation) const;
  bool TailNeedsCopy(int32_t row) const;
  int32_t NumCachedOnPath(PageId last, int32_t num_pages) const;
  void DropPath(PageId last, int32_t num_pages);
  void CopyTail(int32_t row);
  void ForgetCopiesTo(PageId target);
  void CompleteFirstCopies(int32_t count);
  bool PublishPage(int32_t row, int32_t column, const Content& content);
  absl::Status CheckEvictionOrder() const;

  Options options_;
  PagePool pool_;
  PageTable table_;
  PrefixIndex index_;
  IsolationRoots roots_;
  int32_t promised_ = 0;
  int64_t pages_taken_ = 0;
  int64_t pages_evicted_ = 0;
  std::vector<Row> rows_;         // [max_num_seqs]
  std::vector<PinnedPath> pins_;  // [max_pins]
  PendingCopies copies_;          // [max_num_seqs]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_PAGE_ALLOCATOR_H_
