// EmitAttention: ragged paged attention, with the KV write in front, as
// StableHLO text for static shapes.
//
// The semantics are those of AttentionBackend: probabilities are not rounded,
// padding tokens give 0, and nothing depends on unused slots, table entries or
// rows. It computes in float32. One exception: in the prefill form V of a key
// that only later tokens of the same tile see must be finite, since 0 times
// infinity is NaN.
//
// The loops end at the longest context of a tile and begin at the first key
// that its window shows, so time depends on the contexts that the batch has,
// not on the longest that is allowed.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_H_

#include "absl/status/statusor.h"
#include "attention/stablehlo/attention_program_shape.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

// Arguments (q, [k, v,] kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs):
//   q             [num_tokens, num_q_heads, head_dim]
//   k, v          [num_tokens, num_kv_heads, head_dim], if it writes
//   kv_pages      [total_num_pages, page_size, pool_slot_rows,
//                 pool_row_width], K0 V0 K1 V1 ...; donated if it writes
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

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_H_
