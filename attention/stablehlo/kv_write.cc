#include "attention/stablehlo/kv_write.h"

#include <optional>

namespace tidewheel {
namespace {

using Direction = ProgramBuilder::Direction;

// The nearest int8 of the clamped float32 `v`; 0 for NaN.
Value NearestInt8(ProgramBuilder& b, const Value& v) {
  const Value is_number = b.Compare(Direction::kEq, v, v);
  const Value number = b.Select(is_number, v, b.Float32(0));
  return b.Convert(b.Unary("round_nearest_even", number), ElementType::kInt8);
}

// `v`, k or v as it was given, as the pool stores it.
Value Stored(ProgramBuilder& b, const AttentionProgramShape& shape,
             std::optional<float> scale, const Value& v) {
  if (shape.new_kv_type == shape.kv_type) return v;
  Value wide = b.Convert(v, ElementType::kFloat32);
  if (scale.has_value()) wide = b.Div(wide, b.Float32(*scale));
  if (SizeOfScalar(shape.kv_type) == 1) {
    const float largest = LargestOf(shape.kv_type);
    const float least = shape.kv_type == ScalarType::kInt8 ? -128 : -largest;
    wide = b.Max(b.Min(wide, b.Float32(largest)), b.Float32(least));
  }
  if (shape.kv_type == ScalarType::kInt8) return NearestInt8(b, wide);
  const Value narrow = b.Convert(wide, ElementTypeOf(shape.kv_type));
  return b.BitcastConvert(narrow, shape.declared_kv_type());
}

}  // namespace

Value EmitKvWrite(ProgramBuilder& b, const AttentionProgramShape& shape,
                  const BatchValues& batch, const TokenValues& tokens,
                  const Value& k, const Value& v, const Value& kv_pages) {
  const int64_t num_tokens = shape.num_tokens;
  const int64_t num_slots = shape.total_num_pages * shape.page_size;
  const Value page_size = b.Int32(shape.page_size);
  const Value entry = b.Div(tokens.position, page_size);
  const Value table_index =
      b.Concatenate({b.Reshape(tokens.row, {num_tokens, 1}),
                     b.Reshape(entry, {num_tokens, 1})},
                    1);
  const Value page = b.Gather(batch.page_indices, table_index, {1, 1}, 2);
  const Value offset = b.Binary("remainder", tokens.position, page_size);
  // Out of bounds is where a scatter writes nothing.
  const Value slot =
      b.Select(tokens.is_live, b.Add(b.Mul(page, page_size), offset),
               b.Int32(num_slots));

  const Dims pair_dims = {num_tokens, shape.num_kv_heads, 1, shape.head_dim};
  const Value k_rows = Stored(b, shape, shape.options.k_scale, k);
  const Value v_rows = Stored(b, shape, shape.options.v_scale, v);
  Value rows = b.Concatenate(
      {b.Reshape(k_rows, pair_dims), b.Reshape(v_rows, pair_dims)}, 2);
  rows = b.Reshape(rows, {num_tokens, 2 * shape.num_kv_heads, shape.head_dim});
  rows = b.PadWithZeros(rows, 2, shape.pool_head_dim);
  rows = b.PadWithZeros(rows, 1, shape.pool_combined_heads());
  rows = b.Reshape(
      rows, {num_tokens, shape.pool_slot_rows(), shape.pool_row_width()});
  const Dims slots = {num_slots, shape.pool_slot_rows(),
                      shape.pool_row_width()};
  const Value written = b.Scatter(b.Reshape(kv_pages, slots), slot, rows);
  return b.Reshape(written, kv_pages.type.dims);
}

}  // namespace tidewheel
