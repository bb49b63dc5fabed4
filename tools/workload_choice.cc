#include "tools/workload_choice.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/traces/trace_reader.h"
#include "tools/workload/trace_retiming.h"

namespace tidewheel {
namespace {

absl::StatusOr<Trace> LoadFile(const WorkloadChoice& choice) {
  if (choice.burstiness.has_value() && !choice.request_rate.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "burstiness ", *choice.burstiness,
        " needs a request rate, since the trace has its own arrivals; give "
        "both or neither"));
  }
  TraceReadOptions read = choice.read;
  read.max_requests = choice.num_prompts.value_or(0);
  TIDEWHEEL_ASSIGN_OR_RETURN(Trace trace, ReadTrace(choice.trace_file, read));
  if (choice.request_rate.has_value() || choice.time_scale != 1) {
    RetimeOptions retime;
    retime.request_rate = choice.request_rate;
    retime.burstiness = choice.burstiness.value_or(1);
    retime.seed = choice.seed;
    retime.time_scale = choice.time_scale;
    TIDEWHEEL_RETURN_IF_ERROR(RetimeTrace(retime, trace));
  }
  return trace;
}

absl::StatusOr<Trace> Generate(const WorkloadChoice& choice) {
  if (choice.time_scale != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "time scale ", choice.time_scale,
        " is for the times of a trace; give a request rate instead"));
  }
  BuiltinWorkloadOptions builtin = choice.builtin;
  builtin.seed = choice.seed;
  builtin.num_requests = choice.num_prompts.value_or(builtin.num_requests);
  builtin.request_rate = choice.request_rate.value_or(builtin.request_rate);
  builtin.burstiness = choice.burstiness.value_or(builtin.burstiness);
  return GenerateBuiltinWorkload(builtin);
}

}  // namespace

absl::StatusOr<Trace> LoadWorkload(const WorkloadChoice& choice) {
  if (choice.num_prompts.has_value() && *choice.num_prompts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_prompts ", *choice.num_prompts,
                     " is below 1; give at least 1, or leave it out"));
  }
  return choice.trace_file.empty() ? Generate(choice) : LoadFile(choice);
}

}  // namespace tidewheel
