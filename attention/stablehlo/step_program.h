// Programs that bring a step's inputs up to date on the device, so that only
// what changed is sent: the page table, and the tokens that the device itself
// has sampled while the step was planned.
//
// A row outside [0, max_num_seqs) is padding; -1 is the usual one.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_STEP_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_STEP_PROGRAM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

struct TableShape {
  int64_t max_num_seqs = 0;
  int64_t pages_per_seq = 0;

  TensorType type() const;
};

// (page_indices donated, rows i32[num_rows], values i32[num_rows,
// pages_per_seq]) -> page_indices with those rows replaced. No row may be
// there twice.
//
// Errors of all: InvalidArgument that names value, limit and remedy.
absl::StatusOr<Program> EmitTableDelta(const TableShape& table,
                                       int64_t num_rows);

// (page_indices, previous_rows i32[max_num_seqs]) -> a table whose row i is
// row previous_rows[i] of the old one, and zeros where that is padding.
absl::StatusOr<Program> EmitPermuteTable(const TableShape& table);

// (token_ids i32[num_tokens], source_rows i32[num_tokens], sampled
// i32[max_num_seqs]) -> token_ids with sampled[source_row] in place of each
// token whose source row is not padding.
absl::StatusOr<Program> EmitFillTokens(int64_t num_tokens,
                                       int64_t max_num_seqs);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_STEP_PROGRAM_H_
