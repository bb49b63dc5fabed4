// StepsInFlight: the plans that were handed out and whose results have not
// come, the oldest first, in a ring with room for a fixed number.
//
// Single-threaded. Nothing allocates after Reserve.

#ifndef TIDEWHEEL_SCHEDULER_STEPS_IN_FLIGHT_H_
#define TIDEWHEEL_SCHEDULER_STEPS_IN_FLIGHT_H_

#include <cstdint>
#include <vector>

#include "allocator/check.h"
#include "scheduler/planned_step.h"

namespace tidewheel {

class StepsInFlight {
 public:
  // Once, before anything else. `batch`: what is the same in every step.
  void Reserve(int32_t capacity, const RaggedBatch& batch) {
    steps_.reserve(static_cast<size_t>(capacity));
    for (int32_t i = 0; i < capacity; ++i) {
      PlannedStep& step =
          steps_.emplace_back(batch.max_num_seqs, batch.max_num_batched_tokens);
      step.plan.batch = batch;
      step.plan.batch.kv_lens = step.kv_lens;
      step.plan.batch.cu_q_lens = step.cu_q_lens;
    }
  }

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == static_cast<int32_t>(steps_.size()); }
  int32_t size() const { return size_; }

  const PlannedStep& operator[](int32_t i) const { return steps_[Place(i)]; }
  const PlannedStep& newest() const { return steps_[Place(size_ - 1)]; }

  // The free one that PushNext adds. REQUIRES: not full.
  PlannedStep& next() {
    TIDEWHEEL_CHECK(!full());
    return steps_[Place(size_)];
  }
  void PushNext() { ++size_; }
  // The step stays as it is until the next PushNext. REQUIRES: not empty.
  const PlannedStep& PopOldest() {
    TIDEWHEEL_CHECK(!empty());
    const PlannedStep& oldest = steps_[first_];
    first_ = Place(1);
    --size_;
    return oldest;
  }
  const PlannedStep& PopNewest() {
    TIDEWHEEL_CHECK(!empty());
    return steps_[Place(--size_)];
  }

 private:
  size_t Place(int32_t i) const {
    return (first_ + static_cast<size_t>(i)) % steps_.size();
  }

  std::vector<PlannedStep> steps_;
  size_t first_ = 0;
  int32_t size_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_STEPS_IN_FLIGHT_H_
