// RunningRows: the running sequences, by row of the page table.
//
// Arrays of structure: what a step reads and writes for each row lies in one
// dense array a field, in the page table's row order. Rows are grouped:
//
//     [0, num_decodes)              one query token, and a token is sampled
//     [num_decodes, num_singles)    one query token, more to compute after it
//     [num_singles, num_scheduled)  several query tokens
//     [num_scheduled, num_rows)     no token in this step
//
// Between steps only the first border means anything: every row before it has
// exactly one token left to compute, so in steady decode nothing moves and
// nothing is looked at.
//
// What it holds is how things are once the steps in flight are done: tokens
// that they compute count as computed, and those that they sample as tokens,
// although their ids are not known yet.
//
// It moves rows together with the page table and keeps each sequence's row
// number up to date. It decides nothing.
//
// Single-threaded. O(1) a row moved, but for the table's entries. Nothing
// allocates after construction.

#ifndef TIDEWHEEL_SCHEDULER_RUNNING_ROWS_H_
#define TIDEWHEEL_SCHEDULER_RUNNING_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "allocator/page_allocator.h"
#include "scheduler/sequence_store.h"

namespace tidewheel {

class RunningRows {
 public:
  // Both outlive this object.
  RunningRows(int32_t max_num_seqs, PageAllocator& allocator,
              SequenceStore& sequences);

  // Takes the row that the allocator has just appended for `slot`, of which
  // `computed` tokens have KV. It gets no token yet.
  void Join(int32_t row, int32_t slot, int32_t computed_tokens);
  // Releases the row's pages and the row; the sequence's token count goes back
  // to the store. Other rows may move.
  void Leave(int32_t row);

  // Forgets the step: all rows but the decodes have no token, none is held.
  void BeginStep();
  // Marks a row without a token as one that gets none in this step.
  // REQUIRES: row >= num_scheduled.
  void Hold(int32_t row) { q_len[row] = kHeld; }
  bool is_held(int32_t row) const { return q_len[row] == kHeld; }
  // Gives a row without a token `tokens` of them in this step and moves it to
  // its group. Returns its new row.
  int32_t Schedule(int32_t row, int32_t tokens);
  // Takes the token of a decode away. Returns its new row, the first one past
  // the decodes.
  int32_t Unschedule(int32_t row);

  // The step hands out its tokens: they count as computed from now on, and a
  // row that samples one has one more, of unknown id.
  void Advance(int32_t row, int32_t count, bool samples) {
    computed[row] += count;
    length[row] += samples ? 1 : 0;
  }
  // Takes that back. The row may be in another group than it belongs to until
  // Settle.
  void Retreat(int32_t row, int32_t count, bool samples) {
    computed[row] -= count;
    length[row] -= samples ? 1 : 0;
  }
  // The first unknown token of the row is known now.
  void Learn(int32_t row, int32_t token) {
    tokens[row][known[row]++] = token;
    last_token[row] = token;
  }
  // After Retreat: gives back pages that it does not need and puts it where it
  // belongs. Other rows may move.
  void Settle(int32_t row);
  // Forgets tokens of unknown id and whoever samples them, and what was
  // computed past the first `computed_tokens`; then settles it.
  void StartOver(int32_t row, int32_t computed_tokens);

  // Tokens of the row that are not computed.
  int32_t pending(int32_t row) const { return length[row] - computed[row]; }
  // Whether its last tokens are being sampled.
  bool is_ahead(int32_t row) const { return length[row] != known[row]; }
  int32_t num_rows() const { return allocator_.table().num_rows(); }
  // Grows whenever a row's serial or place changes, but for rows that join.
  int64_t changes() const { return changes_; }
  // Recomputes event_at[row].
  void SetNextEvent(int32_t row);

  // Errors: Internal that names the row.
  absl::Status CheckInvariants() const;

  int32_t num_decodes = 0;
  int32_t num_singles = 0;
  int32_t num_scheduled = 0;

  // All [max_num_seqs].
  std::vector<int32_t> slot;
  std::vector<RequestId> request;
  std::vector<int64_t> serial;      // of its stay in the row, see PlannedStep
  std::vector<int32_t> computed;    // tokens that have KV
  std::vector<int32_t> length;      // tokens
  std::vector<int32_t> known;       // of those, ones with known ids; the first
  std::vector<int32_t> capacity;    // it may write up to here without asking
  std::vector<int32_t> q_len;       // of this step; decodes: not kept, it is 1
  std::vector<int32_t> last_token;  // tokens[known - 1]
  // When `computed` gets here, more is to do than to add a token: a page is
  // full, a limit is reached, or stop tokens are to be looked through.
  std::vector<int32_t> event_at;
  std::vector<int64_t> end_token;  // Sequence::kNoEndToken: none
  std::vector<int32_t*> tokens;    // the sequence's, in the store

 private:
  static constexpr int32_t kHeld = -1;

  void Swap(int32_t a, int32_t b);

  int64_t last_serial_ = 0;
  int64_t changes_ = 0;
  PageAllocator& allocator_;
  SequenceStore& sequences_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_RUNNING_ROWS_H_
