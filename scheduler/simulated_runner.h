// SimulatedRunner: a ModelRunner that computes nothing and tells how long it
// would have taken.
//
// It executes plans on a virtual clock that a TpuCostModel moves, and writes
// the tokens that each request was registered to generate. It plans nothing,
// and what it knows of a request's true length the scheduler never sees.
//
// Lifecycle:
//   1. Register a request when the scheduler has accepted it.
//   2. Run plans; AdvanceTo where there is nothing to run.
//   3. Forget the request when it has ended.
//
// A token depends on the request and on its position alone, so a sequence that
// is preempted or whose step fails gets the same tokens again.
//
// The clock counts microseconds; what a step takes beyond a whole one is kept
// for the next step, so that rounding does not add up.
//
// Single-threaded. Run is O(rows) and allocates nothing.

#ifndef TIDEWHEEL_SCHEDULER_SIMULATED_RUNNER_H_
#define TIDEWHEEL_SCHEDULER_SIMULATED_RUNNER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "attention/tpu_cost_model.h"
#include "scheduler/model_runner.h"
#include "scheduler/request.h"
#include "scheduler/step_plan.h"

namespace tidewheel {

class SimulatedRunner final : public ModelRunner {
 public:
  // What a request generates: token j is ContentToken(content_id, j), but from
  // token length - 1 on it is end_token, if there is one.
  struct Output {
    uint64_t content_id = 0;
    int32_t prompt_tokens = 0;
    int32_t length = 0;
    std::optional<int32_t> end_token = {};
  };

  // Where the time went.
  struct Totals {
    int64_t steps = 0;
    std::array<int64_t, 3> bound_steps = {};  // by StepBound
    std::array<double, 3> bound_s = {};       // by StepBound
    StepTime parts;                           // sums; `bound` says nothing
  };

  // REQUIRES: max_num_seqs, the rows of the largest plan, is positive.
  SimulatedRunner(const TpuCostModel& cost_model, int32_t max_num_seqs);

  // REQUIRES: the id is not registered; length and prompt_tokens are positive.
  void Register(RequestId id, const Output& output);
  // REQUIRES: the id is registered.
  void Forget(RequestId id);

  // Moves the clock by the time of the step. Never fails.
  // REQUIRES: the plan's requests are registered; it has at most max_num_seqs
  // rows, and `sampled` has them.
  absl::Status Run(const StepPlan& plan, std::span<int32_t> sampled) override;

  int64_t now_us() const { return now_us_; }
  // Lets time pass in which nothing runs. REQUIRES: now_us does not go back.
  void AdvanceTo(int64_t now_us);

  // Of the last step that ran.
  const StepTime& last_step() const { return last_step_; }
  const Totals& totals() const { return totals_; }
  const TpuCostModel& cost_model() const { return cost_model_; }

 private:
  // What a row of the last step generates.
  struct Row {
    uint64_t content_id = 0;
    RequestId request;  // 0: none yet
    int32_t prompt_tokens = 0;
    int32_t end_token = 0;
    int64_t end_kv_len = 0;  // with this many tokens of KV comes the end
  };

  void Account(const StepPlan& plan);
  Row MakeRow(RequestId id) const;

  TpuCostModel cost_model_;
  int64_t now_us_ = 0;
  double remainder_us_ = 0;  // in [0, 1)
  StepTime last_step_;
  Totals totals_;
  absl::flat_hash_map<uint64_t, Output> outputs_;  // by RequestId
  // By row of the plan. In steady decode no row moves and nothing is looked up.
  std::vector<Row> rows_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_SIMULATED_RUNNER_H_
