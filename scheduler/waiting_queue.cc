#include "scheduler/waiting_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {

WaitingQueue::WaitingQueue(int32_t num_slots, int32_t max_first)
    : heap_(static_cast<size_t>(num_slots)),
      place_(static_cast<size_t>(num_slots), -1) {
  // Each slot copied out puts at most one more on the frontier than it takes.
  frontier_.reserve(static_cast<size_t>(max_first) + 2);
}

void WaitingQueue::Push(int32_t slot, const Rank& rank) {
  TIDEWHEEL_CHECK(!contains(slot));
  SiftUp(size_++, {rank, slot});
}

void WaitingQueue::Remove(int32_t slot) {
  TIDEWHEEL_CHECK(contains(slot));
  const int32_t at = place_[slot];
  place_[slot] = -1;
  const Entry last = heap_[--size_];
  if (at == size_) return;
  if (at > 0 && last.rank < heap_[(at - 1) / 2].rank) {
    SiftUp(at, last);
  } else {
    SiftDown(at, last);
  }
}

void WaitingQueue::SiftUp(int32_t at, const Entry& entry) {
  while (at > 0 && entry.rank < heap_[(at - 1) / 2].rank) {
    Place(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  Place(at, entry);
}

void WaitingQueue::SiftDown(int32_t at, const Entry& entry) {
  for (int32_t child = 2 * at + 1; child < size_; child = 2 * at + 1) {
    if (child + 1 < size_ && heap_[child + 1].rank < heap_[child].rank) {
      ++child;
    }
    if (!(heap_[child].rank < entry.rank)) break;
    Place(at, heap_[child]);
    at = child;
  }
  Place(at, entry);
}

int32_t WaitingQueue::CopyFirst(std::span<int32_t> slots) {
  // The next in order is always a child of one that was already copied.
  const auto later = [this](int32_t a, int32_t b) {
    return heap_[b].rank < heap_[a].rank;
  };
  frontier_.clear();
  if (size_ > 0) frontier_.push_back(0);
  size_t copied = 0;
  while (copied < slots.size() && !frontier_.empty()) {
    std::pop_heap(frontier_.begin(), frontier_.end(), later);
    const int32_t at = frontier_.back();
    frontier_.pop_back();
    slots[copied++] = heap_[at].slot;
    for (int32_t child = 2 * at + 1; child <= 2 * at + 2; ++child) {
      if (child >= size_) break;
      TIDEWHEEL_CHECK_LT(frontier_.size(), frontier_.capacity());
      frontier_.push_back(child);
      std::push_heap(frontier_.begin(), frontier_.end(), later);
    }
  }
  return static_cast<int32_t>(copied);
}

absl::Status WaitingQueue::CheckInvariants() const {
  int32_t waiting = 0;
  for (const int32_t at : place_) waiting += at >= 0 ? 1 : 0;
  if (waiting != size_) {
    return absl::InternalError(
        absl::StrCat(waiting, " slots wait, ", size_, " are counted"));
  }
  for (int32_t at = 0; at < size_; ++at) {
    if (place_[heap_[at].slot] != at ||
        (at > 0 && heap_[at].rank < heap_[(at - 1) / 2].rank)) {
      return absl::InternalError(
          absl::StrCat("slot ", heap_[at].slot, " is out of place at ", at));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
