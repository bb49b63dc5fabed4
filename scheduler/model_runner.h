// ModelRunner: the one seam that an LLM server implements.
//
// A runner owns weights, layers and the KV pages on the device. For each step
// it uploads what changed of the page table, does the page copies, runs the
// layers (handing the same batch to an attention backend in each) and samples.
// It does not choose what runs: the scheduler does.

#ifndef TIDEWHEEL_SCHEDULER_MODEL_RUNNER_H_
#define TIDEWHEEL_SCHEDULER_MODEL_RUNNER_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "scheduler/step_plan.h"

namespace tidewheel {

// What a runner writes for a row that should have got a token but did not; the
// scheduler computes that row again.
inline constexpr int32_t kNoToken = -1;

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Runs the step and writes the token sampled for each row with wants_logits
  // to sampled[row]; other entries are left alone. [batch.num_seqs].
  //
  // Errors: anything; the scheduler's sequences then return to where they were
  // before the step and are computed again.
  virtual absl::Status Run(const StepPlan& plan,
                           std::span<int32_t> sampled) = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_MODEL_RUNNER_H_
