// Programs that tests of reports use where a machine has them.

#ifndef TIDEWHEEL_TESTS_TOOLS_REPORT_REQUIRED_TOOL_H_
#define TIDEWHEEL_TESTS_TOOLS_REPORT_REQUIRED_TOOL_H_

#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

// The program that the environment's `variable` names; empty: none.
inline std::string ToolFrom(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// Whether the environment's `variable` is 1: then a program that a machine
// lacks is a failure rather than a skip, as in CI.
inline bool IsRequired(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && absl::string_view(value) == "1";
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_REPORT_REQUIRED_TOOL_H_
