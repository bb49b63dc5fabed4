// A simulation's figures as JSON, under the names of vLLM's serving benchmark.
//
// One flat object for what is measured, and in it an object `configuration`.
// What has no value (the TPOT of requests of one token) is null. Two runs of
// one configuration and seed differ in wall_seconds and
// speedup_over_real_time alone.

#ifndef TIDEWHEEL_TOOLS_REPORT_RESULT_JSON_H_
#define TIDEWHEEL_TOOLS_REPORT_RESULT_JSON_H_

#include <string>

#include "tools/simulation_run.h"

namespace tidewheel {

// Ends with a newline.
std::string ResultJson(const SimulationRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_RESULT_JSON_H_
