// The flags of `tidewheel tune` without --curve, and what they mean.
//
//   1. AddTuneFlags before the command line is parsed; server, workload,
//      --save-result, --report and --quiet are added by the curve's flags,
//      which the command has too.
//   2. ResolveTuneFlags after it.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_FLAGS_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/simulate_flags.h"
#include "tools/tune/tune_options.h"
#include "tools/workload_choice.h"

namespace tidewheel {

struct TuneFlags {
  std::vector<std::string> goodput;
  double percentile = 99;
  std::string space_file;
  std::string minimize;  // "", "pages" or "chips"
  std::optional<int32_t> threads;
  int32_t replications = 5;
  std::string config_file;  // --output
};

struct ResolvedTuneFlags {
  WorkloadChoice workload;
  int32_t replications = 1;
  TuneOptions options;  // without space, where that is to be the default one
  bool has_space = false;
  // Knobs whose flags were given: the default space leaves them alone.
  std::vector<Knob> pinned;
};

// `shared` takes policies and client flags; those of server and workload are
// its other fields. REQUIRES: both outlive the command.
void AddTuneFlags(CLI::App& command, TuneFlags& flags, SimulateFlags& shared);

// The first flag of AddTuneFlags that was given; nothing if none was.
std::optional<std::string> GivenTuneFlag(const CLI::App& command);

// `command` says which flags were given.
// Errors: InvalidArgument that names flag, value and remedy; those of
// ReadSpaceFile.
absl::StatusOr<ResolvedTuneFlags> ResolveTuneFlags(const CLI::App& command,
                                                   const TuneFlags& flags,
                                                   const SimulateFlags& shared);

// `space` without the knobs in `pinned`.
void LeaveAlone(const std::vector<Knob>& pinned, SearchSpace& space);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_FLAGS_H_
