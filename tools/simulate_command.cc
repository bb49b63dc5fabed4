#include "tools/simulate_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
#include "tools/report/progress_bar.h"
#include "tools/report/result_table.h"
#include "tools/report/run_header.h"
#include "tools/run_outputs.h"
#include "tools/server_config_file.h"
#include "tools/simulate_flags.h"
#include "tools/simulation_run.h"

namespace tidewheel {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A run with everything but its result.
absl::StatusOr<SimulationRun> PrepareRun(const SimulateOptions& options) {
  TIDEWHEEL_ASSIGN_OR_RETURN(Trace trace, LoadWorkload(options.workload));
  ServingOptions serving = options.serving;
  if (!options.has_max_waiting) {
    serving.scheduler.max_waiting =
        std::max(static_cast<int32_t>(trace.requests.size()), 1);
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(ServingSetup setup, PrepareServing(serving));
  if (serving.scheduler.policy == OrderingPolicy::kPriority) {
    setup.notes.push_back(
        "no workload gives its requests priorities yet: the priority policy "
        "runs them by arrival");
  }
  return SimulationRun{.setup = std::move(setup),
                       .workload = options.workload,
                       .trace = std::move(trace),
                       .simulation = options.simulation,
                       .metrics_options = options.metrics,
                       .shown = options.shown,
                       .result = {},
                       .metrics = {}};
}

absl::Status Simulate(Scheduler& scheduler, SimulatedRunner& runner,
                      RunOutputs& outputs, std::FILE* terminal,
                      SimulationRun& run) {
  SimulationOptions simulation = run.simulation;
  outputs.Observe(run.trace, scheduler, simulation);
  const Clock::time_point start = Clock::now();
  std::optional<ProgressBar> bar;
  if (terminal != nullptr) {
    bar.emplace(terminal);
    simulation.on_progress = [&](const SimulationProgress& progress) {
      bar->Update(progress, SecondsSince(start));
    };
  }
  absl::StatusOr<SimulationResult> result =
      RunSimulation(run.trace, simulation, scheduler, runner);
  if (bar.has_value()) bar->Clear();
  TIDEWHEEL_RETURN_IF_ERROR(result.status());
  run.result = *std::move(result);
  run.metrics = ComputeMetrics(run.result, run.metrics_options);
  run.wall_seconds = SecondsSince(start);
  return absl::OkStatus();
}

int ReportError(const absl::Status& status, int exit_code,
                CommandContext& context) {
  const std::string message(status.message());
  std::fprintf(context.err, "tidewheel simulate: %s\n", message.c_str());
  return exit_code;
}

// Flags that were not given, from the file that --config names.
absl::Status ReadConfig(const CLI::App& command, SimulateFlags& flags) {
  if (flags.config_file.empty()) return absl::OkStatus();
  TIDEWHEEL_ASSIGN_OR_RETURN(const ServerConfig config,
                             ReadServerConfig(flags.config_file));
  ApplyServerConfig(
      config, [&command](const char* flag) { return command.count(flag) > 0; },
      flags);
  return absl::OkStatus();
}

int RunSimulate(const CLI::App& command, SimulateFlags flags,
                CommandContext& context) {
  if (const absl::Status status = ReadConfig(command, flags); !status.ok()) {
    return ReportError(status, kExitBadInput, context);
  }
  const absl::StatusOr<SimulateOptions> options = ResolveSimulateFlags(flags);
  if (!options.ok()) {
    return ReportError(options.status(), kExitBadInput, context);
  }
  absl::StatusOr<SimulationRun> run = PrepareRun(*options);
  if (!run.ok()) return ReportError(run.status(), kExitBadInput, context);
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      run->setup.MakeScheduler();
  if (!scheduler.ok()) {
    return ReportError(scheduler.status(), kExitBadInput, context);
  }
  const absl::StatusOr<std::unique_ptr<RunOutputs>> outputs =
      RunOutputs::Open(*options, run->trace);
  if (!outputs.ok()) {
    return ReportError(outputs.status(), kExitBadInput, context);
  }

  if (!options->quiet) {
    std::fprintf(context.out, "%s\n", RunHeader(*run).c_str());
    std::fflush(context.out);
  }
  const bool show_bar = !options->quiet && isatty(fileno(context.err)) != 0;
  SimulatedRunner runner = run->setup.MakeRunner();
  absl::Status status = Simulate(**scheduler, runner, **outputs,
                                 show_bar ? context.err : nullptr, *run);
  if (!status.ok()) return ReportError(status, kExitFailure, context);
  std::fputs(ResultTable(*run).c_str(), context.out);
  if (!options->quiet) {
    std::fputs((*outputs)->Notes(run->trace).c_str(), context.out);
  }
  status = (*outputs)->Write(*run, runner.now_us());
  if (!status.ok()) return ReportError(status, kExitFailure, context);
  return run->all_completed() ? 0 : kExitNotAllCompleted;
}

}  // namespace

CLI::App* AddSimulateCommand(CLI::App& parent, CommandContext& context) {
  CLI::App* command = parent.add_subcommand(
      "simulate",
      "Replay a trace or a generated workload through the scheduler, on "
      "simulated TPUs");
  auto flags = std::make_shared<SimulateFlags>();
  AddSimulateFlags(*command, *flags);
  command->footer(
      "Exit code: 0 all requests completed, 1 not all, 2 the input can not be "
      "used, 3 a result could not be written.");
  command->callback([flags, command, &context] {
    context.exit_code = RunSimulate(*command, *flags, context);
  });
  return command;
}

}  // namespace tidewheel
