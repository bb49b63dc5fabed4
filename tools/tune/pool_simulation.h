// Full simulations of pools: what a curve of overlapping requests is made
// from, and what curves are compared with.

#ifndef TIDEWHEEL_TOOLS_TUNE_POOL_SIMULATION_H_
#define TIDEWHEEL_TOOLS_TUNE_POOL_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/traces/trace.h"
#include "tools/tune/page_paths.h"
#include "tools/tune/stack_pass.h"

namespace tidewheel {

enum class Concurrency {
  kOneAtATime,  // the next is sent when one has ended
  kAsTheyCome,  // at the trace's times
};

// A trace through a server whose pool has a size of choice. Holds references:
// all members outlive it.
struct PoolSimulation {
  const Trace& trace;
  // Its page size and longest request are set.
  const ServingOptions& serving;
  Concurrency concurrency = Concurrency::kOneAtATime;
  std::function<void(const SimulationProgress&)> on_progress = {};

  // Errors: as PrepareServing and RunSimulation.
  absl::StatusOr<SimulationResult> Run(int64_t total_num_pages) const;
};

// When each request of the trace ran where no page was ever evicted.
// Errors: as PoolSimulation::Run.
absl::StatusOr<std::vector<Residency>> MeasureResidencies(
    const PoolSimulation& simulation, const PagePaths& paths);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_POOL_SIMULATION_H_
