// Programs that move KV pages: inside the pool, to the host and back.
//
// All take page ids as i32[num_ids]. An id outside [0, total_num_pages) is
// padding: nothing is written for it. -1 is the usual one.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_PAGE_PROGRAM_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_PAGE_PROGRAM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "attention/scalar_types.h"
#include "attention/stablehlo/program_signature.h"

namespace tidewheel {

// [total_num_pages, page_size, pool_slot_rows, pool_row_width], as in
// AttentionProgramShape.
struct PagePoolShape {
  ScalarType kv_type = ScalarType::kFloat32;
  int64_t total_num_pages = 0;
  int64_t page_size = 0;  // tokens
  int64_t num_kv_heads = 0;
  int64_t pool_head_dim = 0;
  // As in AttentionProgramShape: 0 for num_kv_heads, more for padding, which
  // leaves the device as little as it comes to it.
  int64_t pool_kv_heads = 0;
  int64_t pool_head_rows = 0;
  // As in AttentionProgramShape.
  bool pool_as_bits = false;

  TensorType type() const;
  // [num_ids, page_size, rows of 2 * num_kv_heads heads, pool_row_width].
  TensorType pages_type(int64_t num_ids) const;
};

// (kv_pages donated, sources, destinations) -> kv_pages. One copy after the
// other, in the listed order, so a page may be copied on.
//
// Errors of all: InvalidArgument that names value, limit and remedy.
absl::StatusOr<Program> EmitCopyPages(const PagePoolShape& pool,
                                      int64_t num_ids);

// (kv_pages, ids) -> pages, of pages_type. What it gives for padding is any
// page.
absl::StatusOr<Program> EmitGatherPages(const PagePoolShape& pool,
                                        int64_t num_ids);

// (kv_pages donated, ids, pages of pages_type) -> kv_pages. No id may be there
// twice.
absl::StatusOr<Program> EmitScatterPages(const PagePoolShape& pool,
                                         int64_t num_ids);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_PAGE_PROGRAM_H_
