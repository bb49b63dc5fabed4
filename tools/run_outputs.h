// RunOutputs: the files that one simulation writes.
//
// Lifecycle:
//   1. Open, before the run, so that a path that can not be written costs none.
//   2. Observe, which adds what files need of the run to its options.
//   3. Write, after the run.
//
// Single-threaded.

#ifndef TIDEWHEEL_TOOLS_RUN_OUTPUTS_H_
#define TIDEWHEEL_TOOLS_RUN_OUTPUTS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"
#include "tools/output_file.h"
#include "tools/report/run_series.h"
#include "tools/report/timeline.h"
#include "tools/simulate_flags.h"
#include "tools/simulation_run.h"

namespace tidewheel {

class RunOutputs {
 public:
  // Errors: those of OutputFile::Open; InvalidArgument if the requests chosen
  // for the timeline are none of the trace's.
  static absl::StatusOr<std::unique_ptr<RunOutputs>> Open(
      const SimulateOptions& options, const Trace& trace);

  RunOutputs(const RunOutputs&) = delete;
  RunOutputs& operator=(const RunOutputs&) = delete;

  // REQUIRES: called once; this, trace and scheduler outlive the run.
  void Observe(const Trace& trace, const Scheduler& scheduler,
               SimulationOptions& simulation);

  // What a user should know of the files, a line each; may be empty.
  std::string Notes(const Trace& trace) const;

  // Writes and closes all files; the clock stands at now_us.
  // Errors: those of OutputFile::Close.
  absl::Status Write(const SimulationRun& run, int64_t now_us);

 private:
  RunOutputs() = default;

  std::optional<OutputFile> result_;
  std::optional<OutputFile> requests_;
  std::optional<OutputFile> steps_;
  std::optional<OutputFile> timeline_file_;
  TimelineRequests timeline_requests_;
  std::optional<Timeline> timeline_;
  std::optional<OutputFile> report_;
  RunSeries series_;  // for the report
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_RUN_OUTPUTS_H_
