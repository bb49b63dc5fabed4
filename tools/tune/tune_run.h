// TuneRun: `tidewheel tune` without --curve, from flags to exit code.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_RUN_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_RUN_H_

#include <functional>
#include <string>

#include "tools/command_context.h"
#include "tools/tune/tune_flags.h"

namespace tidewheel {

// No candidate keeps the promise.
inline constexpr int kExitPromiseNotKept = 1;
// A result could not be written, or a simulation failed.
inline constexpr int kExitTuneFailed = 3;
// Ended by ctrl-C, after printing the best so far: 128 + SIGINT, as shells
// report it.
inline constexpr int kExitInterrupted = 130;

struct TuneOutputs {
  std::string result_file;  // --save-result; empty: none
  std::string report_file;  // --report; empty: none
  std::string config_file;  // --output; empty: none
  bool quiet = false;
  // Besides ctrl-C, what ends the search; for tests. May be empty.
  std::function<bool()> should_stop;
};

// Header and report go to context.out, errors and a progress bar (on a
// terminal) to context.err. Returns 0, one of those above, or kExitBadInput.
int RunTune(const ResolvedTuneFlags& flags, const TuneOutputs& outputs,
            CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_RUN_H_
