// StepPipeline: keeps a device busy with the steps of a scheduler.
//
// It plans and launches until as many steps are in flight as the scheduler's
// max_steps_in_flight allows, then waits for the oldest and hands its result
// over. With 2, the host plans, uploads and reads back while the device
// computes. It owns no thread, decides nothing and reads no clock.
//
// Lifecycle: construct; Turn while the scheduler has unfinished requests, with
// Submit, Cancel and TakeFinished in between; it may be given up at any time,
// also with steps in flight, after Flush.
//
// Single-threaded. Nothing allocates after construction, but for errors.

#ifndef TIDEWHEEL_SCHEDULER_STEP_PIPELINE_H_
#define TIDEWHEEL_SCHEDULER_STEP_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/model_runner.h"
#include "scheduler/scheduler.h"

namespace tidewheel {

class StepPipeline {
 public:
  // Both outlive this object. REQUIRES: no step of the scheduler is in flight;
  // nobody else plans, commits or fails while this object is used.
  StepPipeline(Scheduler* scheduler, PipelinedRunner* runner);

  StepPipeline(const StepPipeline&) = delete;
  StepPipeline& operator=(const StepPipeline&) = delete;

  // Launches what there is room for, then applies the oldest result. False if
  // nothing was in flight and nothing could be launched.
  bool Turn(int64_t now_us);

  // Applies the results of all steps in flight and launches none: then requests
  // may be forked.
  void Flush();

  // Of the last step that failed, at launch or later; OK if none has.
  const absl::Status& last_error() const { return last_error_; }

 private:
  struct Flight {
    int64_t step_id = 0;
    int32_t num_seqs = 0;
  };

  bool Launch(int64_t now_us);
  void ApplyOldest();

  Scheduler* scheduler_;
  PipelinedRunner* runner_;
  absl::Status last_error_;
  std::vector<Flight> flights_;   // the oldest first
  std::vector<int32_t> sampled_;  // [max_num_seqs]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_STEP_PIPELINE_H_
