#include "tools/tune/tune_run.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/status_macros.h"
#include "tools/output_file.h"
#include "tools/report/progress_bar.h"
#include "tools/server_config_file.h"
#include "tools/tune/curve_run.h"
#include "tools/tune/interrupt.h"
#include "tools/tune/traffic.h"
#include "tools/tune/tune_json.h"
#include "tools/tune/tune_page.h"
#include "tools/tune/tune_report_text.h"
#include "tools/tune/tune_search.h"

namespace tidewheel {
namespace {

using Clock = std::chrono::steady_clock;

struct Files {
  std::optional<OutputFile> result;
  std::optional<OutputFile> config;
  std::optional<OutputFile> report;
};

absl::StatusOr<Files> OpenFiles(const TuneOutputs& outputs) {
  Files files;
  if (!outputs.result_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(files.result,
                               OutputFile::Open(outputs.result_file));
  }
  if (!outputs.config_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(files.config,
                               OutputFile::Open(outputs.config_file));
  }
  if (!outputs.report_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(files.report,
                               OutputFile::Open(outputs.report_file));
  }
  return files;
}

// What the recommended server's pages buy, for the report; nothing where there
// is none, or no curve of its requests.
std::optional<CurveRun> CurveOf(const TuneResult& result,
                                const Traffic& traffic) {
  if (result.recommended < 0) return std::nullopt;
  CurveOptions options;
  options.serving = ServingOf(
      result.candidates[static_cast<size_t>(result.recommended)].candidate,
      result.serving);
  options.has_server = true;
  absl::StatusOr<CurveRun> curve = MakeCurve(traffic.trace(), options);
  if (!curve.ok()) return std::nullopt;
  return *std::move(curve);
}

absl::Status WriteReport(const TuneResult& result, const Traffic& traffic,
                         OutputFile& file) {
  const std::optional<CurveRun> curve = CurveOf(result, traffic);
  WriteTuneReport(result, curve.has_value() ? &*curve : nullptr, file);
  return file.Close();
}

absl::Status WriteFiles(const TuneResult& result, const Traffic& traffic,
                        Files& files) {
  if (files.result.has_value()) {
    files.result->Write(TuneJson(result));
    TIDEWHEEL_RETURN_IF_ERROR(files.result->Close());
  }
  if (files.config.has_value()) {
    if (result.setup.has_value()) {
      files.config->Write(ServerConfigJson(
          ConfigOf(*result.setup, result.serving.model, result.serving.chip)));
    }
    TIDEWHEEL_RETURN_IF_ERROR(files.config->Close());
  }
  if (files.report.has_value()) {
    TIDEWHEEL_RETURN_IF_ERROR(WriteReport(result, traffic, *files.report));
  }
  return absl::OkStatus();
}

int Report(const absl::Status& status, int exit_code, CommandContext& context) {
  const std::string message(status.message());
  std::fprintf(context.err, "tidewheel tune: %s\n", message.c_str());
  return exit_code;
}

absl::Status SetSpace(const ResolvedTuneFlags& flags, const Traffic& traffic,
                      TuneOptions& options) {
  if (flags.has_space) return absl::OkStatus();
  TIDEWHEEL_ASSIGN_OR_RETURN(
      options.space,
      DefaultSpace(options.server.serving, traffic, options.objective));
  LeaveAlone(flags.pinned, options.space);
  return absl::OkStatus();
}

double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

int RunTune(const ResolvedTuneFlags& flags, const TuneOutputs& outputs,
            CommandContext& context) {
  const InterruptWatch watch;
  const Clock::time_point start = Clock::now();
  const double cpu_start = CpuSeconds();
  const absl::StatusOr<Traffic> traffic =
      Traffic::Create(flags.workload, flags.replications);
  if (!traffic.ok()) return Report(traffic.status(), kExitBadInput, context);
  TuneOptions options = flags.options;
  FollowTraffic(*traffic, options.server);
  absl::Status status = SetSpace(flags, *traffic, options);
  if (!status.ok()) return Report(status, kExitBadInput, context);
  absl::StatusOr<Files> files = OpenFiles(outputs);
  if (!files.ok()) return Report(files.status(), kExitBadInput, context);
  if (!outputs.quiet) {
    std::fputs(TuneHeader(options, *traffic).c_str(), context.out);
    std::fflush(context.out);
  }
  options.should_stop = [&outputs] {
    return InterruptWatch::requested() ||
           (outputs.should_stop && outputs.should_stop());
  };
  const auto elapsed = [start] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::optional<ProgressBar> bar;
  if (!outputs.quiet && isatty(fileno(context.err)) != 0) {
    bar.emplace(context.err);
    options.on_progress = [&](const SimulationProgress& progress) {
      bar->Update(progress, elapsed());
    };
  }
  absl::StatusOr<TuneResult> result = RunTuneSearch(options, *traffic);
  if (bar.has_value()) bar->Clear();
  if (!result.ok()) {
    const bool is_input = absl::IsInvalidArgument(result.status()) ||
                          absl::IsNotFound(result.status());
    return Report(result.status(), is_input ? kExitBadInput : kExitTuneFailed,
                  context);
  }
  result->wall_seconds = elapsed();
  result->cpu_seconds = CpuSeconds() - cpu_start;
  std::fputs(TuneReportText(*result).c_str(), context.out);
  status = WriteFiles(*result, *traffic, *files);
  if (!status.ok()) return Report(status, kExitTuneFailed, context);
  if (result->interrupted) return kExitInterrupted;
  return result->attainable ? 0 : kExitPromiseNotKept;
}

}  // namespace tidewheel
