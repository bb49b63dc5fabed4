// From flags to the trace that a simulation replays: a file, or the built-in
// workload, in either case with other arrivals if asked for.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_CHOICE_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/traces/trace.h"
#include "tools/traces/trace_read_options.h"
#include "tools/workload/builtin_workload.h"

namespace tidewheel {

struct WorkloadChoice {
  std::string trace_file;  // empty: the built-in workload
  TraceReadOptions read;
  // Lengths, prefixes and sessions; what is below goes before its own fields.
  BuiltinWorkloadOptions builtin;
  // Absent: all of a trace; the built-in workload's default.
  std::optional<int64_t> num_prompts;
  // Absent: a trace's own times; the built-in workload's default.
  std::optional<double> request_rate;
  std::optional<double> burstiness;  // needs request_rate where there is a file
  double time_scale = 1;             // of a trace's own times
  uint64_t seed = 0;
};

// Errors: InvalidArgument for values out of range or that contradict each
// other; those of ReadTrace, GenerateBuiltinWorkload and RetimeTrace.
absl::StatusOr<Trace> LoadWorkload(const WorkloadChoice& choice);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_CHOICE_H_
