// WaitingQueue: sequences that wait for a row, in the order in which a policy
// wants them.
//
// The order is a rank fixed when a request is submitted: the policy's key,
// then the arrival number, so that no two ranks are equal and no clock is read
// while comparing. A sequence that was preempted comes back with its old rank.
//
// A binary heap over slot numbers, with each slot's place beside it.
//
// Invariants (CheckInvariants): the heap order; places agree with the heap.
//
// Single-threaded. Push, Remove: O(log size); CopyFirst: O(n log n) for the
// first n. Nothing allocates after construction.

#ifndef TIDEWHEEL_SCHEDULER_WAITING_QUEUE_H_
#define TIDEWHEEL_SCHEDULER_WAITING_QUEUE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace tidewheel {

// Who goes first: the lower key, then the earlier arrival.
struct Rank {
  int64_t key = 0;
  uint64_t arrival = 0;

  friend bool operator<(const Rank& a, const Rank& b) {
    return a.key != b.key ? a.key < b.key : a.arrival < b.arrival;
  }
};

class WaitingQueue {
 public:
  // Slots are numbers in [0, num_slots). `max_first` bounds CopyFirst.
  WaitingQueue(int32_t num_slots, int32_t max_first);

  // REQUIRES: the slot does not wait.
  void Push(int32_t slot, const Rank& rank);
  // REQUIRES: the slot waits.
  void Remove(int32_t slot);

  bool contains(int32_t slot) const { return place_[slot] >= 0; }
  bool empty() const { return size_ == 0; }
  int32_t size() const { return size_; }
  // The slot with the lowest rank. REQUIRES: not empty().
  int32_t first() const { return heap_[0].slot; }
  // The slots with the lowest ranks, in order; as many as there are and as fit
  // `slots`. Returns their number. REQUIRES: slots.size() <= max_first.
  int32_t CopyFirst(std::span<int32_t> slots);

  // O(size). Errors: Internal that names the slot.
  absl::Status CheckInvariants() const;

 private:
  struct Entry {
    Rank rank;
    int32_t slot = -1;
  };

  void Place(int32_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.slot] = at;
  }
  void SiftUp(int32_t at, const Entry& entry);
  void SiftDown(int32_t at, const Entry& entry);

  int32_t size_ = 0;
  std::vector<Entry> heap_;        // [num_slots], first size_
  std::vector<int32_t> place_;     // [num_slots], in heap_; -1: does not wait
  std::vector<int32_t> frontier_;  // scratch of CopyFirst
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_WAITING_QUEUE_H_
