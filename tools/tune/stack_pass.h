// One pass over a trace that gives the hits of every pool size.
//
// ComputeHitCurve is exact for one request at a time: what a scheduler with an
// LRU PageAllocator of that size finds, page for page (README.md says why,
// and what the corrections for partial pages are).
//
// ComputeTimedHitCurve lets requests overlap as they did in a run without
// pressure: what they hold takes room from the cache. It is an estimate, since
// other hits would also have run them at other times; the more so in a pool
// that can not even hold what ran at once.

#ifndef TIDEWHEEL_TOOLS_TUNE_STACK_PASS_H_
#define TIDEWHEEL_TOOLS_TUNE_STACK_PASS_H_

#include <cstdint>
#include <limits>
#include <span>

#include "tools/tune/hit_curve.h"
#include "tools/tune/page_paths.h"

namespace tidewheel {

// What the pages that a request took are held for.
struct Residency {
  int64_t admitted_us = -1;  // -1: it did not run
  int64_t ended_us = -1;
  // Found where nothing was evicted: pages that others are still computing are
  // not found.
  int32_t found_pages = 0;
};

// The curve of the requests that take at most `most_pages` pages each, those
// that a pool with that many usable pages does not refuse.
// REQUIRES: there is at least one.
HitCurve ComputeHitCurve(
    const PagePaths& paths,
    int32_t most_pages = std::numeric_limits<int32_t>::max());

struct TimedHitCurve {
  HitCurve curve;
  // The least pool that holds all that requests held at one time. In a smaller
  // one requests wait for pages, and run at other times than assumed.
  int64_t all_running_pages = 0;
};

// REQUIRES: `residencies` has an entry for each request of the trace, and at
// least one of the paths' requests ran.
TimedHitCurve ComputeTimedHitCurve(const PagePaths& paths,
                                   std::span<const Residency> residencies);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_STACK_PASS_H_
