// `tidewheel simulate`: a workload through the real scheduler and allocator,
// with the time of each step from a cost model of TPU chips.

#ifndef TIDEWHEEL_TOOLS_SIMULATE_COMMAND_H_
#define TIDEWHEEL_TOOLS_SIMULATE_COMMAND_H_

#include "tools/command_context.h"

namespace CLI {
class App;
}

namespace tidewheel {

// The run came to its end, but not every request completed.
inline constexpr int kExitNotAllCompleted = 1;
// A result could not be written, or scheduler and runner disagreed.
inline constexpr int kExitFailure = 3;

// Adds the subcommand to `parent`, which owns it. Parsing its arguments runs
// it: header and figures go to context.out, errors and a progress bar (on a
// terminal) to context.err. context.exit_code: 0 if every request completed,
// else one of those above, or kExitBadInput before anything has run.
//
// REQUIRES: context outlives parent.
CLI::App* AddSimulateCommand(CLI::App& parent, CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SIMULATE_COMMAND_H_
