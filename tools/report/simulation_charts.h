// The charts of one simulation.

#ifndef TIDEWHEEL_TOOLS_REPORT_SIMULATION_CHARTS_H_
#define TIDEWHEEL_TOOLS_REPORT_SIMULATION_CHARTS_H_

#include <vector>

#include "tools/report/chart.h"
#include "tools/report/run_series.h"
#include "tools/simulation_run.h"

namespace tidewheel {

// Throughput, queue and pages over time. The pool's bounds are the run's.
std::vector<Chart> TimeCharts(const RunSeries& series);

// The share of requests, or of gaps, below each latency: TTFT, TPOT, ITL and
// E2EL, with the percentiles and the bounds that were asked for.
std::vector<Chart> LatencyCharts(const SimulationRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_SIMULATION_CHARTS_H_
