// EmitAttention: ragged paged attention, with the KV write in front, as
// StableHLO text for static shapes.
//
// The semantics are those of AttentionBackend: probabilities are not rounded,
// padding tokens give 0, and nothing depends on unused slots, table entries or
// rows. One exception: V of a key that only a later token of the same row sees
// must be finite in the prefill form, since 0 * infinity is NaN.
//
// Both forms run any valid batch; they differ in what is gathered.
//   kDecode   every token gathers the pages of its own row, `row_tile` tokens
//             at a time. For rows of one query token.
//   kPrefill  rows of one query token go as above; of every other row,
//             `query_tile` tokens at a time are scored against pages that are
//             gathered once. For chunks, and for mixed batches.
// Either walks its keys in blocks of `kv_block_pages` pages, with running
// maximum and sum, from the first to the last key that a token of the tile
// sees; so memory depends neither on pages_per_seq nor on the context, and
// time depends on the contexts that the batch has, not on the longest allowed.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/attention_backend.h"
#include "attention/scalar_types.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

enum class AttentionForm { kDecode, kPrefill };

struct AttentionProgramShape {
  AttentionForm form = AttentionForm::kDecode;

  ScalarType q_type = ScalarType::kFloat32;   // and of the output
  ScalarType kv_type = ScalarType::kFloat32;  // of the pool
  // Of this step's k and v: float32, bfloat16 or kv_type.
  ScalarType new_kv_type = ScalarType::kFloat32;

  int64_t num_tokens = 0;  // the bucket: max_num_batched_tokens
  int64_t num_q_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  // Width of a head in the pool, at least head_dim; what is past head_dim is
  // written as 0 and never read. TPUs want 128.
  int64_t pool_head_dim = 0;
  int64_t page_size = 0;  // tokens
  int64_t total_num_pages = 0;
  int64_t max_num_seqs = 0;
  int64_t pages_per_seq = 0;

  // Whether k and v are arguments and written into the pool.
  bool writes_kv = true;
  // A float8 pool (and float8 k and v) declared as ui8. A CPU plugin would
  // otherwise convert the whole pool to 16 bits and back in every launch.
  bool pool_as_bytes = false;

  // The loops' tiles, which bound the memory; 0: chosen by WithChosenTiles.
  int64_t kv_block_pages = 0;
  int64_t row_tile = 0;    // rows, or tokens of the decode form
  int64_t query_tile = 0;  // tokens; prefill form only

  AttentionOptions options;
};

// Errors: InvalidArgument that names value, limit and remedy: a size below 1,
// heads that do not divide, types that do not go together, a pool or table
// whose rows do not fit an int32 index, options that AttentionBackend refuses.
absl::Status CheckAttentionShape(const AttentionProgramShape& shape);

// `shape` with tiles in place of zeros, and none larger than what it tiles.
AttentionProgramShape WithChosenTiles(AttentionProgramShape shape);

// Arguments (q, [k, v,] kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs):
//   q             [num_tokens, num_q_heads, head_dim]
//   k, v          [num_tokens, num_kv_heads, head_dim], if it writes
//   kv_pages      [total_num_pages, page_size, 2 * num_kv_heads,
//                 pool_head_dim], K0 V0 K1 V1 ...; donated if it writes
//   kv_lens       i32[max_num_seqs]
//   page_indices  i32[max_num_seqs, pages_per_seq]
//   cu_q_lens     i32[max_num_seqs + 1]
//   num_seqs      i32[1]
// Results: out, of q's shape and type; and the pool, if it writes.
//
// The batch must pass CheckAttentionCall, which a program can not check: it
// clamps page ids that are out of range.
//
// Errors: those of CheckAttentionShape.
absl::StatusOr<Program> EmitAttention(const AttentionProgramShape& shape);

// Upper bound of the temporary memory that a compiler plans for the program,
// in bytes: a formula of the tiles, the tokens and the heads.
// REQUIRES: CheckAttentionShape is ok.
int64_t AttentionTempBound(const AttentionProgramShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_H_
