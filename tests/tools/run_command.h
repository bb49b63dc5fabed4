// RunTidewheel: one command line in this process, and what it printed.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_TOOLS_RUN_COMMAND_H_
#define TIDEWHEEL_TESTS_TOOLS_RUN_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tools/command_context.h"
#include "tools/plan_command.h"
#include "tools/simulate_command.h"
#include "tools/tune_command.h"

namespace tidewheel {

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Everything in the file from its start; closes it.
inline std::string ReadAll(std::FILE* file) {
  std::string text;
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    text.push_back(static_cast<char>(c));
  }
  std::fclose(file);
  return text;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `arguments` are separated by spaces; the first is plan, simulate or tune.
// Throws what CLI11 throws for flags that it refuses.
inline Outcome RunTidewheel(absl::string_view arguments) {
  CommandContext context{.out = std::tmpfile(), .err = std::tmpfile()};
  CLI::App app("test");
  AddPlanCommand(app, context);
  AddSimulateCommand(app, context);
  AddTuneCommand(app, context);
  std::vector<std::string> words = {"tidewheel"};
  for (absl::string_view word :
       absl::StrSplit(arguments, ' ', absl::SkipEmpty())) {
    words.emplace_back(word);
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  app.parse(static_cast<int>(argv.size()), argv.data());
  Outcome outcome;
  outcome.exit_code = context.exit_code;
  outcome.out = ReadAll(context.out);
  outcome.err = ReadAll(context.err);
  return outcome;
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_RUN_COMMAND_H_
