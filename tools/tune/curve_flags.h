// The flags of `tidewheel tune --curve`, and what they mean.
//
//   1. AddCurveFlags before the command line is parsed.
//   2. ResolveCurveFlags after it. Values that contradict each other, and flags
//      that would have no effect, are found here.

#ifndef TIDEWHEEL_TOOLS_TUNE_CURVE_FLAGS_H_
#define TIDEWHEEL_TOOLS_TUNE_CURVE_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/simulate_flags.h"
#include "tools/tune/curve_run.h"
#include "tools/workload_choice.h"

namespace tidewheel {

struct CurveFlags {
  SimulateFlags shared;  // server and workload
  bool curve = false;
  bool timed = false;
  std::vector<int64_t> sizes;
  int32_t verify = 0;
  std::string curve_file;
  std::string result_file;
  std::string report_file;
  bool quiet = false;
};

struct ResolvedCurveFlags {
  WorkloadChoice workload;
  CurveOptions curve;
};

// REQUIRES: flags outlive the command.
void AddCurveFlags(CLI::App& command, CurveFlags& flags);

// `command` says which flags were given.
// Errors: InvalidArgument that names flag, value and remedy.
absl::StatusOr<ResolvedCurveFlags> ResolveCurveFlags(const CLI::App& command,
                                                     const CurveFlags& flags);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_CURVE_FLAGS_H_
