#include "scheduler/step_pipeline.h"

#include <span>

#include "allocator/check.h"

namespace tidewheel {

StepPipeline::StepPipeline(Scheduler* scheduler, PipelinedRunner* runner)
    : scheduler_(scheduler), runner_(runner) {
  TIDEWHEEL_CHECK_EQ(scheduler->num_steps_in_flight(), 0);
  flights_.reserve(
      static_cast<size_t>(scheduler->options().max_steps_in_flight));
  sampled_.resize(static_cast<size_t>(scheduler->options().max_num_seqs));
}

bool StepPipeline::Turn(int64_t now_us) {
  const size_t limit =
      static_cast<size_t>(scheduler_->options().max_steps_in_flight);
  bool launched = false;
  while (flights_.size() < limit && Launch(now_us)) launched = true;
  if (flights_.empty()) return launched;
  ApplyOldest();
  return true;
}

void StepPipeline::Flush() {
  while (!flights_.empty()) ApplyOldest();
}

// False where nothing more is to be launched now.
bool StepPipeline::Launch(int64_t now_us) {
  const StepPlan* plan = scheduler_->Plan(now_us).step;
  if (plan == nullptr) return false;
  const Flight flight = {plan->step_id, plan->batch.num_seqs};
  const absl::Status status = runner_->Launch(*plan);
  if (status.ok()) {
    flights_.push_back(flight);
    return true;
  }
  last_error_ = status;
  TIDEWHEEL_CHECK(scheduler_->Fail(flight.step_id).ok());
  // It is tried again, in pieces; not now if others are in flight.
  return flights_.empty();
}

void StepPipeline::ApplyOldest() {
  const Flight oldest = flights_.front();
  const std::span<int32_t> sampled =
      std::span(sampled_).first(static_cast<size_t>(oldest.num_seqs));
  const absl::Status status = runner_->Await(oldest.step_id, sampled);
  if (status.ok()) {
    flights_.erase(flights_.begin());
    TIDEWHEEL_CHECK(scheduler_->Commit(oldest.step_id, sampled).ok());
    return;
  }
  last_error_ = status;
  for (size_t i = 1; i < flights_.size(); ++i) {
    runner_->Drop(flights_[i].step_id);
  }
  flights_.clear();
  TIDEWHEEL_CHECK(scheduler_->Fail(oldest.step_id).ok());
}

}  // namespace tidewheel
