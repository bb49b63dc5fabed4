// Where tests find PJRT plugins, which are not part of the project: in
// environment variables, and nowhere else.
//
//   TIDEWHEEL_PJRT_CPU_PLUGINS  .so files of CPU plugins, separated by ':'
//   TIDEWHEEL_LIBTPU            libtpu.so
//   TIDEWHEEL_JAX_PYTHON        a python that has jax
//   TIDEWHEEL_REQUIRE_PJRT=1    a test without its plugin fails
//
// A test whose variable is unset is skipped and names the variable. Under the
// thread sanitizer, tests of real plugins are always skipped: it sees their
// locks in part only and reports races that are none. The fake plugin's tests
// run there.

#ifndef TIDEWHEEL_TESTS_ATTENTION_PJRT_PJRT_PLUGINS_H_
#define TIDEWHEEL_TESTS_ATTENTION_PJRT_PJRT_PLUGINS_H_

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace tidewheel {

// Empty where it is unset.
inline std::string PjrtTestVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

inline std::vector<std::string> PjrtCpuPlugins() {
  std::vector<std::string> paths;
  std::istringstream list(PjrtTestVariable("TIDEWHEEL_PJRT_CPU_PLUGINS"));
  for (std::string path; std::getline(list, path, ':');) {
    if (!path.empty()) paths.push_back(path);
  }
  return paths;
}

// The tests name the plugins by their place in the list, so that the names of
// the tests do not depend on the environment of the build.
inline constexpr int kNumCpuPlugins = 2;

// The CPU plugin at `index`, or empty.
inline std::string PjrtCpuPlugin(int index) {
  const std::vector<std::string> paths = PjrtCpuPlugins();
  return static_cast<size_t>(index) < paths.size()
             ? paths[static_cast<size_t>(index)]
             : "";
}

#if defined(__SANITIZE_THREAD__)
#define TIDEWHEEL_PJRT_PLUGINS_RUN 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIDEWHEEL_PJRT_PLUGINS_RUN 0
#endif
#endif
#ifndef TIDEWHEEL_PJRT_PLUGINS_RUN
#define TIDEWHEEL_PJRT_PLUGINS_RUN 1
#endif

inline bool PjrtIsRequired() {
  return PjrtTestVariable("TIDEWHEEL_REQUIRE_PJRT") == "1";
}

}  // namespace tidewheel

// Ends the test, as skipped or failed, where `value` is empty; `what` says
// what to set.
#define TIDEWHEEL_REQUIRE_PJRT_VALUE(value, what)                    \
  do {                                                               \
    if (!(value).empty()) break;                                     \
    if (::tidewheel::PjrtIsRequired()) {                             \
      FAIL() << "TIDEWHEEL_REQUIRE_PJRT=1, but missing: " << (what); \
    }                                                                \
    GTEST_SKIP() << "missing: " << (what);                           \
  } while (false)

// The same for a plugin that is to be loaded.
#define TIDEWHEEL_REQUIRE_PJRT_PLUGIN(value, what)                     \
  do {                                                                 \
    if (!TIDEWHEEL_PJRT_PLUGINS_RUN) {                                 \
      GTEST_SKIP() << "plugins do not run under the thread sanitizer"; \
    }                                                                  \
    TIDEWHEEL_REQUIRE_PJRT_VALUE(value, what);                         \
  } while (false)

#define TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(variable, index)        \
  const std::string variable = ::tidewheel::PjrtCpuPlugin(index); \
  TIDEWHEEL_REQUIRE_PJRT_PLUGIN(                                  \
      variable,                                                   \
      "TIDEWHEEL_PJRT_CPU_PLUGINS, a list of .so files of "       \
      "two CPU plugins separated by ':'")

#define TIDEWHEEL_REQUIRE_LIBTPU(variable)               \
  const std::string variable =                           \
      ::tidewheel::PjrtTestVariable("TIDEWHEEL_LIBTPU"); \
  TIDEWHEEL_REQUIRE_PJRT_PLUGIN(variable,                \
                                "TIDEWHEEL_LIBTPU, the path of libtpu.so")

#define TIDEWHEEL_REQUIRE_JAX_PYTHON(variable)               \
  const std::string variable =                               \
      ::tidewheel::PjrtTestVariable("TIDEWHEEL_JAX_PYTHON"); \
  TIDEWHEEL_REQUIRE_PJRT_VALUE(                              \
      variable, "TIDEWHEEL_JAX_PYTHON, a python that has jax 0.10.2")

#endif  // TIDEWHEEL_TESTS_ATTENTION_PJRT_PJRT_PLUGINS_H_
