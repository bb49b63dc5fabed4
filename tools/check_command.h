// `tidewheel check`: one call or one configuration against the kernel's rules,
// and those rules against the TPU compiler's own verdicts.
//
//   check --batch FILE.json     one call (batch_check)
//   check --model NAME ...      a configuration (config_command)
//   check --against FILE.csv    predictions beside verdicts (limits_against)
//   check --tpu-compile ...     verdicts of libtpu itself (tpu_compile_command)
//
// This file only reads flags and picks one of them.

#ifndef TIDEWHEEL_TOOLS_CHECK_COMMAND_H_
#define TIDEWHEEL_TOOLS_CHECK_COMMAND_H_

#include "tools/command_context.h"

namespace CLI {
class App;
}

namespace tidewheel {

// Adds the subcommand to `parent`, which owns it. Parsing its arguments runs
// it. context.exit_code: 0 if all holds, 1 if something does not, kExitBadInput
// where a file cannot be used.
//
// REQUIRES: context outlives parent.
CLI::App* AddCheckCommand(CLI::App& parent, CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_CHECK_COMMAND_H_
