// `tidewheel tune`: how many KV pages does this traffic need, and which
// configuration keeps a promise?
//
// With --goodput: a search of configurations, each run through the scheduler
// and the allocator. With --curve: the prefix hit ratio of every pool size,
// from one pass over a trace.

#ifndef TIDEWHEEL_TOOLS_TUNE_COMMAND_H_
#define TIDEWHEEL_TOOLS_TUNE_COMMAND_H_

#include "tools/command_context.h"

// CLI11's name, which is not ours to choose.
namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}  // namespace CLI

namespace tidewheel {

// Adds the subcommand to `parent`, which owns it. Parsing its arguments runs
// it: definitions and figures go to context.out, errors and a progress bar (on
// a terminal) to context.err. context.exit_code: 0; 1 where no configuration
// keeps the promise, or --verify finds that the curve deviates; 3 where a
// result could not be written or a simulation failed; 130 where ctrl-C ended
// the search, after the best so far; kExitBadInput before anything has run.
//
// REQUIRES: context outlives parent.
CLI::App* AddTuneCommand(CLI::App& parent, CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_COMMAND_H_
