// What a simulation is about to run, as text for a terminal.

#ifndef TIDEWHEEL_TOOLS_REPORT_RUN_HEADER_H_
#define TIDEWHEEL_TOOLS_REPORT_RUN_HEADER_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/simulation_run.h"

namespace tidewheel {

// Labels, of which several may be "Note", and what they say.
std::vector<std::pair<std::string, std::string>> RunHeaderLines(
    const SimulationRun& run);

// Model, chips, pool, limits, policy, workload, notes; needs no result.
std::string RunHeader(const SimulationRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_RUN_HEADER_H_
