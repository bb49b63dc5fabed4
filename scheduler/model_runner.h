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

// The same for a device that runs on its own: a step may be launched while the
// one before it runs. StepPipeline drives it.
class PipelinedRunner {
 public:
  virtual ~PipelinedRunner() = default;

  // Starts the step after those that were launched before it. Tokens that the
  // plan does not know (kUnknownToken) are what the step before samples in the
  // row that plan.sampled_from names; the device fills them in. When this
  // returns, nothing of the plan is read any more.
  //
  // Errors: anything; then the step has not begun.
  virtual absl::Status Launch(const StepPlan& plan) = 0;

  // Waits for the oldest step that was launched, and writes its tokens as
  // ModelRunner::Run does. [batch.num_seqs].
  //
  // Errors: anything; its sequences and those of the steps launched after it
  // then return to where they were before, and Drop follows for the others.
  virtual absl::Status Await(int64_t step_id, std::span<int32_t> sampled) = 0;

  // Nobody will wait for this step, which was launched and has not been
  // awaited; it may still run.
  virtual void Drop(int64_t step_id) = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_MODEL_RUNNER_H_
