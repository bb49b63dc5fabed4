// Where a PJRT plugin is when its path is not given.
//
// In this order: the given path; the file that TPU_LIBRARY_PATH names; the
// first of the usual places of libtpu.so that exists: the Python packages of
// $VIRTUAL_ENV, of the user and of the system, then the library folders. Of
// several Python versions the last counts.
//
// Thread-safety: reads the environment.

#ifndef TIDEWHEEL_TOOLS_PJRT_PLUGIN_SEARCH_H_
#define TIDEWHEEL_TOOLS_PJRT_PLUGIN_SEARCH_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

struct FoundPlugin {
  std::string path;
  std::string origin;  // "--plugin", "TPU_LIBRARY_PATH", "found"
};

// `flag` is the name of the one that `given` is the value of, perhaps empty.
//
// Errors: NotFound where there is no such file, and, with how to get a plugin,
// where there is none at all.
absl::StatusOr<FoundPlugin> FindPjrtPlugin(const std::string& given,
                                           absl::string_view flag);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_PLUGIN_SEARCH_H_
