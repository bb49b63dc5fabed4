// RunReport: one simulation as a page for a browser.

#ifndef TIDEWHEEL_TOOLS_REPORT_RUN_REPORT_H_
#define TIDEWHEEL_TOOLS_REPORT_RUN_REPORT_H_

#include <string>

#include "tools/report/run_series.h"
#include "tools/simulation_run.h"

namespace tidewheel {

// What ran, the figures, charts over time and of latencies, and the arithmetic
// of the pool. Figures are those of ResultTable, written as there.
std::string RunReport(const SimulationRun& run, const RunSeries& series);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_RUN_REPORT_H_
