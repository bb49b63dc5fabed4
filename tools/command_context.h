// What every subcommand gets from main, and hands back to it.
//
// A subcommand writes its result to `out` and everything else to `err`, so
// that tests can read both, and leaves the process's exit code here: 0 for
// success, 2 for input that it can not work with, others as it documents.

#ifndef TIDEWHEEL_TOOLS_COMMAND_CONTEXT_H_
#define TIDEWHEEL_TOOLS_COMMAND_CONTEXT_H_

#include <cstdio>

namespace tidewheel {

inline constexpr int kExitBadInput = 2;

struct CommandContext {
  std::FILE* out = nullptr;
  std::FILE* err = nullptr;
  int exit_code = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_COMMAND_CONTEXT_H_
