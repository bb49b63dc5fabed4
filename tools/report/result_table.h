// A simulation's figures as text for a terminal: vLLM's serving-benchmark
// block, and in the same form what a simulator knows besides.

#ifndef TIDEWHEEL_TOOLS_REPORT_RESULT_TABLE_H_
#define TIDEWHEEL_TOOLS_REPORT_RESULT_TABLE_H_

#include <string>

#include "tools/simulation_run.h"

namespace tidewheel {

// Its last lines say why requests did not complete, if any.
std::string ResultTable(const SimulationRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_RESULT_TABLE_H_
