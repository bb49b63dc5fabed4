#include "attention/stablehlo/key_loop.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "attention/stablehlo/kv_write.h"

namespace tidewheel {
namespace {

using Direction = ProgramBuilder::Direction;
using Precision = ProgramBuilder::Precision;

class KeyLoop {
 public:
  KeyLoop(ProgramBuilder& b, const AttentionProgramShape& shape,
          const Value& kv_pages, const Value& page_indices,
          const QueryTile& tile)
      : b_(b),
        shape_(shape),
        kv_pages_(kv_pages),
        page_indices_(page_indices),
        tile_(tile),
        num_rows_(tile.position.dim(0)),
        num_queries_(tile.position.dim(1)),
        // Per query and head, in the order that a dot product gives.
        state_dims_({num_rows_, shape.num_kv_heads, num_queries_,
                     shape.group_size()}) {}

  Value Emit();

 private:
  // K and V of one block, and where it begins.
  struct Block {
    Value k;         // [num_rows, block_tokens, num_kv_heads, head_dim]
    Value v;         // the same in float32, 0 where no query sees it
    Value position;  // i32[block_tokens]
  };

  Dims WithLast(Dims dims, int64_t last) const {
    dims.push_back(last);
    return dims;
  }
  bool has_window() const { return shape_.options.sliding_window.has_value(); }
  // What K and the queries are multiplied in: bfloat16 if it holds both.
  ElementType DotType() const;
  Precision DotPrecision() const {
    return shape_.q_type == ScalarType::kFloat32 ? Precision::kHighest
                                                 : Precision::kHigh;
  }

  void FindKeys();
  void FindBlocks();
  Value GatherPages(const Value& ids);
  Block GatherBlock(const Value& block);
  Value Dequantised(const Value& stored, std::optional<float> scale);
  Value Logits(const Block& block);
  Value IsRead(const Block& block);
  Values Fold(const Values& state);

  ProgramBuilder& b_;
  const AttentionProgramShape& shape_;
  const Value kv_pages_;
  const Value page_indices_;
  const QueryTile& tile_;
  const int64_t num_rows_;
  const int64_t num_queries_;
  const Dims state_dims_;
  Value queries_;      // [num_rows, num_queries, num_kv_heads, group, head_dim]
  Value first_key_;    // i32[num_rows, num_queries]: keys that are read
  Value end_key_;      // i32[num_rows, num_queries]
  Value begin_block_;  // scalars
  Value end_block_;
};

ElementType KeyLoop::DotType() const {
  const bool q_fits = shape_.q_type == ScalarType::kBfloat16;
  // Every 8-bit type is exact in bfloat16.
  const bool k_fits = shape_.kv_type != ScalarType::kFloat32 ||
                      shape_.options.k_scale.has_value();
  return q_fits && k_fits ? ElementType::kBfloat16 : ElementType::kFloat32;
}

// Which keys each query reads.
void KeyLoop::FindKeys() {
  const Dims dims = tile_.position.type.dims;
  const Value next = b_.Add(tile_.position, b_.Int32(1));
  Value end = next;
  Value first = b_.Fill(b_.Int32(0), dims);
  if (!shape_.mask_hides()) {
    end = b_.Broadcast(tile_.kv_len, dims, {0});
  } else if (has_window()) {
    first = b_.Max(b_.Sub(next, b_.Int32(*shape_.options.sliding_window)),
                   b_.Int32(0));
  }
  end_key_ = b_.Select(tile_.is_live, end, b_.Int32(0));
  first_key_ = b_.Select(tile_.is_live, first, b_.Int32(INT32_MAX));
}

// The blocks that any query needs.
void KeyLoop::FindBlocks() {
  const Value block_tokens = b_.Int32(shape_.block_tokens());
  begin_block_ = b_.Div(b_.Reduce("minimum", first_key_, {0, 1}), block_tokens);
  // Of the last key, since the end may be the largest int32.
  const Value last = b_.Sub(
      b_.Max(b_.Reduce("maximum", end_key_, {0, 1}), b_.Int32(0)), b_.Int32(1));
  const Value last_block = b_.Div(last, block_tokens);
  end_block_ = b_.Select(b_.Compare(Direction::kLt, last, b_.Int32(0)),
                         b_.Int32(0), b_.Add(last_block, b_.Int32(1)));
}

// K or V as the dot products take it: float32, or q's type if it is scaled.
Value KeyLoop::Dequantised(const Value& stored, std::optional<float> scale) {
  const Value typed = b_.BitcastConvert(stored, ElementTypeOf(shape_.kv_type));
  const Value wide = b_.Convert(typed, ElementType::kFloat32);
  if (!scale.has_value()) return wide;
  const Value product = b_.Mul(wide, b_.Float32(*scale));
  if (shape_.q_type == ScalarType::kFloat32) return product;
  // A compiler may drop a conversion to bfloat16 and back; not this.
  return b_.ReducePrecision(product, 8, 7);
}

// The pages of i32[num_rows, n], in their order, as the pool stores them.
Value KeyLoop::GatherPages(const Value& ids) {
  // TPU compilers copy the pool to gather slices of more elements.
  constexpr int64_t kLargestSlice = int64_t{1} << 18;
  const int64_t slot_elements =
      shape_.pool_slot_rows() * shape_.pool_row_width();
  int64_t parts = 1;  // of a page
  while (shape_.page_size / parts * slot_elements > kLargestSlice &&
         shape_.page_size % (2 * parts) == 0) {
    parts *= 2;
  }
  // With fewer than 8 rows a slot they store gathered pages of four dimensions
  // in other tiles than the pool's, and copy the pool to have them; of three
  // they do not.
  const Dims slice = {1, shape_.page_size / parts * shape_.pool_slot_rows(),
                      shape_.pool_row_width()};
  const Value pool = b_.Reshape(
      kv_pages_, {shape_.total_num_pages * parts, slice[1], slice[2]});
  const int64_t num_slices = ids.dim(1) * parts;
  Value slices = ids;
  if (parts > 1) {
    const Dims dims = {num_rows_, ids.dim(1), parts};
    const Value first =
        b_.Broadcast(b_.Mul(ids, b_.Int32(parts)), dims, {0, 1});
    slices = b_.Add(first, b_.Iota(dims, 2));
  }
  return b_.Gather(pool, b_.Reshape(slices, {num_rows_, num_slices, 1}), slice,
                   1);
}

KeyLoop::Block KeyLoop::GatherBlock(const Value& block) {
  const int64_t pages = shape_.kv_block_pages;
  const int64_t tokens = shape_.block_tokens();
  const int64_t heads = shape_.num_kv_heads;
  // The table's last block may overlap the one before it.
  const Value entry = b_.Min(b_.Mul(block, b_.Int32(pages)),
                             b_.Int32(shape_.pages_per_seq - pages));
  const Dims column = {num_rows_, 1};
  const Value corner = b_.Concatenate(
      {b_.Reshape(tile_.row, column), b_.Fill(entry, column)}, 1);
  const Value ids = b_.Gather(page_indices_, corner, {1, pages}, 1);
  const Value got = GatherPages(ids);
  const int64_t pool_heads = shape_.pool_combined_heads() / 2;
  const Value split =
      b_.Reshape(got, {num_rows_, tokens, pool_heads, 2, shape_.pool_head_dim});
  const auto take = [&](int64_t which) {
    const Value part =
        b_.Slice(split, {0, 0, 0, which, 0},
                 {num_rows_, tokens, heads, which + 1, shape_.head_dim});
    return b_.Reshape(part, {num_rows_, tokens, heads, shape_.head_dim});
  };

  Block result;
  result.position =
      b_.Add(b_.Iota({tokens}, 0), b_.Mul(entry, b_.Int32(shape_.page_size)));
  result.k =
      b_.Convert(Dequantised(take(0), shape_.options.k_scale), DotType());
  // Slots that are not read may hold anything, and 0 times NaN is NaN.
  const Dims keys = {num_rows_, tokens};
  const Value position = b_.Broadcast(result.position, keys, {1});
  const auto bound = [&](const char* op, const Value& of) {
    return b_.Broadcast(b_.Reduce(op, of, {1}), keys, {0});
  };
  const Value is_read =
      b_.And(b_.Compare(Direction::kGe, position, bound("minimum", first_key_)),
             b_.Compare(Direction::kLt, position, bound("maximum", end_key_)));
  const Value v = Dequantised(take(1), shape_.options.v_scale);
  result.v =
      b_.Select(b_.Broadcast(is_read, v.type.dims, {0, 1}), v, b_.Float32(0));
  return result;
}

// [num_rows, num_queries, block_tokens]: keys of this block that count.
Value KeyLoop::IsRead(const Block& block) {
  const Dims dims = {num_rows_, num_queries_, shape_.block_tokens()};
  const Value position = b_.Broadcast(block.position, dims, {2});
  return b_.And(b_.Compare(Direction::kGe, position,
                           b_.Broadcast(first_key_, dims, {0, 1})),
                b_.Compare(Direction::kLt, position,
                           b_.Broadcast(end_key_, dims, {0, 1})));
}

// [state dims, block_tokens]; a mask that leaks is added.
Value KeyLoop::Logits(const Block& block) {
  Value logits = b_.Dot(queries_, block.k,
                        {.lhs_batching = {0, 2},
                         .rhs_batching = {0, 2},
                         .lhs_contracting = {4},
                         .rhs_contracting = {3}},
                        DotPrecision());
  logits = b_.Mul(logits, b_.Float32(shape_.options.sm_scale));
  if (shape_.options.soft_cap.has_value()) {
    const Value cap = b_.Float32(*shape_.options.soft_cap);
    logits = b_.Mul(b_.Unary("tanh", b_.Div(logits, cap)), cap);
  }
  if (shape_.mask_hides()) return logits;
  const Dims dims = {num_rows_, num_queries_, shape_.block_tokens()};
  const Value key = b_.Broadcast(block.position, dims, {2});
  const Value query = b_.Broadcast(tile_.position, dims, {0, 1});
  Value is_masked = b_.Compare(Direction::kGt, key, query);
  if (has_window()) {
    const Value window = b_.Int32(*shape_.options.sliding_window);
    is_masked = b_.Or(is_masked,
                      b_.Compare(Direction::kLe, key, b_.Sub(query, window)));
  }
  const Value mask = b_.Select(is_masked, b_.Float32(shape_.options.mask_value),
                               b_.Float32(0));
  return b_.Add(logits, b_.Broadcast(mask, logits.type.dims, {0, 2, 4}));
}

// (block, maximum, sum, weighted values) after one block more.
Values KeyLoop::Fold(const Values& state) {
  const Value& block_number = state[0];
  const Value& old_maximum = state[1];
  const Value& old_sum = state[2];
  const Value& old_values = state[3];
  const Block block = GatherBlock(block_number);

  Value is_read = IsRead(block);
  if (shape_.pages_per_seq % shape_.kv_block_pages != 0) {
    const Value begin = b_.Mul(block_number, b_.Int32(shape_.block_tokens()));
    const Value is_new = b_.Compare(Direction::kGe, block.position, begin);
    is_read = b_.And(is_read, b_.Broadcast(is_new, is_read.type.dims, {2}));
  }
  const Dims dims = WithLast(state_dims_, shape_.block_tokens());
  const Value logits = b_.Select(b_.Broadcast(is_read, dims, {0, 2, 4}),
                                 Logits(block), b_.Float32(-HUGE_VALF));

  const Value maximum = b_.Max(old_maximum, b_.Reduce("maximum", logits, {4}));
  // Before its first key a query's maximum is -infinity, and the difference
  // of two of them is NaN.
  const Value shift =
      b_.Select(b_.Compare(Direction::kEq, maximum, b_.Float32(-HUGE_VALF)),
                b_.Float32(0), maximum);
  const Value weights = b_.Unary(
      "exponential", b_.Sub(logits, b_.Broadcast(shift, dims, {0, 1, 2, 3})));
  const Value shrink = b_.Unary("exponential", b_.Sub(old_maximum, shift));
  const Value sum =
      b_.Add(b_.Mul(old_sum, shrink), b_.Reduce("add", weights, {4}));
  const Value added = b_.Dot(weights, block.v,
                             {.lhs_batching = {0, 1},
                              .rhs_batching = {0, 2},
                              .lhs_contracting = {4},
                              .rhs_contracting = {1}},
                             DotPrecision());
  const Value kept =
      b_.Mul(old_values, b_.Broadcast(shrink, added.type.dims, {0, 1, 2, 3}));
  return {b_.Add(block_number, b_.Int32(1)), maximum, sum, b_.Add(kept, added)};
}

Value KeyLoop::Emit() {
  queries_ = b_.Convert(
      b_.Reshape(tile_.q, {num_rows_, num_queries_, shape_.num_kv_heads,
                           shape_.group_size(), shape_.head_dim}),
      DotType());
  FindKeys();
  const Value zero = b_.Float32(0);
  const Dims value_dims = WithLast(state_dims_, shape_.head_dim);
  Values state = {b_.Int32(0), b_.Fill(b_.Float32(-HUGE_VALF), state_dims_),
                  b_.Fill(zero, state_dims_), b_.Fill(zero, value_dims)};
  if (shape_.pages_per_seq == shape_.kv_block_pages) {
    // A TPU compiler takes the gather out of a loop of one block, and then
    // carries a converted copy of the pool that nothing reads through it.
    state = Fold(state);
  } else {
    FindBlocks();
    state[0] = begin_block_;
    state = b_.While(
        state,
        [this](const Values& s) {
          return b_.Compare(Direction::kLt, s[0], end_block_);
        },
        [this](const Values& s) { return Fold(s); });
  }

  const Value is_live = b_.Broadcast(tile_.is_live, value_dims, {0, 2});
  const Value sum = b_.Broadcast(state[2], value_dims, {0, 1, 2, 3});
  const Value out = b_.Select(is_live, b_.Div(state[3], sum), zero);
  const Value ordered = b_.Transpose(out, {0, 2, 1, 3, 4});
  return b_.Convert(b_.Reshape(ordered, tile_.q.type.dims),
                    tile_.q.type.element);
}

}  // namespace

Value EmitKeyLoop(ProgramBuilder& b, const AttentionProgramShape& shape,
                  const Value& kv_pages, const Value& page_indices,
                  const QueryTile& tile) {
  return KeyLoop(b, shape, kv_pages, page_indices, tile).Emit();
}

}  // namespace tidewheel
