// StepPlan: all that one launch needs to know.
//
// A view over arrays that the scheduler owns, valid until the step is
// committed or has failed. Rows are in the page table's order: those with one
// query token first, see RaggedBatch.

#ifndef TIDEWHEEL_SCHEDULER_STEP_PLAN_H_
#define TIDEWHEEL_SCHEDULER_STEP_PLAN_H_

#include <cstdint>
#include <span>

#include "allocator/page_allocator.h"
#include "attention/ragged_batch.h"
#include "scheduler/request.h"

namespace tidewheel {

struct StepPlan {
  // Increases by one a plan; Commit and Fail name it.
  int64_t step_id = 0;

  RaggedBatch batch;

  // Per query token, [batch.total_q_tokens()]: its id, and its place in its
  // sequence, from 0.
  std::span<const int32_t> token_ids;
  std::span<const int32_t> positions;

  // Per row, [batch.num_seqs].
  std::span<const RequestId> requests;
  // 1 where the row's last query token is the last known one of its sequence,
  // so that the runner samples the next token from its logits.
  std::span<const uint8_t> wants_logits;
  int32_t num_logits = 0;

  // Page copies to do before this step's KV is written, in this order.
  std::span<const PageAllocator::PageCopy> copies;

  // Table rows that differ from those of the last committed step, in no order;
  // they may lie past num_seqs.
  std::span<const int32_t> changed_rows;
  // Per row of the table in use (num_seqs or more): where the row was at the
  // last committed step, -1 if it is new. Empty if every row is where it was.
  std::span<const int32_t> previous_rows;

  // For cost models: the sum of kv_lens, and the number of (query token,
  // visible key) pairs of all rows.
  int64_t kv_tokens = 0;
  int64_t attention_pairs = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_STEP_PLAN_H_
