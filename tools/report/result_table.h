// A simulation's figures as text for a terminal: vLLM's serving-benchmark
// block, and in the same form what a simulator knows besides.

#ifndef TIDEWHEEL_TOOLS_REPORT_RESULT_TABLE_H_
#define TIDEWHEEL_TOOLS_REPORT_RESULT_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/simulation_run.h"

namespace tidewheel {

// Lines that belong together: what each is of, with its unit, and its value.
struct ResultSection {
  std::string title;
  std::vector<std::pair<std::string, std::string>> lines;
};

// Why requests did not complete, a sentence each; empty if all did.
std::vector<std::string> ResultWarnings(const SimulationRun& run);

std::vector<ResultSection> ResultSections(const SimulationRun& run);

// Its last lines say why requests did not complete, if any.
std::string ResultTable(const SimulationRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_RESULT_TABLE_H_
