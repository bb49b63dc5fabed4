// Where tests find the inputs that are not part of the project: real traces,
// model configurations, golden vectors. They lie in a folder `shared` beside
// the checkout, or where the environment variable TIDEWHEEL_SHARED points.

#ifndef TIDEWHEEL_TESTS_SHARED_FILES_H_
#define TIDEWHEEL_TESTS_SHARED_FILES_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace tidewheel {

// The path of `relative` below the shared folder, or empty if that folder is
// not there.
inline std::string SharedFile(const std::string& relative) {
  const char* root = std::getenv("TIDEWHEEL_SHARED");
  const std::filesystem::path folder =
      root != nullptr ? root : TIDEWHEEL_SOURCE_DIR "/../shared";
  if (!std::filesystem::is_directory(folder)) return "";
  return (folder / relative).lexically_normal().string();
}

}  // namespace tidewheel

// Skips the test, saying so, where the shared folder is absent. A shared
// folder that lacks the file is a failure, not a skip.
#define TIDEWHEEL_REQUIRE_SHARED(variable, relative)                        \
  const std::string variable = ::tidewheel::SharedFile(relative);           \
  if (variable.empty()) GTEST_SKIP() << "no shared folder: " << (relative); \
  ASSERT_TRUE(std::filesystem::exists(variable)) << variable

#endif  // TIDEWHEEL_TESTS_SHARED_FILES_H_
