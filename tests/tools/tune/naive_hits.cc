#include "tests/tools/tune/naive_hits.h"

#include <algorithm>
#include <list>
#include <vector>

#include "allocator/check.h"
#include "scheduler/content_token.h"
#include "tools/traces/token_content.h"

namespace tidewheel {
namespace {

// All tokens up to the end of a page: what a prefix cache finds it by.
using Prefix = std::vector<int32_t>;

class NaivePool {
 public:
  NaivePool(int32_t page_size, int64_t usable_pages)
      : page_size_(page_size), num_free_(usable_pages) {}

  // Hit pages of a request that computes `tokens`, `prompt` of them given.
  int64_t Run(const std::vector<int32_t>& tokens, int32_t prompt) {
    const size_t num_full = tokens.size() / static_cast<size_t>(page_size_);
    size_t hits = 0;
    while (hits < static_cast<size_t>((prompt - 1) / page_size_) &&
           TakeFromCache(Through(tokens, hits))) {
      ++hits;
    }
    for (size_t page = hits; page < num_full; ++page) {
      TakePage();
      // The same page was cached: it is used, and the one just taken is free.
      if (TakeFromCache(Through(tokens, page))) ++num_free_;
    }
    const bool is_partial = tokens.size() % static_cast<size_t>(page_size_) > 0;
    if (is_partial) {
      TakePage();
      ++num_free_;
    }
    for (size_t page = num_full; page-- > 0;) {
      cached_.push_back(Through(tokens, page));
    }
    return static_cast<int64_t>(hits);
  }

 private:
  Prefix Through(const std::vector<int32_t>& tokens, size_t page) const {
    const size_t end = (page + 1) * static_cast<size_t>(page_size_);
    return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(end)};
  }
  bool TakeFromCache(const Prefix& prefix) {
    const auto found = std::find(cached_.begin(), cached_.end(), prefix);
    if (found == cached_.end()) return false;
    cached_.erase(found);
    return true;
  }
  void TakePage() {
    if (num_free_ > 0) {
      --num_free_;
      return;
    }
    TIDEWHEEL_CHECK(!cached_.empty());
    cached_.pop_front();
  }

  int32_t page_size_;
  int64_t num_free_;
  std::list<Prefix> cached_;  // released first in front
};

}  // namespace

int64_t NaiveHitPages(const Trace& trace, int32_t page_size,
                      int64_t total_num_pages) {
  NaivePool pool(page_size, total_num_pages - 1);
  int64_t hits = 0;
  for (const TraceRequest& request : trace.requests) {
    TIDEWHEEL_CHECK_LT(request.after_request, 0);
    std::vector<int32_t> tokens(static_cast<size_t>(request.prompt_tokens));
    WriteContent(trace.segments_of(request), tokens);
    for (int32_t i = 0; i < request.output_tokens - 1; ++i) {
      tokens.push_back(
          ContentToken(request.output_content_id, static_cast<uint64_t>(i)));
    }
    const int64_t length = static_cast<int64_t>(tokens.size());
    if (length > (total_num_pages - 1) * page_size) continue;
    hits += pool.Run(tokens, request.prompt_tokens);
  }
  return hits;
}

}  // namespace tidewheel
