// PlannedStep: a plan that was handed out, and what its result needs.
//
// The arrays behind a StepPlan, and beside them who ran in each of its rows:
// by the time a result comes, rows may have moved, left or started over. It is
// storage; the scheduler fills and reads it.
//
// A *serial* names a stay in a row. It is never used again, so a result whose
// serial is not its row's any more is nobody's and is dropped.
//
// Nothing allocates after construction.

#ifndef TIDEWHEEL_SCHEDULER_PLANNED_STEP_H_
#define TIDEWHEEL_SCHEDULER_PLANNED_STEP_H_

#include <cstdint>
#include <vector>

#include "scheduler/step_plan.h"

namespace tidewheel {

struct PlannedStep {
  // The arrays have the page table's rows, which the kernel was compiled for,
  // even where fewer sequences may run.
  PlannedStep(int32_t table_rows, int32_t max_num_batched_tokens) {
    const size_t rows = static_cast<size_t>(table_rows);
    const size_t tokens = static_cast<size_t>(max_num_batched_tokens);
    kv_lens.assign(rows, 0);
    cu_q_lens.assign(rows + 1, 0);
    wants_logits.resize(rows);
    sampled_from.resize(rows);
    requests.resize(rows);
    slots.resize(rows);
    serials.resize(rows);
    previous_rows.resize(rows);
    token_ids.resize(tokens);
    positions.resize(tokens);
    changed_rows.reserve(rows);
    copies.reserve(rows);
    event_rows.reserve(rows);
  }

  int32_t q_len(int32_t row) const {
    return cu_q_lens[row + 1] - cu_q_lens[row];
  }

  StepPlan plan;
  int32_t num_decodes = 0;  // the first rows; one token each, which is sampled
  bool narrows_failure = false;
  // RunningRows::changes() when it was handed out: rows are the same while it
  // is.
  int64_t row_changes = -1;

  // Of the plan.
  std::vector<int32_t> kv_lens;                 // [table rows]
  std::vector<int32_t> cu_q_lens;               // [table rows + 1]
  std::vector<uint8_t> wants_logits;            // [table rows]
  std::vector<int32_t> sampled_from;            // [table rows]
  std::vector<RequestId> requests;              // [table rows]
  std::vector<int32_t> previous_rows;           // [table rows]
  std::vector<int32_t> token_ids;               // [max_num_batched_tokens]
  std::vector<int32_t> positions;               // [max_num_batched_tokens]
  std::vector<int32_t> changed_rows;            // at most the table's rows
  std::vector<PageAllocator::PageCopy> copies;  // at most the table's rows
  // What is still in the arrays from the plan before.
  int32_t num_named = 0;       // rows in requests, slots and serials
  int32_t decodes_filled = 0;  // cu_q_lens and wants_logits of that many
  int32_t padded_from = 0;     // rows from here on are padded ...
  int32_t padded_with = 0;     // ... with this many query tokens

  std::vector<int32_t> slots;       // [table rows]
  std::vector<int64_t> serials;     // [table rows]
  std::vector<int32_t> event_rows;  // decodes with more to do than add a token
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_PLANNED_STEP_H_
