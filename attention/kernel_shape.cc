#include "attention/kernel_shape.h"

#include "allocator/check.h"

namespace tidewheel {

absl::string_view QueryDtypeName(QueryDtype dtype) {
  switch (dtype) {
    case QueryDtype::kF32:
      return "f32";
    case QueryDtype::kBf16:
      return "bf16";
    case QueryDtype::kF16:
      return "f16";
    case QueryDtype::kFp8E4m3:
      return "fp8_e4m3";
  }
  TIDEWHEEL_CHECK(false);
}

int32_t QueryPacking(QueryDtype dtype) {
  switch (dtype) {
    case QueryDtype::kF32:
      return 1;
    case QueryDtype::kBf16:
    case QueryDtype::kF16:
      return 2;
    case QueryDtype::kFp8E4m3:
      return 4;
  }
  TIDEWHEEL_CHECK(false);
}

bool IsXlaFullyTiled(int32_t heads, int32_t packing) {
  if (heads % packing != 0) return false;
  const int32_t rows = heads / packing;
  return rows == 1 || rows == 2 || rows == 4 || rows % 8 == 0;
}

std::optional<HeadBlock> ChooseHeadBlock(const KernelShape& shape) {
  TIDEWHEEL_CHECK_GT(shape.num_kv_heads, 0);
  TIDEWHEEL_CHECK_GT(shape.num_q_heads, 0);
  TIDEWHEEL_CHECK_EQ(shape.num_q_heads % shape.num_kv_heads, 0);
  const int32_t kv_packing = KvPacking(shape.kv_dtype);
  const int32_t combined_heads = 2 * shape.num_kv_heads;
  if (!IsXlaFullyTiled(combined_heads, kv_packing)) return std::nullopt;
  const int32_t full_tile = 8 * kv_packing;
  if (combined_heads % full_tile == 0) {
    const int32_t group = shape.num_q_heads / shape.num_kv_heads;
    const HeadBlock block = {.num_q_heads = full_tile / 2 * group,
                             .num_kv_heads = full_tile / 2};
    if (IsXlaFullyTiled(block.num_q_heads, QueryPacking(shape.q_dtype))) {
      return block;
    }
  }
  return HeadBlock{.num_q_heads = shape.num_q_heads,
                   .num_kv_heads = shape.num_kv_heads};
}

}  // namespace tidewheel
