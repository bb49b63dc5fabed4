#include "attention/stablehlo/batch_values.h"

namespace tidewheel {

using Direction = ProgramBuilder::Direction;

Value BatchValues::row_begin(ProgramBuilder& b) const {
  return b.Slice(cu_q_lens, {0}, {cu_q_lens.dim(0) - 1});
}

Value BatchValues::row_end(ProgramBuilder& b) const {
  return b.Slice(cu_q_lens, {1}, {cu_q_lens.dim(0)});
}

Value Pick(ProgramBuilder& b, const Value& v, const Value& indices) {
  const Value column = b.Reshape(indices, {indices.dim(0), 1});
  return b.Gather(v, column, {1}, 1);
}

TokenValues PlaceTokens(ProgramBuilder& b, const BatchValues& batch,
                        int64_t num_tokens) {
  const Dims grid = {num_tokens, batch.kv_lens.dim(0)};
  const Value ends = batch.row_end(b);
  // A token's row is the number of live rows that end at or before it.
  const Value is_past =
      b.Compare(Direction::kGe, b.Iota(grid, 0), b.Broadcast(ends, grid, {1}));
  const Value row_is_live =
      b.Compare(Direction::kLt, b.Iota(grid, 1), batch.num_seqs);
  const Value counted =
      b.Convert(b.And(is_past, row_is_live), ElementType::kInt32);
  TokenValues tokens;
  tokens.row = b.Reduce("add", counted, {1});
  tokens.is_live = b.Compare(Direction::kLt, tokens.row, batch.num_seqs);
  const Value from_end =
      b.Sub(b.Iota({num_tokens}, 0), Pick(b, ends, tokens.row));
  tokens.position = b.Add(Pick(b, batch.kv_lens, tokens.row), from_end);
  return tokens;
}

}  // namespace tidewheel
