// NaiveAllocator: what PageAllocator must do, written so that it can be seen
// to be right.
//
// A prefix is the vector of its tokens and the index is a map from prefixes to
// pages; a reference count is a count of who names the page, made anew each
// time; LRU order is a vector. It predicts page ids, not only their number, so
// that order of reuse and of eviction is compared as well.
//
// It does not know KV contents (AllocatorWorld does) and checks nothing: its
// callers pass only what PageAllocator's REQUIRES allow.
//
// Lifecycle: one beside each PageAllocator under test, given the same calls.
//
// Single-threaded. Allocates and searches in every call.

#ifndef TIDEWHEEL_TESTS_ALLOCATOR_NAIVE_ALLOCATOR_H_
#define TIDEWHEEL_TESTS_ALLOCATOR_NAIVE_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/page_allocator.h"

namespace tidewheel {

class NaiveAllocator {
 public:
  using Tokens = std::vector<int32_t>;

  struct Row {
    std::vector<PageId> pages;
    int32_t promised = 0;
    bool keeps_promise = false;
    int32_t tail_tokens = 0;
    int32_t previous_row = -1;  // at the last ClearChanges; -1: new
  };
  struct Match {
    int32_t num_pages = 0;
    PageId last = kNullPage;
  };
  struct Admission {
    Tokens tokens;
    int32_t isolation = 0;
    int32_t num_matched = 0;  // pages
    int32_t num_tokens = 0;
    int32_t promised_tokens = 0;
    int32_t headroom_pages = 0;
  };

  explicit NaiveAllocator(const PageAllocator::Options& options);

  std::optional<int32_t> TryAcquireIsolation(const std::string& key);
  void HoldIsolation(int32_t slot);
  void ReleaseIsolation(int32_t slot);

  Match FindLongest(const Tokens& tokens, int32_t isolation,
                    int32_t most_pages) const;
  Match FindPrompt(const Tokens& tokens, int32_t isolation) const;

  int32_t PagesToAdmit(const Admission& admission) const;
  std::optional<int32_t> TryAdmit(const Admission& admission);
  int32_t PagesToExtend(int32_t row, int32_t new_len) const;
  bool TryExtend(int32_t row, int32_t new_len);
  void Truncate(int32_t row, int32_t new_len);
  void GiveBack(int32_t row, int32_t length);
  std::optional<int32_t> TryFork(int32_t row, int32_t num_tokens,
                                 int32_t promised_tokens);
  void Publish(int32_t row, const Tokens& tokens, int32_t isolation,
               int32_t committed_len);
  void Release(int32_t row);
  void SwapRows(int32_t a, int32_t b);
  void CompleteCopies();
  // The code and, where it is OK, the handle and tokens.
  std::pair<absl::StatusCode, PageAllocator::Pin> PinPrefix(
      const Tokens& tokens, int32_t isolation);
  void Unpin(int32_t handle);
  absl::StatusCode ResetPrefixCache(PageAllocator::ResetMode mode);
  void ClearChanges();

  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<PageAllocator::PageCopy>& copies() const { return copies_; }
  // Each published prefix: the root that it hangs on, and its tokens.
  const std::map<std::pair<int32_t, Tokens>, PageId>& published() const {
    return published_;
  }
  bool pin_in_use(int32_t handle) const { return pins_[handle].has_value(); }
  PageAllocator::Stats stats() const;
  int32_t num_unpromised() const;
  // Names of a page: rows, pins and copies.
  int32_t CountHolders(PageId page) const;
  bool IsPublished(PageId page) const;
  // Whether a page would become available if all rows but `row` were released.
  bool OthersAloneHoldAPage(int32_t row) const;
  // Equal for two states exactly if the same calls lead to the same answers.
  std::string Fingerprint() const;

 private:
  struct Isolation {
    std::optional<std::string> key;
    int32_t root = 0;
    int32_t holders = 0;
    int64_t released_at = 0;
  };

  int32_t CeilDiv(int32_t tokens) const {
    return tokens / options_.page_size + (tokens % options_.page_size != 0);
  }
  // The page that holds the first `num_pages` pages of tokens, or kNullPage.
  PageId Lookup(const Tokens& tokens, int32_t isolation,
                int32_t num_pages) const;
  std::vector<PageId> Path(const Tokens& tokens, int32_t isolation,
                           int32_t num_pages) const;
  int32_t CountCached(const std::vector<PageId>& path) const;
  bool TailNeedsCopy(int32_t row) const;
  PageId Take();
  // A holder was added.
  void Held(PageId page);
  // A holder went away; true if it was the last.
  bool Dropped(PageId page);

  PageAllocator::Options options_;
  std::vector<PageId> free_;  // the next one last
  std::vector<PageId> lru_;   // the oldest first
  std::map<std::pair<int32_t, Tokens>, PageId> published_;
  std::vector<Row> rows_;
  std::vector<PageAllocator::PageCopy> copies_;
  std::vector<std::optional<std::vector<PageId>>> pins_;
  std::vector<Isolation> isolations_;
  int32_t next_root_ = 1;
  int64_t releases_ = 0;
  int64_t pages_taken_ = 0;
  int64_t pages_evicted_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ALLOCATOR_NAIVE_ALLOCATOR_H_
