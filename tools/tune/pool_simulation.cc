#include "tools/tune/pool_simulation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {

absl::StatusOr<SimulationResult> PoolSimulation::Run(
    int64_t total_num_pages) const {
  ServingOptions options = serving;
  options.plan.total_num_pages = total_num_pages;
  options.scheduler.max_waiting =
      std::max(static_cast<int32_t>(trace.requests.size()), 1);
  SimulationOptions simulation;
  simulation.on_progress = on_progress;
  if (concurrency == Concurrency::kOneAtATime) {
    // Hits do not depend on the page table, so its memory does not matter.
    options.plan.max_num_seqs = 1;
    options.plan.smem_bytes.reset();
    simulation.max_concurrency = 1;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const ServingSetup setup, PrepareServing(options));
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::unique_ptr<Scheduler> scheduler,
                             setup.MakeScheduler());
  SimulatedRunner runner = setup.MakeRunner();
  return RunSimulation(trace, simulation, *scheduler, runner);
}

absl::StatusOr<std::vector<Residency>> MeasureResidencies(
    const PoolSimulation& simulation, const PagePaths& paths) {
  // Every page that is ever published, and as many again as sequences can hold
  // before they publish them.
  int64_t longest = 0;
  for (const PagePaths::Request& request : paths.requests) {
    longest = std::max<int64_t>(longest, request.num_taken);
  }
  const int64_t sequences =
      std::min<int64_t>(simulation.serving.plan.max_num_seqs,
                        static_cast<int64_t>(paths.requests.size()));
  const int64_t enough = paths.num_ids + sequences * longest + 1;
  TIDEWHEEL_ASSIGN_OR_RETURN(const SimulationResult result,
                             simulation.Run(enough));
  TIDEWHEEL_CHECK_EQ(result.pages_evicted, 0);
  std::vector<Residency> residencies;
  residencies.reserve(result.requests.size());
  for (const RequestRecord& record : result.requests) {
    Residency& residency = residencies.emplace_back();
    if (record.state != RequestRecord::State::kEnded) continue;
    residency = {record.admitted_us, record.ended_us,
                 record.cached_tokens / paths.page_size};
  }
  return residencies;
}

}  // namespace tidewheel
