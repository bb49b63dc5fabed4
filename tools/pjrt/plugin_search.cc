#include "tools/pjrt/plugin_search.h"

#include <glob.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

constexpr char kVariable[] = "TPU_LIBRARY_PATH";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Patterns of glob.
std::vector<std::string> UsualPlaces() {
  constexpr char kPackage[] = "/lib/python3*/site-packages/libtpu/libtpu.so";
  std::vector<std::string> places;
  const std::string environment = Variable("VIRTUAL_ENV");
  const std::string home = Variable("HOME");
  if (!environment.empty()) {
    places.push_back(absl::StrCat(environment, kPackage));
  }
  if (!home.empty()) places.push_back(absl::StrCat(home, "/.local", kPackage));
  places.push_back(absl::StrCat("/usr/local", kPackage));
  places.push_back("/usr/local/lib/python3*/dist-packages/libtpu/libtpu.so");
  places.push_back("/usr/lib/python3/dist-packages/libtpu/libtpu.so");
  places.push_back("/usr/local/lib/libtpu.so");
  places.push_back("/usr/lib/libtpu.so");
  places.push_back("/lib/libtpu.so");
  return places;
}

// The last file that matches; empty if none does.
std::string LastMatch(const std::string& pattern) {
  glob_t matches = {};
  std::string last;
  if (glob(pattern.c_str(), 0, nullptr, &matches) == 0 &&
      matches.gl_pathc > 0) {
    last = matches.gl_pathv[matches.gl_pathc - 1];
  }
  globfree(&matches);
  return last;
}

absl::StatusOr<FoundPlugin> Given(const std::string& path,
                                  absl::string_view origin) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    return FoundPlugin{path, std::string(origin)};
  }
  return absl::NotFoundError(absl::StrCat(
      origin, " '", path, "' is ",
      std::filesystem::exists(path, error) ? "not a file" : "not there",
      "; give the path of a plugin's .so file"));
}

}  // namespace

absl::StatusOr<FoundPlugin> FindPjrtPlugin(const std::string& given,
                                           absl::string_view flag) {
  if (!given.empty()) return Given(given, flag);
  const std::string variable = Variable(kVariable);
  if (!variable.empty()) return Given(variable, kVariable);
  std::string searched;
  for (const std::string& place : UsualPlaces()) {
    const std::string path = LastMatch(place);
    if (!path.empty()) return FoundPlugin{path, "found"};
    absl::StrAppend(&searched, "\n  ", place);
  }
  return absl::NotFoundError(absl::StrCat(
      "no PJRT plugin: ", flag, " is not given, ", kVariable,
      " is not set, and there is no file", searched,
      "\nA TPU VM has libtpu.so. Elsewhere `pip install libtpu==0.0.42.1` "
      "brings "
      "one that\ncompiles for TPUs, and `pip install xla-cpu-pjrt==0.0.1` a "
      "plugin that runs on\nthe CPU. Then name the .so file with ",
      flag, " or in ", kVariable));
}

}  // namespace tidewheel
