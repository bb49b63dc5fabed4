#include "attention/stablehlo/attention_program_shape.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/attention_call.h"
#include "attention/stablehlo/index_limits.h"

namespace tidewheel {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Measured on one core of an AMD EPYC with (32,8,128) heads, where time is flat
// within a factor of 2 of each and grows beyond: tokens of a block, bytes that
// a block of all rows gathers, and queries times heads that share a block.
constexpr int64_t kBlockTokens = 128;
constexpr int64_t kGatheredBytes = int64_t{4} << 20;
constexpr int64_t kTileQueries = 2048;

constexpr int64_t kTpuLanes = 128;
constexpr int64_t kTpuTileRows = 8;

// Of K and V of one row's block.
int64_t BlockElements(const AttentionProgramShape& shape) {
  return shape.block_tokens() * shape.pool_combined_heads() *
         shape.pool_head_dim;
}

absl::Status CheckSizes(const AttentionProgramShape& shape) {
  for (const auto& [name, size] :
       {std::pair("num_tokens", shape.num_tokens),
        std::pair("num_q_heads", shape.num_q_heads),
        std::pair("num_kv_heads", shape.num_kv_heads),
        std::pair("head_dim", shape.head_dim),
        std::pair("page_size", shape.page_size),
        std::pair("total_num_pages", shape.total_num_pages),
        std::pair("max_num_seqs", shape.max_num_seqs),
        std::pair("pages_per_seq", shape.pages_per_seq)}) {
    if (size < 1) return Invalid(name, " ", size, " is below 1; give its size");
  }
  for (const auto& [name, size] :
       {std::pair("kv_block_pages", shape.kv_block_pages),
        std::pair("row_tile", shape.row_tile),
        std::pair("query_tile", shape.query_tile)}) {
    if (size < 0) {
      return Invalid(name, " ", size, " is below 0; give 0 to have one chosen");
    }
  }
  if (shape.num_q_heads % shape.num_kv_heads != 0) {
    return Invalid("num_q_heads ", shape.num_q_heads,
                   " must be a multiple of num_kv_heads ", shape.num_kv_heads,
                   "; give the heads of one shard");
  }
  if (shape.pool_head_dim < shape.head_dim) {
    return Invalid("pool_head_dim ", shape.pool_head_dim, " is below head_dim ",
                   shape.head_dim, "; give head_dim, or more to pad it");
  }
  if (shape.pool_head_rows < 0 ||
      shape.pool_head_dim % std::max<int64_t>(shape.pool_head_rows, 1) != 0) {
    return Invalid("pool_head_rows ", shape.pool_head_rows,
                   " does not divide pool_head_dim ", shape.pool_head_dim,
                   "; give a divisor of it, or 0 for one row a head");
  }
  if (shape.pool_combined_heads() < 2 * shape.num_kv_heads) {
    return Invalid("pool_kv_heads ", shape.pool_kv_heads,
                   " is below num_kv_heads ", shape.num_kv_heads,
                   "; give num_kv_heads, or more to pad them");
  }
  return absl::OkStatus();
}

// Whether all that a program counts in int32 fits.
absl::Status CheckIndices(const AttentionProgramShape& shape) {
  for (const auto& [name, pages] :
       {std::pair("total_num_pages", shape.total_num_pages),
        std::pair("pages_per_seq", shape.pages_per_seq)}) {
    if (ProductUpTo(kLargestIndex, {pages, shape.page_size}) > kLargestIndex) {
      return Invalid(name, " ", pages, " times page_size ", shape.page_size,
                     " exceeds ", kLargestIndex,
                     ", the largest int32 index; give fewer pages");
    }
  }
  // A tile may begin at the last token and end past it.
  for (const auto& [name, count] :
       {std::pair("num_tokens", shape.num_tokens),
        std::pair("max_num_seqs", shape.max_num_seqs)}) {
    if (count > kLargestIndex / 2) {
      return Invalid(name, " ", count, " exceeds ", kLargestIndex / 2,
                     ", half of the largest int32 index; give a smaller batch");
    }
  }
  const int64_t pool = ProductUpTo(
      kLargestTensor, {shape.total_num_pages * shape.page_size,
                       shape.pool_combined_heads(), shape.pool_head_dim, 4});
  const int64_t queries = ProductUpTo(
      kLargestTensor,
      {shape.num_tokens, shape.num_q_heads, shape.pool_head_dim, 4});
  const int64_t table =
      ProductUpTo(kLargestTensor, {shape.max_num_seqs, shape.pages_per_seq, 4});
  for (const auto& [name, bytes] :
       {std::pair("kv_pages", pool), std::pair("q", queries),
        std::pair("page_indices", table)}) {
    if (bytes > kLargestTensor) {
      return Invalid(name, " takes more than ", kLargestTensor,
                     " bytes, which no device holds; give smaller sizes");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const AttentionProgramShape& shape) {
  if (shape.q_type != ScalarType::kFloat32 &&
      shape.q_type != ScalarType::kBfloat16) {
    return Invalid("q_type is ", ScalarTypeName(shape.q_type),
                   " and must be float32 or bfloat16; convert the queries");
  }
  if (shape.writes_kv && shape.new_kv_type != shape.kv_type &&
      shape.new_kv_type != ScalarType::kFloat32 &&
      shape.new_kv_type != ScalarType::kBfloat16) {
    return Invalid("new_kv_type is ", ScalarTypeName(shape.new_kv_type),
                   " and must be float32, bfloat16 or the pool's ",
                   ScalarTypeName(shape.kv_type));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAttentionShape(const AttentionProgramShape& shape) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckSizes(shape));
  TIDEWHEEL_RETURN_IF_ERROR(CheckIndices(shape));
  TIDEWHEEL_RETURN_IF_ERROR(CheckTypes(shape));
  return shape.writes_kv ? CheckFusedAttentionOptions(shape.options)
                         : CheckAttentionOptions(shape.options);
}

AttentionProgramShape WithTpuPool(AttentionProgramShape shape) {
  shape.pool_head_rows =
      std::max<int64_t>((shape.head_dim + kTpuLanes - 1) / kTpuLanes, 1);
  shape.pool_head_dim = shape.pool_head_rows * kTpuLanes;
  shape.pool_kv_heads = std::max<int64_t>(shape.num_kv_heads, 1);
  const int64_t fewest_rows = SizeOfScalar(shape.kv_type) == 1 ? 4 : 2;
  const auto is_tiled = [&shape, fewest_rows] {
    const int64_t rows = shape.pool_slot_rows();
    return rows % kTpuTileRows == 0 ||
           (rows >= fewest_rows && (rows == 2 || rows == 4));
  };
  // Eight heads are whole tiles whatever a head takes, so this ends.
  while (!is_tiled()) ++shape.pool_kv_heads;
  return shape;
}

AttentionProgramShape WithChosenTiles(AttentionProgramShape shape) {
  const auto choose = [](int64_t& tile, int64_t chosen, int64_t limit) {
    tile = std::clamp<int64_t>(tile == 0 ? chosen : tile, 1, limit);
  };
  const bool decodes = shape.form == AttentionForm::kDecode;
  choose(shape.kv_block_pages, kBlockTokens / shape.page_size,
         shape.pages_per_seq);
  const int64_t row_bytes =
      BlockElements(shape) * static_cast<int64_t>(SizeOfScalar(shape.kv_type));
  choose(shape.row_tile, kGatheredBytes / row_bytes,
         decodes ? shape.num_tokens : shape.max_num_seqs);
  choose(shape.query_tile,
         std::clamp<int64_t>(kTileQueries / shape.num_q_heads, 16, 256),
         shape.num_tokens);
  return shape;
}

int64_t AttentionTempBound(const AttentionProgramShape& given) {
  const AttentionProgramShape shape = WithChosenTiles(given);
  const auto kv_bytes = static_cast<int64_t>(SizeOfScalar(shape.kv_type));
  // A tile of so many rows with so many queries each.
  const auto tile_bytes = [&](int64_t rows, int64_t queries) {
    const int64_t query_heads = rows * queries * shape.num_q_heads;
    // As gathered, and as float32.
    const int64_t block = rows * BlockElements(shape) * (kv_bytes + 4);
    // Logits and weights, and what they are selected with.
    const int64_t scores = query_heads * shape.block_tokens() * 3 * 4;
    // The queries, the weighted values before and after a block, the output.
    const int64_t values = query_heads * shape.pool_head_dim * 5 * 4;
    return block + scores + values;
  };
  int64_t tile = tile_bytes(shape.row_tile, 1);
  if (shape.form == AttentionForm::kPrefill) {
    tile = std::max(tile, tile_bytes(1, shape.query_tile));
  }
  // Queries and output as float32, k and v as they are and as stored.
  const int64_t tokens =
      shape.num_tokens *
      (2 * 4 * shape.num_q_heads * shape.pool_head_dim +
       2 * 4 * shape.pool_combined_heads() * shape.pool_head_dim);
  const int64_t placing = 4 * shape.num_tokens * (shape.max_num_seqs + 16);
  return tile + tokens + placing + (int64_t{1} << 20);
}

}  // namespace tidewheel
