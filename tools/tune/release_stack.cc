#include "tools/tune/release_stack.h"

#include "allocator/check.h"

namespace tidewheel {

ReleaseStack::ReleaseStack(size_t num_ids, size_t num_releases)
    : pages_(num_ids), left_(num_releases) {}

ReleaseStack::Found ReleaseStack::Pin(std::span<const int32_t> path) {
  runs_.clear();
  Found found;
  size_t i = 0;
  for (; i < path.size() && pages_[path[i]].pins > 0; ++i) {
    ++pages_[path[i]].pins;
  }
  found.num_pinned = static_cast<int32_t>(i);
  while (i < path.size() && pages_[path[i]].release >= 0) {
    const int32_t release = pages_[path[i]].release;
    const size_t first = i;
    for (; i < path.size() && pages_[path[i]].release == release; ++i) {
      pages_[path[i]].pins = 1;
      pages_[path[i]].release = -1;
    }
    const size_t through = static_cast<size_t>(release) + 1;
    const int64_t younger = num_unpinned_ - left_.SumBefore(through);
    runs_.push_back({static_cast<int32_t>(first), static_cast<int32_t>(i),
                     num_pinned_ + younger + 1});
    const int64_t count = static_cast<int64_t>(i - first);
    left_.Add(static_cast<size_t>(release), -count);
    num_unpinned_ -= count;
    num_pinned_ += count;
  }
  found.first_new = static_cast<int32_t>(i);
  for (size_t k = i; k < path.size(); ++k) pages_[path[k]].pins = 1;
  num_pinned_ += static_cast<int64_t>(path.size() - i);
  found.runs = runs_;
  return found;
}

void ReleaseStack::Release(std::span<const int32_t> path) {
  const int32_t release = static_cast<int32_t>(num_releases_++);
  int64_t count = 0;
  for (const int32_t page : path) {
    TIDEWHEEL_CHECK_GT(pages_[page].pins, 0);
    if (--pages_[page].pins > 0) continue;
    pages_[page].release = release;
    ++count;
  }
  left_.Add(static_cast<size_t>(release), count);
  num_unpinned_ += count;
  num_pinned_ -= count;
}

}  // namespace tidewheel
