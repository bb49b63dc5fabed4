#include "attention/pjrt/attention_key.h"

#include <bit>
#include <limits>
#include <optional>

namespace tidewheel {
namespace {

constexpr int64_t kAbsent = std::numeric_limits<int64_t>::min();

int64_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

int64_t Bits(std::optional<float> value) {
  return value.has_value() ? Bits(*value) : kAbsent;
}

}  // namespace

AttentionKey::AttentionKey(const AttentionProgramShape& shape)
    : fields_{static_cast<int64_t>(shape.form),
              static_cast<int64_t>(shape.q_type),
              static_cast<int64_t>(shape.kv_type),
              static_cast<int64_t>(shape.new_kv_type),
              shape.num_tokens,
              shape.num_q_heads,
              shape.num_kv_heads,
              shape.head_dim,
              shape.pool_head_dim,
              shape.pool_combined_heads(),
              shape.pool_head_rows,
              shape.page_size,
              shape.total_num_pages,
              shape.max_num_seqs,
              shape.pages_per_seq,
              (shape.writes_kv ? 2 : 0) + (shape.pool_as_bits ? 1 : 0),
              shape.kv_block_pages,
              shape.row_tile,
              shape.query_tile,
              Bits(shape.options.sm_scale),
              shape.options.sliding_window.value_or(kAbsent),
              Bits(shape.options.soft_cap),
              Bits(shape.options.mask_value),
              Bits(shape.options.k_scale),
              Bits(shape.options.v_scale)} {}

bool SameProgramOptions(const AttentionOptions& a, const AttentionOptions& b) {
  AttentionProgramShape shape_a;
  shape_a.options = a;
  AttentionProgramShape shape_b;
  shape_b.options = b;
  return AttentionKey(shape_a) == AttentionKey(shape_b);
}

}  // namespace tidewheel
