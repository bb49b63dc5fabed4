// ScopedVariable: an environment variable that tests set, such as a fault of
// the plugin that a command's child process loads.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_TOOLS_SCOPED_VARIABLE_H_
#define TIDEWHEEL_TESTS_TOOLS_SCOPED_VARIABLE_H_

#include <cstdlib>
#include <string>
#include <utility>

namespace tidewheel {

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

#endif  // TIDEWHEEL_TESTS_TOOLS_SCOPED_VARIABLE_H_
