// ReleaseStack: every page in the order in which a cache of any size would
// evict it.
//
// At the top are the pages that running requests hold (pinned), below them
// those that nobody holds, youngest release first. A request releases its pages
// last page first, so that within a release the first page is youngest, as
// PageAllocator does it. A cache of n pages holds the top n of the stack: the
// stack serves all sizes at once (Mattson et al., "Evaluation techniques for
// storage hierarchies", 1970).
//
// What is left of a release is always the end of its path: whoever takes over
// one of its pages takes over all before it. So pages are counted by release,
// not one by one, and found in runs.
//
//     [ pinned | release 7: a b c | release 5: f g | release 2: k ]
//       ^ position 1                                           ^ last
//
// Lifecycle of a request: Pin its path, read runs() and is_new(), Release it.
//
// Single-threaded. Pin is O(pages + runs log releases), Release O(pages + log
// releases). After construction only the list of runs may grow.

#ifndef TIDEWHEEL_TOOLS_TUNE_RELEASE_STACK_H_
#define TIDEWHEEL_TOOLS_TUNE_RELEASE_STACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/tune/fenwick_tree.h"

namespace tidewheel {

class ReleaseStack {
 public:
  // Pages [first, end) of a path, found at `position` and those after it.
  struct Run {
    int32_t first = 0;
    int32_t end = 0;
    int64_t position = 0;  // from 1
  };

  // What Pin found of a path: its first num_pinned pages were pinned, the runs
  // follow, and the pages from first_new on were never released.
  struct Found {
    int32_t num_pinned = 0;
    std::span<const Run> runs;  // valid until the next Pin
    int32_t first_new = 0;
  };

  // For page numbers below num_ids and that many calls of Release.
  ReleaseStack(size_t num_ids, size_t num_releases);

  // Holds the pages of a path once more. Positions are those before the call.
  Found Pin(std::span<const int32_t> path);
  // REQUIRES: the path is pinned.
  void Release(std::span<const int32_t> path);

  // Pages that are held, each counted once.
  int64_t num_pinned() const { return num_pinned_; }

 private:
  struct Page {
    int32_t release = -1;  // that put it where it is; -1: none yet
    int32_t pins = 0;
  };

  std::vector<Page> pages_;
  FenwickTree left_;  // by release: pages that still lie where it put them
  int64_t num_pinned_ = 0;
  int64_t num_unpinned_ = 0;
  size_t num_releases_ = 0;
  std::vector<Run> runs_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_RELEASE_STACK_H_
