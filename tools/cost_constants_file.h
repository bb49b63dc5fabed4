// Overrides of the cost model's constants from a JSON file.
//
// One flat object: {"kv_read_efficiency": 0.8, "step_overhead_s": 0.001}. What
// it does not name keeps its default; what is not a constant is an error, so
// that a misspelt name does not silently change nothing.

#ifndef TIDEWHEEL_TOOLS_COST_CONSTANTS_FILE_H_
#define TIDEWHEEL_TOOLS_COST_CONSTANTS_FILE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/tpu_cost_constants.h"

namespace tidewheel {

// The defaults with the overrides of the file at `path`.
//
// Errors: NotFound where the file can not be read; InvalidArgument with file
// and key where it is no flat object of numbers, names no constant, repeats a
// key, or leaves a constant's range.
absl::StatusOr<TpuCostConstants> ReadCostConstants(absl::string_view path);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_COST_CONSTANTS_FILE_H_
