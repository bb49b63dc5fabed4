// PlanHash: one number for all that a series of step plans says.
//
// Two runs with equal hashes made the same plans, bit for bit: rows, tokens,
// positions, pages, moves and changes. An implementation of its own, so that
// it is the same with every compiler.

#ifndef TIDEWHEEL_TESTS_SIM_PLAN_HASH_H_
#define TIDEWHEEL_TESTS_SIM_PLAN_HASH_H_

#include <cstdint>
#include <span>

#include "scheduler/content_token.h"
#include "scheduler/step_plan.h"

namespace tidewheel {

class PlanHash {
 public:
  void Add(uint64_t value) { value_ = MixBits(value_ + value + 1); }

  void Add(const StepPlan& plan) {
    Add(static_cast<uint64_t>(plan.step_id));
    Add(static_cast<uint64_t>(plan.batch.num_seqs));
    for (const int32_t end : plan.batch.distribution) AddInt(end);
    for (const RequestId id : plan.requests) Add(id.value);
    AddAll(plan.batch.kv_lens);
    AddAll(plan.batch.cu_q_lens);
    AddAll(plan.batch.page_indices);
    AddAll(plan.token_ids);
    AddAll(plan.positions);
    for (const uint8_t wants : plan.wants_logits) Add(wants);
    AddAll(plan.changed_rows);
    AddAll(plan.previous_rows);
    for (const PageAllocator::PageCopy& copy : plan.copies) {
      AddInt(copy.source);
      AddInt(copy.target);
      AddInt(copy.num_tokens);
    }
    Add(static_cast<uint64_t>(plan.kv_tokens));
    Add(static_cast<uint64_t>(plan.attention_pairs));
  }

  uint64_t value() const { return value_; }

 private:
  void AddInt(int32_t value) { Add(static_cast<uint64_t>(value)); }
  void AddAll(std::span<const int32_t> values) {
    Add(values.size());
    for (const int32_t value : values) AddInt(value);
  }

  uint64_t value_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_PLAN_HASH_H_
