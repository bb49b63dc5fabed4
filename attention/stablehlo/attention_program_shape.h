// AttentionProgramShape: everything that is fixed when an attention program is
// emitted, and the bound of the memory that it needs.
//
// A program walks its keys in blocks of `kv_block_pages` pages, for `row_tile`
// rows or `query_tile` tokens of one row at a time. The tiles alone decide
// about memory; neither pages_per_seq nor a context does.
//
// Thread-safety: a value and pure functions.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_SHAPE_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_SHAPE_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "attention/attention_backend.h"
#include "attention/scalar_types.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

// Both forms run any valid batch; they differ in what is gathered.
enum class AttentionForm {
  // Each token gathers the pages of its own row. For rows of one query token.
  kDecode,
  // Rows of one query token go as above; the tokens of any other row share
  // pages that are gathered once a tile. For chunks, and for mixed batches.
  kPrefill
};

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
  // Width of a head in the pool, at least head_dim, and KV heads in it, at
  // least num_kv_heads or 0 for as many; what is past them is written as 0 and
  // never read. WithTpuPool says what TPUs want.
  int64_t pool_head_dim = 0;
  int64_t pool_kv_heads = 0;
  // Rows that a head takes in the pool's declared shape; 0 is 1. The bytes are
  // the same, but not the tiles of a TPU.
  int64_t pool_head_rows = 0;
  int64_t page_size = 0;  // tokens
  int64_t total_num_pages = 0;
  int64_t max_num_seqs = 0;
  int64_t pages_per_seq = 0;

  // Whether k and v are arguments and written into the pool.
  bool writes_kv = true;
  // A pool of bfloat16 or float8, and k and v of its type, declared as ui16 or
  // ui8. A CPU plugin would otherwise convert the whole pool to a wider type
  // and back in every launch.
  bool pool_as_bits = false;

  // 0: chosen by WithChosenTiles.
  int64_t kv_block_pages = 0;
  int64_t row_tile = 0;    // rows, or tokens of the decode form
  int64_t query_tile = 0;  // tokens; prefill form only

  AttentionOptions options;

  ElementType declared_kv_type() const {
    return pool_as_bits ? BitsTypeOf(kv_type) : ElementTypeOf(kv_type);
  }
  ElementType declared_new_kv_type() const {
    return new_kv_type == kv_type ? declared_kv_type()
                                  : ElementTypeOf(new_kv_type);
  }
  // Heads of K and of V in the pool, padding included.
  int64_t pool_combined_heads() const {
    return 2 * (pool_kv_heads == 0 ? num_kv_heads : pool_kv_heads);
  }
  // Rows of a token's slot in the pool, and their width.
  int64_t pool_slot_rows() const {
    return pool_combined_heads() * std::max<int64_t>(pool_head_rows, 1);
  }
  int64_t pool_row_width() const {
    return pool_head_dim / std::max<int64_t>(pool_head_rows, 1);
  }
  int64_t pool_bytes() const {
    return total_num_pages * page_size * pool_combined_heads() * pool_head_dim *
           static_cast<int64_t>(SizeOfScalar(kv_type));
  }
  int64_t block_tokens() const { return kv_block_pages * page_size; }
  int64_t group_size() const { return num_q_heads / num_kv_heads; }
  // Hidden keys have no weight at all, so they need not be read.
  bool mask_hides() const { return options.mask_value <= kHidingMaskValue; }
};

// Errors: InvalidArgument that names value, limit and remedy: a size below 1,
// heads that do not divide, types that do not go together, a pool or a context
// whose tokens do not fit an int32 index, options that AttentionBackend
// refuses.
absl::Status CheckAttentionShape(const AttentionProgramShape& shape);

// `shape` with the narrowest pool that TPU compilers leave in place: rows of
// one vector of 128 lanes, and whole tiles of them a token, that is, 2, 4 or a
// multiple of 8 rows, of 8-bit types at least 4. Any other pool is
// copied or converted as a whole in each launch
// (tests/attention/stablehlo/attention_memory_test.cc).
AttentionProgramShape WithTpuPool(AttentionProgramShape shape);

// `shape` with tiles in place of zeros, and none larger than what it tiles.
AttentionProgramShape WithChosenTiles(AttentionProgramShape shape);

// Upper bound of the temporary memory that a compiler plans for the program,
// in bytes. With Hq, C, PD, T, S for num_q_heads, pool_combined_heads,
// pool_head_dim, num_tokens, max_num_seqs, and L tokens of a block:
//   tile(R, Q) = R * L * C * PD * (bytes of kv_type + 4)
//                + R * Q * Hq * (12 * L + 20 * PD)
//   bound = tile(row_tile, 1), or in the prefill form the larger of that and
//           tile(1, query_tile)
//           + T * (8 * Hq * PD + 8 * C * PD) + 4 * T * (S + 16) + 1 MiB
// tests/attention/stablehlo/attention_memory_test.cc compares it with what
// compilers say.
// REQUIRES: CheckAttentionShape is ok.
int64_t AttentionTempBound(const AttentionProgramShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_ATTENTION_PROGRAM_SHAPE_H_
