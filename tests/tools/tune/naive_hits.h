// NaiveHits: prefix hits of one pool size, one request at a time, by doing what
// PageAllocator says it does with lists of tokens.
//
// Shares nothing with the pass that it checks: it knows no stack, no trie and
// no segments, and is quadratic. It takes pages one at a time, free ones first
// and then the oldest cached one, and finds twins as Publish does.

#ifndef TIDEWHEEL_TESTS_TOOLS_TUNE_NAIVE_HITS_H_
#define TIDEWHEEL_TESTS_TOOLS_TUNE_NAIVE_HITS_H_

#include <cstdint>

#include "tools/traces/trace.h"

namespace tidewheel {

// Hit pages of the requests that fit, in the order of the trace.
// REQUIRES: no request waits for another.
int64_t NaiveHitPages(const Trace& trace, int32_t page_size,
                      int64_t total_num_pages);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_TUNE_NAIVE_HITS_H_
