// The check of the built-in workload's options.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_BUILTIN_OPTIONS_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_BUILTIN_OPTIONS_H_

#include "absl/status/status.h"
#include "tools/workload/builtin_workload.h"
#include "tools/workload/length_distribution.h"

namespace tidewheel {

// The three lengths that a workload draws.
struct BuiltinLengths {
  LengthDistribution prompt;
  LengthDistribution output;
  LengthDistribution turn;  // new tokens of a later turn
};

// OK if a workload can be drawn with these options.
// Errors: InvalidArgument, naming option, value, limit and remedy.
absl::Status CheckBuiltinOptions(const BuiltinWorkloadOptions& options);

// REQUIRES: CheckBuiltinOptions(options) is OK.
BuiltinLengths LengthsOf(const BuiltinWorkloadOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_BUILTIN_OPTIONS_H_
