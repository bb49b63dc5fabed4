// JsonPlace: where a JSON text stops being what a reader can take.
//
// simdjson, which reads our files, says that a text is broken but not where.
// This goes over the same text a second time, slowly, and only after an error.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_JSON_PLACE_H_
#define TIDEWHEEL_TOOLS_JSON_PLACE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

// One clause for the first thing that is wrong with `json`: "line 3, column 7:
// unexpected '}'", "arrays.kv_lens.values[1]: 1e999 is beyond every number
// type", "more than 1024 levels deep at ...". `reason` is said where the text
// has nothing wrong that can be found.
std::string LocateJsonError(absl::string_view json, size_t max_depth,
                            absl::string_view reason);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_JSON_PLACE_H_
