// The block sizes that JAX's ragged paged attention chooses by itself.
//
// JAX 0.10.2 looks a launch up in a table of measurements
// (tuned_block_sizes.py, 668 entries for each of "TPU v5" and "TPU v6"), after
// it has rounded the heads, the page size, the tokens and the longest length
// up to powers of two. Entries with another key can never be found; the 348 of
// each device that can are here, and tools/golden/print_tuned_blocks.py prints
// them. A launch without an entry, which is most, gets 128 pages and 32
// queries a block (32 and 32 on v4), clamped to the launch's own sizes.
//
// These are JAX's choices, repeated so that a launch without block sizes can
// be judged; for choices of our own see tpu_limits.h.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_TUNED_BLOCK_SIZES_H_
#define TIDEWHEEL_ATTENTION_TUNED_BLOCK_SIZES_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "attention/contract_error.h"

namespace tidewheel {

struct BlockSizes {
  int64_t num_kv_pages_per_block = 0;
  int64_t num_queries_per_block = 0;

  friend bool operator==(const BlockSizes&, const BlockSizes&) = default;
};

struct BlockSizesKey {
  absl::string_view q_dtype;
  absl::string_view kv_dtype;
  int64_t num_q_heads_per_block = 0;
  int64_t num_kv_heads_per_block = 0;
  int64_t head_dim = 0;
  int64_t page_size = 0;  // tokens
  int64_t max_num_batched_tokens = 0;
  int64_t pages_per_seq = 0;
};

// What get_tuned_block_sizes returns on a device of `device_kind`
// ("TPU v6 lite"; "cpu" on a host without a TPU), or what it raises: an old
// generation, a kind that JAX 0.10.2 cannot parse ("TPU v6e"), a size of 0.
JaxResult<BlockSizes> TunedBlockSizes(const BlockSizesKey& key,
                                      absl::string_view device_kind);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TUNED_BLOCK_SIZES_H_
