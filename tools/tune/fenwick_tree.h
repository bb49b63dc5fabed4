// FenwickTree: counts by position, with sums of their beginnings (Fenwick,
// "A new data structure for cumulative frequency tables", 1994).
//
// Add and SumBefore are O(log size). Nothing allocates after construction.

#ifndef TIDEWHEEL_TOOLS_TUNE_FENWICK_TREE_H_
#define TIDEWHEEL_TOOLS_TUNE_FENWICK_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidewheel {

class FenwickTree {
 public:
  explicit FenwickTree(size_t size) : sums_(size + 1) {}

  // REQUIRES: position < size.
  void Add(size_t position, int64_t count) {
    for (size_t i = position + 1; i < sums_.size(); i += i & (~i + 1)) {
      sums_[i] += count;
    }
  }

  // The counts of positions [0, end). REQUIRES: end <= size.
  int64_t SumBefore(size_t end) const {
    int64_t sum = 0;
    for (size_t i = end; i > 0; i &= i - 1) sum += sums_[i];
    return sum;
  }

 private:
  std::vector<int64_t> sums_;  // [i]: of the i & -i positions that end at i
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_FENWICK_TREE_H_
