// The `tidewheel` command: one subcommand a job.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/check_command.h"
#include "tools/command_context.h"
#include "tools/devices_command.h"
#include "tools/pjrt/plugin_worker.h"
#include "tools/plan_command.h"
#include "tools/simulate_command.h"
#include "tools/tune_command.h"

int main(int argc, char** argv) {
  tidewheel::CommandContext context;
  context.out = stdout;
  context.err = stderr;
  CLI::App app(
      "tidewheel: continuous batching on TPUs. Simulate a server's traffic, "
      "plan its memory, check its limits.",
      "tidewheel");
  app.require_subcommand(1);
  tidewheel::AddSimulateCommand(app, context);
  tidewheel::AddTuneCommand(app, context);
  tidewheel::AddPlanCommand(app, context);
  tidewheel::AddCheckCommand(app, context);
  tidewheel::AddDevicesCommand(app, context);
  tidewheel::AddPluginWorkerCommand(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help is a success; everything else is bad input, whatever CLI11's code.
    return app.exit(error) == 0 ? 0 : tidewheel::kExitBadInput;
  }
  return context.exit_code;
}
