// EmbedderMirror: what a server keeps for each row, brought along by what a
// plan says has changed, and by nothing else.
//
// A device's copy of the page table takes only the rows in changed_rows, and
// the request that each row's private state belongs to moves only as
// previous_rows says. Apply fails if that is not enough to be in step with the
// plan itself, or if it gives up state that is still good: a request that was
// there before is not new, unless it was preempted since.
//
// Lifecycle: Apply each plan; then Commit the oldest in flight, or Drop those
// that failed. A plan is relative to the newest in flight, or to the last
// commit; one copy of the table has seen the rows of steps that failed and one
// has not.

#ifndef TIDEWHEEL_TESTS_SIM_EMBEDDER_MIRROR_H_
#define TIDEWHEEL_TESTS_SIM_EMBEDDER_MIRROR_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/step_plan.h"

namespace tidewheel {

class EmbedderMirror {
 public:
  // Errors: Internal that names the row that is out of step.
  absl::Status Apply(const StepPlan& plan);
  void Commit();
  // The newest step in flight failed.
  void Drop();
  // The request has left its row and may come back as a new one.
  void Forget(RequestId id);

  // Rows that the last plan listed as changed.
  int32_t num_changed() const { return num_changed_; }

 private:
  struct State {
    std::vector<int32_t> table;  // [max_num_seqs, pages_per_seq]
    // The request of each row, 0 where the embedder was never told.
    std::vector<uint64_t> owners;
  };

  static absl::Status MoveRows(const StepPlan& plan, State& state);

  int32_t num_changed_ = 0;
  std::deque<State> states_ = {{}};   // the last commit, then steps in flight
  std::vector<int32_t> eager_table_;  // of the last plan, whatever became of it
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_EMBEDDER_MIRROR_H_
