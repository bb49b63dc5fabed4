// What the tests of commands that run plugins in child processes share: their
// output, and faults of the plugin.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_TOOLS_PLUGIN_COMMANDS_H_
#define TIDEWHEEL_TESTS_TOOLS_PLUGIN_COMMANDS_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "nlohmann/json.hpp"

namespace tidewheel {

struct CommandOutput {
  int exit_code = 0;
  std::string out;
  std::string err;

  nlohmann::json json() const {
    return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  }
};

inline std::string TakeText(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) {
    text.push_back(static_cast<char>(c));
  }
  std::fclose(file);
  return text;
}

// `run` takes the two streams and returns the exit code.
template <typename Run>
CommandOutput Capture(const Run& run) {
  std::FILE* const out = std::tmpfile();
  std::FILE* const err = std::tmpfile();
  const int exit_code = run(out, err);
  return {exit_code, TakeText(out), TakeText(err)};
}

// An environment variable for as long as this lives.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value)
      : name_(std::move(name)) {
    const char* const old = std::getenv(name_.c_str());
    had_value_ = old != nullptr;
    if (had_value_) old_value_ = old;
    setenv(name_.c_str(), value.c_str(), /*overwrite=*/1);
  }
  ~ScopedVariable() {
    if (had_value_) {
      setenv(name_.c_str(), old_value_.c_str(), /*overwrite=*/1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const std::string name_;
  bool had_value_ = false;
  std::string old_value_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_PLUGIN_COMMANDS_H_
