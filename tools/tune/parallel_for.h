// ParallelFor: a loop whose turns do not depend on each other, on all cores.
//
// Results go to a slot of their own for each index, so they do not depend on
// which thread ran what, or when.

#ifndef TIDEWHEEL_TOOLS_TUNE_PARALLEL_FOR_H_
#define TIDEWHEEL_TOOLS_TUNE_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace tidewheel {

// Calls body(i) once for each i in [0, count), lower ones first, from
// `threads` threads and returns when all have returned. After an error no
// further turn begins.
// Errors: of the lowest index whose body failed.
// REQUIRES: threads > 0.
absl::Status ParallelFor(int64_t count, int32_t threads,
                         const std::function<absl::Status(int64_t)>& body);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_PARALLEL_FOR_H_
