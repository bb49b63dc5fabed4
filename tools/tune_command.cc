#include "tools/tune_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/output_file.h"
#include "tools/report/progress_bar.h"
#include "tools/tune/curve_flags.h"
#include "tools/tune/curve_report.h"
#include "tools/tune/curve_run.h"
#include "tools/tune/tune_flags.h"
#include "tools/tune/tune_page.h"
#include "tools/tune/tune_run.h"
#include "tools/workload_choice.h"

namespace tidewheel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitCurveDeviates = 1;
constexpr int kExitNotWritten = 3;

struct OutputFiles {
  std::optional<OutputFile> curve;
  std::optional<OutputFile> result;
  std::optional<OutputFile> report;
};

// Opened before anything runs, so that a path that can not be written costs
// nothing.
absl::StatusOr<OutputFiles> OpenFiles(const CurveFlags& flags) {
  OutputFiles files;
  if (!flags.curve_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(files.curve, OutputFile::Open(flags.curve_file));
  }
  if (!flags.result_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(files.result,
                               OutputFile::Open(flags.result_file));
  }
  if (!flags.report_file.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(files.report,
                               OutputFile::Open(flags.report_file));
  }
  return files;
}

absl::Status WriteFiles(const CurveRun& run, OutputFiles& files) {
  if (files.curve.has_value()) {
    WriteCurveCsv(run.curve, *files.curve);
    TIDEWHEEL_RETURN_IF_ERROR(files.curve->Close());
  }
  if (files.result.has_value()) {
    files.result->Write(CurveJson(run));
    TIDEWHEEL_RETURN_IF_ERROR(files.result->Close());
  }
  if (files.report.has_value()) {
    WriteCurveReport(run, *files.report);
    TIDEWHEEL_RETURN_IF_ERROR(files.report->Close());
  }
  return absl::OkStatus();
}

// A bar for each simulation that takes a while.
class SimulationBar {
 public:
  explicit SimulationBar(std::FILE* terminal) : terminal_(terminal) {}

  void Update(const SimulationProgress& progress) {
    if (!bar_.has_value()) {
      bar_.emplace(terminal_);
      start_ = Clock::now();
    }
    bar_->Update(progress,
                 std::chrono::duration<double>(Clock::now() - start_).count());
    if (progress.ended_requests < progress.total_requests) return;
    bar_->Clear();
    bar_.reset();
  }

 private:
  std::FILE* terminal_;
  std::optional<ProgressBar> bar_;  // of the simulation that runs
  Clock::time_point start_;
};

int ReportError(const absl::Status& status, int exit_code,
                CommandContext& context) {
  const std::string message(status.message());
  std::fprintf(context.err, "tidewheel tune: %s\n", message.c_str());
  return exit_code;
}

int RunCurve(const CLI::App& command, const CurveFlags& flags,
             CommandContext& context) {
  absl::StatusOr<ResolvedCurveFlags> options =
      ResolveCurveFlags(command, flags);
  if (!options.ok()) {
    return ReportError(options.status(), kExitBadInput, context);
  }
  absl::StatusOr<Trace> trace = LoadWorkload(options->workload);
  if (!trace.ok()) return ReportError(trace.status(), kExitBadInput, context);
  absl::StatusOr<OutputFiles> files = OpenFiles(flags);
  if (!files.ok()) return ReportError(files.status(), kExitBadInput, context);
  std::optional<SimulationBar> bar;
  if (!flags.quiet && isatty(fileno(context.err)) != 0) {
    bar.emplace(context.err);
    options->curve.on_progress = [&bar](const SimulationProgress& progress) {
      bar->Update(progress);
    };
  }
  absl::StatusOr<CurveRun> run = MakeCurve(*std::move(trace), options->curve);
  if (!run.ok()) return ReportError(run.status(), kExitBadInput, context);
  if (!flags.quiet) {
    std::fprintf(context.out, "%s\n", CurveHeader(*run).c_str());
  }
  std::fputs(CurveTable(*run).c_str(), context.out);
  std::fflush(context.out);
  absl::Status status = CheckCurve(options->curve, *run);
  if (!status.ok()) return ReportError(status, kExitNotWritten, context);
  std::fputs(CheckTable(*run).c_str(), context.out);
  status = WriteFiles(*run, *files);
  if (!status.ok()) return ReportError(status, kExitNotWritten, context);
  return run->checks_hold() ? 0 : kExitCurveDeviates;
}

// What the search does not read.
constexpr const char* kCurveFlags[] = {"--timed", "--sizes", "--verify",
                                       "--save-curve"};

absl::Status CheckMode(const CLI::App& command, bool is_curve) {
  if (is_curve) {
    const std::optional<std::string> flag = GivenTuneFlag(command);
    if (!flag.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        *flag,
        " is for the search and has no effect on the curve; leave out "
        "--curve or this flag"));
  }
  for (const char* flag : kCurveFlags) {
    if (command.count(flag) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " is for the curve; give --curve too, or leave it out"));
  }
  return absl::OkStatus();
}

int RunEither(const CLI::App& command, const CurveFlags& curve,
              const TuneFlags& tune, CommandContext& context) {
  const absl::Status status = CheckMode(command, curve.curve);
  if (!status.ok()) return ReportError(status, kExitBadInput, context);
  if (curve.curve) return RunCurve(command, curve, context);
  const absl::StatusOr<ResolvedTuneFlags> resolved =
      ResolveTuneFlags(command, tune, curve.shared);
  if (!resolved.ok()) {
    return ReportError(resolved.status(), kExitBadInput, context);
  }
  return RunTune(*resolved,
                 {.result_file = curve.result_file,
                  .report_file = curve.report_file,
                  .config_file = tune.config_file,
                  .quiet = curve.quiet,
                  .should_stop = {}},
                 context);
}

}  // namespace

CLI::App* AddTuneCommand(CLI::App& parent, CommandContext& context) {
  CLI::App* command = parent.add_subcommand(
      "tune",
      "Find the configuration that keeps a promise, or say what each KV page "
      "buys");
  auto curve = std::make_shared<CurveFlags>();
  auto tune = std::make_shared<TuneFlags>();
  AddTuneFlags(*command, *tune, curve->shared);
  AddCurveFlags(*command, *curve);
  command->footer(
      "Exit code: 0 all is well, 1 no configuration keeps the promise or the "
      "curve deviates from full simulations, 2 the input can not be used, 3 a "
      "result could not be written, 130 ended by ctrl-C after printing the "
      "best so far.");
  command->callback([curve, tune, command, &context] {
    context.exit_code = RunEither(*command, *curve, *tune, context);
  });
  return command;
}

}  // namespace tidewheel
