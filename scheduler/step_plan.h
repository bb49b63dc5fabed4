// StepPlan: all that one launch needs to know.
//
// A view over arrays that the scheduler owns. With one step in flight it is
// valid until the step is committed or has failed. With two, batch.page_indices
// is the live page table, which the scheduler's next call may change; the other
// arrays stay as they are until the step is committed or has failed.
//
// Rows are in the page table's order: those with one query token first, see
// RaggedBatch.

#ifndef TIDEWHEEL_SCHEDULER_STEP_PLAN_H_
#define TIDEWHEEL_SCHEDULER_STEP_PLAN_H_

#include <cstdint>
#include <span>

#include "allocator/page_allocator.h"
#include "attention/ragged_batch.h"
#include "scheduler/request.h"

namespace tidewheel {

// The id of a token that a step in flight samples; the device fills it in.
inline constexpr int32_t kUnknownToken = -1;

struct StepPlan {
  // Increases by one a plan; Commit and Fail name it.
  int64_t step_id = 0;

  RaggedBatch batch;

  // Per query token, [batch.total_q_tokens()]: its id or kUnknownToken, and its
  // place in its sequence, from 0.
  std::span<const int32_t> token_ids;
  std::span<const int32_t> positions;

  // Per row, [batch.num_seqs].
  std::span<const RequestId> requests;
  // 1 where the row's last query token is the last known one of its sequence,
  // so that the runner samples the next token from its logits.
  std::span<const uint8_t> wants_logits;
  int32_t num_logits = 0;
  // Per row, [batch.num_seqs], or empty if no step was in flight: the row of
  // the step planned before this one whose sampled token this row's last (and
  // only) query token is; -1 where all are known.
  std::span<const int32_t> sampled_from;

  // Page copies to do before this step's KV is written, in this order.
  std::span<const PageAllocator::PageCopy> copies;

  // What follows is relative to the last step that was committed or is in
  // flight; where steps have failed since, to what came before them.
  //
  // Table rows that differ, in no order; they may lie past num_seqs.
  std::span<const int32_t> changed_rows;
  // Per row of the table in use (num_seqs or more): where the row was, -1 if it
  // is new. Empty if every row is where it was.
  std::span<const int32_t> previous_rows;

  // For cost models: the sum of kv_lens, and the number of (query token,
  // visible key) pairs of all rows.
  int64_t kv_tokens = 0;
  int64_t attention_pairs = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_STEP_PLAN_H_
