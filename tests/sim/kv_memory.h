// KvMemory: a device's KV pages, in which each slot holds a stamp of all that
// it was computed from.
//
// The stamp of a token is a function of the stamp before it, as the device
// finds that in its pages, and of the token that the plan gives. A row that is
// handed a page of another prefix, a page that was never written, or one that
// somebody else has taken, therefore reads stamps that are not its own.
//
// Pages begin with stamps that belong to nobody, and a step that fails leaves
// such stamps behind.

#ifndef TIDEWHEEL_TESTS_SIM_KV_MEMORY_H_
#define TIDEWHEEL_TESTS_SIM_KV_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/content_token.h"
#include "scheduler/step_plan.h"

namespace tidewheel {

// The stamp of `token` behind a prefix with the stamp `before`.
inline uint64_t StampAfter(uint64_t before, int32_t token) {
  return MixBits(before * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(token));
}

class KvMemory {
 public:
  KvMemory(int32_t total_num_pages, int32_t page_size);

  // Does the page copies. Errors: Internal where one touches the null page.
  absl::Status Copy(const StepPlan& plan);
  // Fails if a row writes a page that another row reads or writes.
  absl::Status CheckDisjoint(const StepPlan& plan);
  // Computes the row's query tokens behind `root`, the stamp of nothing.
  void Write(const StepPlan& plan, int32_t row, uint64_t root);
  // Leaves garbage where the row's query tokens would be.
  void Spoil(const StepPlan& plan, int32_t row);
  // Fails if what the row's attention reads is not `expected`, [kv_len].
  absl::Status CheckRow(const StepPlan& plan, int32_t row,
                        const std::vector<uint64_t>& expected) const;

 private:
  size_t Slot(const StepPlan& plan, int32_t row, int32_t position) const {
    const int32_t page =
        plan.batch.pages(row)[static_cast<size_t>(position / page_size_)];
    return static_cast<size_t>(page) * static_cast<size_t>(page_size_) +
           static_cast<size_t>(position % page_size_);
  }
  uint64_t Garbage() { return MixBits(++garbage_); }

  int32_t page_size_;
  uint64_t garbage_ = uint64_t{1} << 63;
  std::vector<uint64_t> stamps_;  // [total_num_pages, page_size]
  std::vector<int32_t> writers_;  // [total_num_pages], row + 1, of one step
  std::vector<int32_t> touched_;  // pages with a writer
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_KV_MEMORY_H_
