// What JAX leaves open: inputs that its checks accept and that its kernels
// answer with wrong numbers, a halted core or nothing at all.
//
// Every finding is one sentence that names the row, the value, the limit and
// the remedy. Findings come in the order of the checks, and in row order
// within a check.
//
// The first group holds for any batch that a kernel gets: at least one row,
// cu_q_lens from 0 and strictly increasing, lengths that fit their row, page
// ids in use in [1, total_num_pages) and no page that one row writes while it
// is named elsewhere. The second group is how this project's scheduler lays a
// batch out: zeros behind the pages in use, rows with one query token first,
// padding that repeats.
//
// Thread-safety: pure functions. O(pages in use), and a sort of the pages that
// the step writes, which is the only scratch.

#ifndef TIDEWHEEL_ATTENTION_CONTRACT_STRICT_CHECKS_H_
#define TIDEWHEEL_ATTENTION_CONTRACT_STRICT_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attention/ragged_batch.h"

namespace tidewheel {

// Whether this step writes the last q_len tokens of each row. A kernel that
// only reads pages cannot lose a write, whoever shares them.
enum class WrittenPages { kAreWrittenNow, kAreWrittenAlready };

struct StrictRules {
  // Pages wholly before the window of a row's first query are never read, so
  // they may be the null page. Absent: every page of a row is read.
  std::optional<int64_t> sliding_window = std::nullopt;  // tokens
  // Also check the second group.
  bool scheduler_layout = true;
  WrittenPages written_pages = WrittenPages::kAreWrittenNow;
  // Rows without queries pass, and then may have no keys either.
  bool allow_empty_rows = false;
  // Stop after so many findings.
  size_t max_findings = std::numeric_limits<size_t>::max();
};

// Empty if all holds. A span of another size than the batch says is the only
// finding then, since nothing else can be compared.
std::vector<std::string> StrictFindings(const RaggedBatch& batch,
                                        const StrictRules& rules);

// The sizes alone: what StrictFindings begins with.
std::optional<std::string> SizeFinding(const RaggedBatch& batch);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_CONTRACT_STRICT_CHECKS_H_
