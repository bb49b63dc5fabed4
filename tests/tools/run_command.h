// RunTidewheel: one command line in this process, and what it printed.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_TOOLS_RUN_COMMAND_H_
#define TIDEWHEEL_TESTS_TOOLS_RUN_COMMAND_H_

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/tools/captured_output.h"
#include "tools/check_command.h"
#include "tools/command_context.h"
#include "tools/plan_command.h"
#include "tools/simulate_command.h"
#include "tools/tune_command.h"

namespace tidewheel {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first word is plan, simulate, tune or check. Throws what CLI11 throws for
// flags that it refuses.
inline Outcome RunTidewheel(std::vector<std::string> words) {
  CommandContext context{.out = std::tmpfile(), .err = std::tmpfile()};
  CLI::App app("test");
  AddPlanCommand(app, context);
  AddSimulateCommand(app, context);
  AddTuneCommand(app, context);
  AddCheckCommand(app, context);
  // CLI11 takes them from the back.
  std::reverse(words.begin(), words.end());
  app.parse(std::move(words));
  return {context.exit_code, TakeText(context.out), TakeText(context.err)};
}

// Words that are separated by spaces.
inline Outcome RunTidewheel(absl::string_view arguments) {
  return RunTidewheel(std::vector<std::string>(
      absl::StrSplit(arguments, ' ', absl::SkipEmpty())));
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_RUN_COMMAND_H_
