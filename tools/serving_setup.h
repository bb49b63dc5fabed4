// ServingSetup: a server as flags describe it, ready to be simulated.
//
// From a model's and a chip's name and the limits of a server it makes what a
// simulation needs: the ServerPlan (pages, page table), the options of
// allocator and scheduler, and the cost model. What was chosen or changed for
// the user is in `notes`, one sentence each. It runs nothing.

#ifndef TIDEWHEEL_TOOLS_SERVING_SETUP_H_
#define TIDEWHEEL_TOOLS_SERVING_SETUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/tpu_cost_model.h"
#include "scheduler/scheduler.h"
#include "scheduler/simulated_runner.h"
#include "tools/model_config.h"
#include "tools/server_plan.h"

namespace tidewheel {

struct ServingOptions {
  std::string model = "llama-3.1-8b";  // as LoadModelConfig
  std::string chip = "v6e";
  std::string cost_constants_file;  // empty: the defaults
  // Memory and limits. Its chip is set from the name above. A max_model_len
  // that is absent is the model's own, or what the pool holds if that is less.
  // Explicit pages are taken even where the chip's memory has no room for
  // them.
  ServerPlanOptions plan;
  bool prefix_cache = true;
  // Policies; its limits are set from the plan, and its watermark from the
  // fraction of usable pages below.
  SchedulerOptions scheduler;
  double watermark = 0.01;  // in [0, 1)
};

struct ServingSetup {
  ModelConfig model;
  ServerPlanOptions plan_options;
  ServerPlan plan;
  PageAllocator::Options allocator;
  SchedulerOptions scheduler;
  TpuCostModel cost_model;
  std::vector<std::string> notes;

  // Errors: InvalidArgument, as PageAllocator and Scheduler.
  absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler() const;
  SimulatedRunner MakeRunner() const {
    return {cost_model, scheduler.max_num_seqs};
  }
};

// Errors: InvalidArgument or NotFound that names value, limit and remedy;
// those of LoadModelConfig, PlanServer, ReadCostConstants and TpuCostModel.
absl::StatusOr<ServingSetup> PrepareServing(const ServingOptions& options);

// "fcfs", "priority"; "reserve", "optimistic".
absl::string_view OrderingPolicyName(OrderingPolicy policy);
absl::string_view AdmissionPolicyName(AdmissionPolicy policy);
// Errors: InvalidArgument that lists the names.
absl::StatusOr<OrderingPolicy> ParseOrderingPolicy(absl::string_view name);
absl::StatusOr<AdmissionPolicy> ParseAdmissionPolicy(absl::string_view name);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SERVING_SETUP_H_
