// PendingCopies: page copies that are not known to be done, in the order in
// which they must be done.
//
// Those that are part of a step that was handed out come first, then the new
// ones. It holds no references to pages; the allocator does.
//
// Single-threaded. Nothing allocates after construction.

#ifndef TIDEWHEEL_ALLOCATOR_PENDING_COPIES_H_
#define TIDEWHEEL_ALLOCATOR_PENDING_COPIES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allocator/check.h"
#include "allocator/page_allocator_options.h"

namespace tidewheel {

class PendingCopies {
 public:
  explicit PendingCopies(int32_t capacity)
      : capacity_(static_cast<size_t>(capacity)) {
    copies_.reserve(capacity_);
    steps_.reserve(capacity_);
  }

  bool empty() const { return copies_.empty(); }
  bool full() const { return copies_.size() == capacity_; }
  int32_t size() const { return static_cast<int32_t>(copies_.size()); }
  std::span<const PageCopy> all() const { return copies_; }
  std::span<const PageCopy> fresh() const {
    return std::span(copies_).subspan(steps_.size());
  }

  // REQUIRES: not full.
  void Add(const PageCopy& copy) {
    TIDEWHEEL_CHECK(!full());
    copies_.push_back(copy);
  }

  // The fresh ones are part of this step. REQUIRES: step ids increase.
  void HandOut(int64_t step_id) {
    if (!steps_.empty()) TIDEWHEEL_CHECK_GT(step_id, steps_.back());
    steps_.resize(copies_.size(), step_id);
  }
  // Those of this step and of later ones are fresh again.
  void Recall(int64_t step_id) {
    while (!steps_.empty() && steps_.back() >= step_id) steps_.pop_back();
  }
  // How many are part of the steps up to this one; they come first.
  int32_t CountUpTo(int64_t step_id) const {
    return static_cast<int32_t>(
        std::upper_bound(steps_.begin(), steps_.end(), step_id) -
        steps_.begin());
  }
  // Forgets the first `count`.
  void RemoveFirst(int32_t count) {
    copies_.erase(copies_.begin(), copies_.begin() + count);
    const int32_t handed_out = static_cast<int32_t>(steps_.size());
    steps_.erase(steps_.begin(), steps_.begin() + std::min(count, handed_out));
  }
  // Forgets the copy to `target`. Returns its source; nothing if there is none.
  std::optional<PageId> RemoveTo(PageId target) {
    const auto copy = std::find_if(
        copies_.begin(), copies_.end(),
        [target](const PageCopy& c) { return c.target == target; });
    if (copy == copies_.end()) return std::nullopt;
    const PageId source = copy->source;
    const ptrdiff_t at = copy - copies_.begin();
    if (static_cast<size_t>(at) < steps_.size()) {
      steps_.erase(steps_.begin() + at);
    }
    copies_.erase(copy);
    return source;
  }

 private:
  size_t capacity_;
  std::vector<PageCopy> copies_;
  std::vector<int64_t> steps_;  // of the first copies
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_PENDING_COPIES_H_
