// PagePaths: a trace as lists of full pages, each page a number.
//
// A page's number stands for its tokens and for all that comes before them, as
// in the allocator's prefix index: equal numbers are pages that one request
// can take over from another. Contents are compared by the trace's segments,
// never as tokens, whatever the page size. Nothing is looked up or evicted
// here.
//
// A request with P prompt tokens and M generated ones computes T = P + M - 1
// tokens (the last is sampled and never computed). It takes ceil(T / page_size)
// pages, publishes floor(T / page_size), and looks up at most
// floor((P - 1) / page_size), since one token is always computed.
//
// Invariants: a page's number tells its place in every path; the pages of a
// path are all different.

#ifndef TIDEWHEEL_TOOLS_TUNE_PAGE_PATHS_H_
#define TIDEWHEEL_TOOLS_TUNE_PAGE_PATHS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/traces/trace.h"

namespace tidewheel {

struct PagePaths {
  struct Request {
    size_t first = 0;           // into pages
    int32_t num_full = 0;       // pages that it publishes
    int32_t num_taken = 0;      // pages that it takes, a partial last one too
    int32_t num_looked_up = 0;  // pages of its prompt that it may find
    int32_t prompt_tokens = 0;
    int32_t index = 0;  // into Trace::requests
    // Nothing is computed past a prompt of full pages: its last page may be in
    // the cache and is computed all the same.
    bool ends_with_prompt_page = false;

    bool has_partial_page() const { return num_taken > num_full; }
  };

  int32_t page_size = 0;
  int32_t num_ids = 0;  // every page number is below
  std::vector<Request> requests;
  std::vector<int32_t> pages;  // [sum of num_full]
  // Longer than a model allows; in none of the above.
  int64_t excluded_requests = 0;
  int64_t excluded_prompt_tokens = 0;

  std::span<const int32_t> pages_of(const Request& request) const {
    return std::span(pages).subspan(request.first,
                                    static_cast<size_t>(request.num_full));
  }
};

struct PagePathOptions {
  int32_t page_size = 0;
  // Prompt and generated tokens of the longest request that is taken.
  std::optional<int32_t> max_model_len = std::nullopt;
};

// The requests in the order in which one client sends them, who sends the next
// when one has ended. A session's later turn comes its think time after the
// turn before it *arrived*: how long that ran is not known here. Their order is
// no invariant; pages keep their numbers in any other.
//
// Errors: InvalidArgument for a page size below 1, or one so small that the
// trace has more pages than memory for them (kMaxPages).
absl::StatusOr<PagePaths> BuildPagePaths(const Trace& trace,
                                         const PagePathOptions& options);

// 3 GB of books.
inline constexpr int64_t kMaxPages = int64_t{1} << 26;

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_PAGE_PATHS_H_
