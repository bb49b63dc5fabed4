// Prompt: tokens with their page hashes, for tests of PageAllocator.
//
// It keeps what PageAllocator::Content only points at, and does in one call
// what a scheduler does over several steps.
//
// Single-threaded. Hashes everything anew whenever it is asked to.

#ifndef TIDEWHEEL_TESTS_ALLOCATOR_PROMPT_H_
#define TIDEWHEEL_TESTS_ALLOCATOR_PROMPT_H_

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/check.h"
#include "allocator/page_allocator.h"

namespace tidewheel {

struct Prompt {
  Prompt(const PageAllocator& allocator, std::vector<int32_t> tokens_in,
         int32_t isolation_in = IsolationRoots::kShared)
      : tokens(std::move(tokens_in)), isolation(isolation_in) {
    Hash(allocator);
  }

  // `length` tokens that count up from `first`.
  static Prompt Counting(const PageAllocator& allocator, int32_t first,
                         int32_t length) {
    std::vector<int32_t> counted(static_cast<size_t>(length));
    std::iota(counted.begin(), counted.end(), first);
    return Prompt(allocator, std::move(counted));
  }

  void Hash(const PageAllocator& allocator) {
    const int32_t pages = length() / allocator.page_size();
    hashes.resize(static_cast<size_t>(pages));
    allocator.HashPages(tokens, isolation, 0, pages, hashes);
  }

  int32_t length() const { return static_cast<int32_t>(tokens.size()); }
  PageAllocator::Content content() const { return {tokens, hashes, isolation}; }

  // Cached pages that it begins with.
  int32_t MatchedPages(const PageAllocator& allocator) const {
    return allocator.Match(content(), {}).num_pages;
  }
  // A row with slots for the whole prompt, matched pages shared.
  std::optional<int32_t> TryAdmit(PageAllocator& allocator,
                                  int32_t promised_tokens = 0) const {
    PageAllocator::AdmitOptions options;
    options.match = allocator.Match(content(), {});
    options.num_tokens = length();
    options.promised_tokens = promised_tokens;
    return allocator.TryAdmit(options);
  }
  // Admits, computes all of it, publishes and releases.
  void Run(PageAllocator& allocator) const {
    const std::optional<int32_t> row = TryAdmit(allocator);
    TIDEWHEEL_CHECK(row.has_value());
    allocator.Publish(*row, content(), length());
    allocator.Release(*row);
  }

  std::vector<int32_t> tokens;
  std::vector<uint64_t> hashes;  // of the full pages
  int32_t isolation;
};

inline std::unique_ptr<PageAllocator> MakeAllocator(
    const PageAllocator::Options& options) {
  absl::StatusOr<std::unique_ptr<PageAllocator>> allocator =
      PageAllocator::Create(options);
  TIDEWHEEL_CHECK(allocator.ok());
  return *std::move(allocator);
}

// An allocator that can lend `usable_pages`.
inline std::unique_ptr<PageAllocator> MakeAllocator(int32_t usable_pages,
                                                    int32_t page_size,
                                                    int32_t max_num_seqs = 8) {
  PageAllocator::Options options;
  options.total_num_pages = usable_pages + 1;
  options.page_size = page_size;
  options.max_num_seqs = max_num_seqs;
  options.pages_per_seq = usable_pages + 1;
  return MakeAllocator(options);
}

// A row of `num_tokens` slots that shares nothing.
inline std::optional<int32_t> TryAdmitTokens(PageAllocator& allocator,
                                             int32_t num_tokens,
                                             int32_t promised_tokens = 0,
                                             int32_t headroom_pages = 0) {
  PageAllocator::AdmitOptions options;
  options.num_tokens = num_tokens;
  options.promised_tokens = promised_tokens;
  options.headroom_pages = headroom_pages;
  return allocator.TryAdmit(options);
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ALLOCATOR_PROMPT_H_
