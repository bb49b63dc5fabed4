// `tidewheel plan`: the capacity arithmetic of a model on chips, line by line.

#ifndef TIDEWHEEL_TOOLS_PLAN_COMMAND_H_
#define TIDEWHEEL_TOOLS_PLAN_COMMAND_H_

#include "tools/command_context.h"

// CLI11's name, which is not ours to choose.
namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}  // namespace CLI

namespace tidewheel {

// Adds the subcommand to `parent`, which owns it. Parsing its arguments runs
// it: the plan goes to context.out, an error to context.err, and
// context.exit_code is kExitBadInput where there is no plan.
//
// REQUIRES: context outlives parent.
CLI::App* AddPlanCommand(CLI::App& parent, CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PLAN_COMMAND_H_
