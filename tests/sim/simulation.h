// Simulation: a scheduler under a drawn workload and drawn faults, with every
// step compared to models that know nothing of it.
//
// After each plan: CheckInvariants; the kernel's and the strict checks of the
// batch; rows, tokens and totals against NaiveRequests; the page table and row
// moves against EmbedderMirror; what attention would read against KvMemory;
// who was preempted; page counts. After each commit: the tokens of each
// request, the statistics, and who has ended.
//
// First requests arrive and faults happen, for a drawn number of steps. Then
// both stop, and every request must end within a bound.
//
// Up to two steps are in flight. The device runs a step when it is launched and
// finds the tokens that the plan does not know among those that it sampled; the
// scheduler is told later, in time or late, or that the step was lost.
//
// One seed rules all: two simulations of one seed make the same plans.

#ifndef TIDEWHEEL_TESTS_SIM_SIMULATION_H_
#define TIDEWHEEL_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"
#include "tests/sim/draw.h"
#include "tests/sim/embedder_mirror.h"
#include "tests/sim/kv_memory.h"
#include "tests/sim/naive_requests.h"
#include "tests/sim/plan_hash.h"
#include "tests/sim/sim_settings.h"

namespace tidewheel {

class Simulation {
 public:
  Simulation(uint64_t seed, const SimSettings& settings);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Errors: Internal that says in which plan what was wrong.
  absl::Status Run();

  const SchedulerStats& stats() const { return scheduler_->stats(); }
  // Of all plans, and of all that ended.
  uint64_t hash() const { return hash_.value(); }
  int64_t plans() const { return plans_; }

 private:
  absl::Status SafetyPhase();
  absl::Status LivenessPhase();
  // A step that was launched and of which the scheduler has not been told.
  struct Flight {
    StepPlan plan;  // page_indices are void
    bool fails = false;
    std::vector<int32_t> sampled;
    std::vector<int32_t> stays;  // NaiveRequest::stay of each row
  };

  absl::Status Step();
  absl::Status Launch();
  absl::Status AfterPlan(const Scheduler::PlanResult& result,
                         int64_t preemptions_before);
  // The plan with the tokens that the device samples.
  absl::StatusOr<StepPlan> Resolved(const StepPlan& plan);
  absl::Status RunOnDevice(Flight& flight);
  absl::Status FinishOldest();
  absl::Status FailFrom(size_t first);
  absl::Status AfterResult(int64_t step_id);
  absl::Status CheckUntimelyResults();
  absl::Status CheckLateResults(int64_t step_id);
  absl::Status CheckPages() const;
  absl::Status TakeFinished();
  absl::Status Report(const FinishedRequest& finished);

  absl::Status SubmitSome();
  absl::Status SubmitOne();
  int32_t Longest() const;
  absl::Status MaybeCancel();
  absl::Status MaybeFork();
  absl::Status DisturbCache();
  // The plan with the planted bug, where there is one to plant.
  StepPlan Sabotaged(const StepPlan& plan);

  SimSettings settings_;
  Draw draw_;
  std::unique_ptr<Scheduler> scheduler_;
  NaiveRequests requests_;
  EmbedderMirror mirror_;
  KvMemory memory_;
  PlanHash hash_;

  bool faults_ = true;  // and arrivals
  int64_t now_us_ = 0;
  int64_t plans_ = 0;
  std::vector<PageAllocator::Pin> pins_;
  std::deque<Flight> flights_;
  std::vector<int32_t> resolved_ids_;
  std::vector<int32_t> sampled_from_;
  // Copies that a planted bug was put into.
  std::vector<int32_t> changed_rows_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> page_indices_;
  std::vector<uint8_t> wants_logits_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_SIMULATION_H_
