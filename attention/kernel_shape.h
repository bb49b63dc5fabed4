// KernelShape: everything static about one call of the ragged paged attention
// kernel, and the block of heads that the kernel makes of it.
//
// These are numbers, not arrays: what a compile depends on. Values of a batch
// are RaggedBatch. Names are those of JAX's kernel.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_KERNEL_SHAPE_H_
#define TIDEWHEEL_ATTENTION_KERNEL_SHAPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "allocator/kv_cache_shape.h"

namespace tidewheel {

// Types that queries were tried with; the kernel takes the first two.
enum class QueryDtype { kF32, kBf16, kF16, kFp8E4m3 };

// "f32", "bf16", "f16", "fp8_e4m3".
absl::string_view QueryDtypeName(QueryDtype dtype);

// Elements that share one 32-bit word: 1, 2 or 4.
int32_t QueryPacking(QueryDtype dtype);

// What else is in the compiled program. A kernel that is compiled alone may
// find its queries in vector memory already (VmemNeed::windows_bytes); in a
// model's step other operations compete for that memory, so do not count on
// it.
enum class ProgramScope { kModelStep, kKernelAlone };

struct KernelShape {
  int32_t num_q_heads = 0;   // of one chip
  int32_t num_kv_heads = 0;  // of one chip
  int32_t head_dim = 128;
  int32_t page_size = 16;  // tokens
  QueryDtype q_dtype = QueryDtype::kBf16;
  KvDtype kv_dtype = KvDtype::kBf16;
  // Both k_scale and v_scale are given, so K and V become q_dtype before the
  // matrix products.
  bool has_kv_scales = false;
  int32_t max_num_seqs = 1;
  int32_t pages_per_seq = 1;
  int32_t max_num_batched_tokens = 1;
  int32_t num_kv_pages_per_block = 1;
  int32_t num_queries_per_block = 1;
  // Bytes; absent means the generation's default. Zero is an error, not
  // "none".
  std::optional<int64_t> vmem_limit_bytes = std::nullopt;
  ProgramScope scope = ProgramScope::kModelStep;
};

// The heads of one kernel invocation. Many KV heads are split into blocks so
// that each fills one (8, 128) tile of packed words.
struct HeadBlock {
  int32_t num_q_heads = 0;
  int32_t num_kv_heads = 0;
};

// What JAX's get_min_heads_per_blk chooses; nothing if it refuses the number
// of KV heads.
// REQUIRES: num_q_heads a multiple of num_kv_heads, both positive.
std::optional<HeadBlock> ChooseHeadBlock(const KernelShape& shape);

// Whether `heads` rows of packed words tile without padding: XLA has tiles of
// 1, 2, 4 and 8 rows, and multiples of the last.
bool IsXlaFullyTiled(int32_t heads, int32_t packing);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_KERNEL_SHAPE_H_
