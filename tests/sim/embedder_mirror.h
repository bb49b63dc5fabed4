// EmbedderMirror: what a server keeps for each row, brought along by what a
// plan says has changed, and by nothing else.
//
// A device's copy of the page table takes only the rows in changed_rows, and
// the request that each row's private state belongs to moves only as
// previous_rows says. Apply fails if that is not enough to be in step with the
// plan itself, or if it gives up state that is still good: a request that was
// there at the last commit is not new, unless it was preempted since.
//
// Lifecycle: Apply each plan; then Commit if its step is committed. After a
// step that failed, the next plan is again relative to the last commit; one
// copy of the table has then seen the failed step's rows and one has not.

#ifndef TIDEWHEEL_TESTS_SIM_EMBEDDER_MIRROR_H_
#define TIDEWHEEL_TESTS_SIM_EMBEDDER_MIRROR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/step_plan.h"

namespace tidewheel {

class EmbedderMirror {
 public:
  // Errors: Internal that names the row that is out of step.
  absl::Status Apply(const StepPlan& plan);
  void Commit();
  // The request has left its row and may come back as a new one.
  void Forget(RequestId id);

  // Rows that the last plan listed as changed.
  int32_t num_changed() const { return num_changed_; }

 private:
  absl::Status MoveRows(const StepPlan& plan);

  int32_t num_changed_ = 0;
  // [max_num_seqs, pages_per_seq], as of the last commit; with `plan`; and as
  // of the last plan, whether it was committed or not.
  std::vector<int32_t> committed_table_;
  std::vector<int32_t> table_;
  std::vector<int32_t> eager_table_;
  // The request of each row, 0 where the embedder was never told.
  std::vector<uint64_t> committed_owners_;
  std::vector<uint64_t> owners_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_EMBEDDER_MIRROR_H_
