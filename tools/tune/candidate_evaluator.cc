#include "tools/tune/candidate_evaluator.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "allocator/status_macros.h"
#include "tools/cost_constants_file.h"

namespace tidewheel {
namespace {

// White's limit for what is drawn and goes on the same way; a trace is what it
// is, and only its first tenth can be blamed on the start.
constexpr double kDrawnWarmUp = 0.5;
constexpr double kTraceWarmUp = 0.1;

// Time of steps in which requests wait, by what the first of them lacked.
class WaitClock {
 public:
  explicit WaitClock(const Scheduler& scheduler) : scheduler_(scheduler) {}

  void Add(const StepRecord& step) {
    const double us = static_cast<double>(step.end_us - step.start_us);
    busy_us_ += us;
    if (step.num_waiting == 0) return;
    switch (scheduler_.head_of_queue().reason) {
      case WaitReason::kRows:
        rows_us_ += us;
        break;
      case WaitReason::kTokens:
        tokens_us_ += us;
        break;
      case WaitReason::kPages:
      case WaitReason::kProtected:
      case WaitReason::kPreempted:
      case WaitReason::kPreempting:
        pages_us_ += us;
        break;
      case WaitReason::kNotTried:
      case WaitReason::kBehind:
      case WaitReason::kFailures:
        break;
    }
  }

  void Report(LoadOutcome& counts) const {
    if (busy_us_ <= 0) return;
    counts.waited_for_rows = rows_us_ / busy_us_;
    counts.waited_for_pages = pages_us_ / busy_us_;
    counts.waited_for_tokens = tokens_us_ / busy_us_;
  }

 private:
  const Scheduler& scheduler_;
  double busy_us_ = 0;
  double rows_us_ = 0;
  double pages_us_ = 0;
  double tokens_us_ = 0;
};

// The cost model of `setup` with one constant multiplied, within its range.
absl::Status ScaleCostConstant(const ServingOptions& serving,
                               const ConstantChange& change,
                               ServingSetup& setup) {
  TpuCostModel::Options cost;
  cost.chips = setup.plan_options.chips;
  cost.kv_dtype = setup.plan_options.kv_dtype;
  cost.max_num_batched_tokens = setup.plan.max_num_batched_tokens;
  if (!serving.cost_constants_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(cost.constants,
                               ReadCostConstants(serving.cost_constants_file));
  }
  for (const TpuCostConstantEntry& entry : TpuCostConstantTable()) {
    if (entry.field != change.field) continue;
    double& value = cost.constants.*change.field;
    value = std::clamp(value * change.factor, entry.min, entry.max);
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      setup.cost_model,
      TpuCostModel::Create(setup.model.shape, setup.plan_options.chip, cost));
  return absl::OkStatus();
}

}  // namespace

ServingOptions CandidateEvaluator::ServingFor(const Load& load) const {
  ServingOptions serving = options_.serving;
  const double factor = std::max(load.prompt_factor, load.output_factor);
  if (!options_.max_model_len_follows_traffic || factor <= 1) return serving;
  // Both lengths of a request are rounded, together up by one at most.
  serving.plan.max_model_len =
      static_cast<int32_t>(
          std::ceil(factor * serving.plan.max_model_len.value())) +
      1;
  return serving;
}

absl::StatusOr<RunSample> CandidateEvaluator::Run(
    const Candidate& candidate, const Load& load,
    const ConstantChange& change) const {
  TIDEWHEEL_ASSIGN_OR_RETURN(const Trace trace, traffic_.Make(load));
  ServingOptions serving = ServingOf(candidate, ServingFor(load));
  serving.scheduler.max_waiting =
      std::max(static_cast<int32_t>(trace.requests.size()), 1);
  TIDEWHEEL_ASSIGN_OR_RETURN(ServingSetup setup, PrepareServing(serving));
  if (change.field != nullptr) {
    TIDEWHEEL_RETURN_IF_ERROR(ScaleCostConstant(serving, change, setup));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(std::unique_ptr<Scheduler> scheduler,
                             setup.MakeScheduler());
  SimulatedRunner runner = setup.MakeRunner();
  WaitClock waits(*scheduler);
  SimulationOptions simulation;
  simulation.max_concurrency = options_.max_concurrency;
  simulation.declared = options_.declared;
  simulation.should_stop = options_.should_stop;
  simulation.on_step = [&waits](const StepRecord& step) { waits.Add(step); };
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const SimulationResult result,
      RunSimulation(trace, simulation, *scheduler, runner));
  ++runs_;
  simulated_requests_ += static_cast<int64_t>(trace.requests.size());
  RunSample sample = MakeSample(
      result, {.promise = options_.promise,
               .max_warm_up =
                   traffic_.replications() > 1 ? kDrawnWarmUp : kTraceWarmUp});
  sample.counts.candidate = candidate;
  sample.counts.request_rate = load.request_rate;
  waits.Report(sample.counts);
  return sample;
}

absl::StatusOr<std::vector<RunSample>> CandidateEvaluator::RunReplications(
    const Candidate& candidate, const Load& load, int32_t replications,
    const ConstantChange& change) const {
  std::vector<RunSample> samples;
  for (int32_t k = 0; k < replications; ++k) {
    Load one = load;
    one.replication = k;
    TIDEWHEEL_ASSIGN_OR_RETURN(RunSample sample, Run(candidate, one, change));
    samples.push_back(std::move(sample));
  }
  return samples;
}

void FollowTraffic(const Traffic& traffic,
                   CandidateEvaluator::Options& options) {
  if (options.serving.plan.max_model_len.has_value()) return;
  options.serving.plan.max_model_len = traffic.longest_request_tokens();
  options.max_model_len_follows_traffic = true;
}

}  // namespace tidewheel
