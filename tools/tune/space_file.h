// Space file: a SearchSpace as JSON.
//
//   {
//     "page_size": [16, 32],
//     "total_num_pages": {"min": 1000, "max": 4000, "steps": 4},
//     "max_num_seqs": {"min": 32, "max": 256, "steps": 4, "scale": "log"},
//     "admission": ["optimistic", "reserve"],
//     "watermark": 0.01
//   }
//
// Knobs: chips, page_size, total_num_pages or hbm_utilization, max_num_seqs,
// max_num_batched_tokens, admission, watermark_pages or watermark (a fraction),
// policy. A value is a list, one value, or, of numbers, `steps` of them from
// min to max with equal distances ("scale": "linear", the default) or equal
// ratios ("log"); whole numbers are rounded. Knobs that the file does not name
// keep the server's value.

#ifndef TIDEWHEEL_TOOLS_TUNE_SPACE_FILE_H_
#define TIDEWHEEL_TOOLS_TUNE_SPACE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/tune/search_space.h"

namespace tidewheel {

// Errors: InvalidArgument with the place (line and column, or path) for what is
// no JSON, an unknown or repeated knob, a wrong type, a value out of range, an
// empty list or space, and knobs that contradict each other. `name` stands
// before the place.
absl::StatusOr<SearchSpace> ParseSpace(absl::string_view json,
                                       absl::string_view name);

// Errors: NotFound where the file can not be read; those of ParseSpace.
absl::StatusOr<SearchSpace> ReadSpaceFile(const std::string& path);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_SPACE_FILE_H_
