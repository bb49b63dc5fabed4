// The flags of `tidewheel simulate`, and what they mean.
//
//   1. AddSimulateFlags before the command line is parsed.
//   2. ResolveSimulateFlags after it: from texts and numbers to what a run is
//      made of. Values that contradict each other are found here; ranges are
//      checked where the values are used.
//
// Names follow vLLM's serving benchmark where it has one.

#ifndef TIDEWHEEL_TOOLS_SIMULATE_FLAGS_H_
#define TIDEWHEEL_TOOLS_SIMULATE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/report/serving_metrics.h"
#include "tools/report/timeline_requests.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/simulation_run.h"
#include "tools/workload_choice.h"

namespace CLI {
class App;
}

namespace tidewheel {

// As given. Absent is what has another default than a number.
struct SimulateFlags {
  std::string config_file;  // tidewheel.json; flags given beside it win
  ServingOptions serving;
  std::string kv_dtype = "auto";
  std::string policy = "fcfs";
  std::string admission = "optimistic";
  bool no_prefix_cache = false;
  bool no_chunked_prefill = false;
  bool no_smem_limit = false;
  std::optional<int32_t> max_prefill_chunk;
  std::optional<int32_t> max_waiting;

  WorkloadChoice workload;
  std::string trace_format = "detect";
  bool skip_zero_lengths = false;
  std::optional<int32_t> input_len;
  std::optional<int32_t> output_len;
  std::optional<double> range_ratio;
  std::vector<std::string> given_builtin_flags;  // for errors

  std::optional<int32_t> max_concurrency;
  std::string declared;

  std::vector<std::string> goodput;
  std::string percentile_metrics = "ttft,tpot,itl,e2el";
  std::string metric_percentiles = "99";

  std::string result_file;
  std::string request_file;
  std::string step_file;
  std::string timeline_file;
  std::string timeline_requests;
  std::string report_file;
  bool quiet = false;
};

struct SimulateOptions {
  ServingOptions serving;
  bool has_max_waiting = false;  // else: as many as the trace has requests
  WorkloadChoice workload;
  SimulationOptions simulation;
  MetricsOptions metrics;
  ShownMetrics shown;
  std::string result_file;
  std::string request_file;
  std::string step_file;
  std::string timeline_file;
  TimelineRequests timeline_requests;
  std::string report_file;
  bool quiet = false;
};

// REQUIRES: flags outlive the command.
void AddSimulateFlags(CLI::App& command, SimulateFlags& flags);
// The parts of it that other subcommands have too: model, chips and limits; a
// trace or the built-in workload.
void AddServerFlags(CLI::App& command, SimulateFlags& flags);
void AddWorkloadFlags(CLI::App& command, SimulateFlags& flags);

// These parts resolved into their fields of `options`.
// Errors: InvalidArgument that names flag, value and remedy.
absl::Status ResolveServer(const SimulateFlags& flags,
                           SimulateOptions& options);
absl::Status ResolveWorkload(const SimulateFlags& flags,
                             SimulateOptions& options);

// Errors: InvalidArgument that names flag, value and remedy.
absl::StatusOr<SimulateOptions> ResolveSimulateFlags(
    const SimulateFlags& flags);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SIMULATE_FLAGS_H_
