// BatchFile: one call of ragged paged attention, as a JSON file describes it.
//
//   {"arrays": {"q": {"dtype": "float32", "shape": [8, 4, 128]},
//               "kv_pages": {...},
//               "kv_lens": {"dtype": "int32", "shape": [3],
//                           "values": [7, 5, 0]},
//               "page_indices": {...}, "cu_q_lens": {...}, "num_seqs": {...}},
//    "options": {"sliding_window": 128, "k_scale": 0.5}}
//
// Values are nested lists of the array's shape; q and kv_pages may leave them
// out. Options are numbers, null, or what JSON lacks as Python prints it
// ("-inf", "np.float32(0.5)"). Other keys at the top are ignored, so an entry
// of a recorded errors.json is such a file.
//
// A reader for files from anywhere: whatever is wrong with one is an error
// that names the place, never a crash.
//
// Thread-safety: pure functions. They allocate in proportion to the file.

#ifndef TIDEWHEEL_TOOLS_BATCH_FILE_H_
#define TIDEWHEEL_TOOLS_BATCH_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/contract.h"

namespace tidewheel {

inline constexpr size_t kMaxBatchFileBytes = size_t{64} << 20;

struct BatchFile {
  ContractInputs inputs;
  ContractOptions options;
};

// Errors: InvalidArgument with the place ("line 2, column 5" or
// "arrays.kv_lens.values[1]"), the value, the limit and the remedy.
absl::StatusOr<BatchFile> ParseBatchFile(absl::string_view json);

// Errors: NotFound or PermissionDenied where the file cannot be opened, those
// of ParseBatchFile with the path in front.
absl::StatusOr<BatchFile> ReadBatchFile(const std::string& path);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_BATCH_FILE_H_
