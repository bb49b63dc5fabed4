// SimulationRun: one run with all that its reports show.

#ifndef TIDEWHEEL_TOOLS_SIMULATION_RUN_H_
#define TIDEWHEEL_TOOLS_SIMULATION_RUN_H_

#include <string>
#include <vector>

#include "tools/report/serving_metrics.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/simulation_result.h"
#include "tools/traces/trace.h"
#include "tools/workload_choice.h"

namespace tidewheel {

// Which of the four latencies a report shows.
struct ShownMetrics {
  bool ttft = true;
  bool tpot = true;
  bool itl = true;
  bool e2el = true;
};

struct SimulationRun {
  ServingSetup setup;
  WorkloadChoice workload;
  Trace trace;
  SimulationOptions simulation;
  MetricsOptions metrics_options;
  ShownMetrics shown;

  SimulationResult result;
  ServingMetrics metrics;
  double wall_seconds = 0;  // of the simulation, without reading and reports

  bool all_completed() const { return metrics.not_completed == 0; }
  double speedup() const {
    return wall_seconds > 0 ? metrics.duration_s / wall_seconds : 0;
  }
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SIMULATION_RUN_H_
