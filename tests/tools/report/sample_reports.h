// Pages as the command writes them, of small inputs, for tests that read them.

#ifndef TIDEWHEEL_TESTS_TOOLS_REPORT_SAMPLE_REPORTS_H_
#define TIDEWHEEL_TESTS_TOOLS_REPORT_SAMPLE_REPORTS_H_

#include <string>

#include "tools/simulation_run.h"
#include "tools/tune/curve_run.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

struct SampleRun {
  SimulationRun run;
  std::string page;
};

// Forty requests on a pool that is too small for all of them; ten are refused.
SampleRun MakeSampleRun(const std::string& trace_name);

// A curve of some hundred requests that share prefixes.
CurveRun MakeSampleCurve(const std::string& trace_name);

// What a search might find: every field that a report shows has a value.
TuneResult MakeSampleResult(const std::string& workload);

std::string TunePage(const TuneResult& result, const CurveRun* curve);
std::string CurvePage(const CurveRun& run);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_REPORT_SAMPLE_REPORTS_H_
