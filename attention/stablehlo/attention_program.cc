#include "attention/stablehlo/attention_program.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/stablehlo/batch_values.h"
#include "attention/stablehlo/key_loop.h"
#include "attention/stablehlo/kv_write.h"
#include "attention/stablehlo/program_builder.h"

namespace tidewheel {
namespace {

using Direction = ProgramBuilder::Direction;

// Query tokens that gather their own pages. All [n].
struct QueryList {
  Value row;
  Value token;     // where its query and output are
  Value position;  // in its sequence
  Value is_live;
};

class AttentionProgram {
 public:
  explicit AttentionProgram(const AttentionProgramShape& shape)
      : shape_(shape) {}

  Program Emit();

 private:
  void DeclareArguments();
  // Rows with one query token, as a list.
  QueryList SingleQueryRows();
  Value QueryLens();
  // `out` with the outputs of the list's queries.
  Value AttendToList(const QueryList& queries, const Value& out);
  // `out` with the outputs of the rows that have more than one query token.
  Value AttendToLongRows(const Value& out);
  Values AttendToNextTile(const Values& state);

  const AttentionProgramShape shape_;
  ProgramBuilder b_;
  Value q_;
  Value k_;
  Value v_;
  Value kv_pages_;
  BatchValues batch_;
};

void AttentionProgram::DeclareArguments() {
  const int64_t tokens = shape_.num_tokens;
  const Dims q_dims = {tokens, shape_.num_q_heads, shape_.head_dim};
  const Dims kv_dims = {tokens, shape_.num_kv_heads, shape_.head_dim};
  q_ = b_.Argument("q", {ElementTypeOf(shape_.q_type), q_dims});
  if (shape_.writes_kv) {
    const ElementType type = shape_.declared_new_kv_type();
    k_ = b_.Argument("k", {type, kv_dims});
    v_ = b_.Argument("v", {type, kv_dims});
  }
  const TensorType pool = {shape_.declared_kv_type(),
                           {shape_.total_num_pages, shape_.page_size,
                            shape_.pool_slot_rows(), shape_.pool_row_width()}};
  kv_pages_ = shape_.writes_kv ? b_.Argument("kv_pages", pool, 1)
                               : b_.Argument("kv_pages", pool);
  const auto argument = [this](const char* name, const Dims& dims) {
    return b_.Argument(name, {ElementType::kInt32, dims});
  };
  batch_.kv_lens = argument("kv_lens", {shape_.max_num_seqs});
  batch_.page_indices =
      argument("page_indices", {shape_.max_num_seqs, shape_.pages_per_seq});
  batch_.cu_q_lens = argument("cu_q_lens", {shape_.max_num_seqs + 1});
  batch_.num_seqs = b_.Reshape(argument("num_seqs", {1}), {});
}

// i32[max_num_seqs]; 0 for rows that are not in use.
Value AttentionProgram::QueryLens() {
  const Value is_live = b_.Compare(
      Direction::kLt, b_.Iota({shape_.max_num_seqs}, 0), batch_.num_seqs);
  return b_.Select(is_live, b_.Sub(batch_.row_end(b_), batch_.row_begin(b_)),
                   b_.Int32(0));
}

QueryList AttentionProgram::SingleQueryRows() {
  QueryList list;
  list.row = b_.Iota({shape_.max_num_seqs}, 0);
  list.token = batch_.row_begin(b_);
  list.position = b_.Sub(batch_.kv_lens, b_.Int32(1));
  list.is_live = b_.Compare(Direction::kEq, QueryLens(), b_.Int32(1));
  return list;
}

Value AttentionProgram::AttendToList(const QueryList& queries,
                                     const Value& out) {
  const int64_t count = queries.row.dim(0);
  const int64_t tile = shape_.row_tile;
  const Value number = b_.Iota({count}, 0);
  const Value first = b_.Reduce(
      "minimum", b_.Select(queries.is_live, number, b_.Int32(INT32_MAX)), {0});
  const Value last = b_.Reduce(
      "maximum", b_.Select(queries.is_live, number, b_.Int32(-1)), {0});
  const Values state = b_.While(
      {first, out},
      [&](const Values& s) { return b_.Compare(Direction::kLe, s[0], last); },
      [&](const Values& s) -> Values {
        // The last tile may overlap the one before it and give the same again.
        const Value start = b_.Min(s[0], b_.Int32(count - tile));
        const auto take = [&](const Value& v) {
          return b_.DynamicSlice(v, {start}, {tile});
        };
        const Value row = take(queries.row);
        const Value token = take(queries.token);
        const Value is_live = take(queries.is_live);
        const Dims slice = {1, shape_.num_q_heads, shape_.head_dim};
        const Value q = b_.Gather(q_, b_.Reshape(token, {tile, 1}), slice, 1);
        const Value attended = EmitKeyLoop(
            b_, shape_, kv_pages_, batch_.page_indices,
            {.q = b_.Reshape(q, {tile, 1, slice[1], slice[2]}),
             .row = row,
             .kv_len = Pick(b_, batch_.kv_lens, row),
             .position = b_.Reshape(take(queries.position), {tile, 1}),
             .is_live = b_.Reshape(is_live, {tile, 1})});
        const Value target =
            b_.Select(is_live, token, b_.Int32(shape_.num_tokens));
        return {b_.Add(s[0], b_.Int32(tile)),
                b_.Scatter(s[1], target, b_.Reshape(attended, q.type.dims))};
      });
  return state[1];
}

// (row, token, out): attends to `query_tile` tokens of `row` from `token` on.
Values AttentionProgram::AttendToNextTile(const Values& state) {
  const Value& row = state[0];
  const Value& token = state[1];
  const Value& out = state[2];
  const int64_t tile = shape_.query_tile;
  const auto at = [&](const Value& v, const Value& index) {
    return b_.Reshape(b_.DynamicSlice(v, {index}, {1}), {});
  };
  const Value next_row = b_.Add(row, b_.Int32(1));
  const Value begin = at(batch_.cu_q_lens, row);
  const Value end = at(batch_.cu_q_lens, next_row);
  const Value kv_len = at(batch_.kv_lens, row);

  // Tokens of other rows may lie on both sides of the tile's own.
  const Value start = b_.Min(token, b_.Int32(shape_.num_tokens - tile));
  const Value number = b_.Add(b_.Iota({tile}, 0), start);
  const Value is_long =
      b_.Compare(Direction::kGt, b_.Sub(end, begin), b_.Int32(1));
  const Value is_own = b_.And(b_.Compare(Direction::kGe, number, token),
                              b_.Compare(Direction::kLt, number, end));
  const Value is_live = b_.And(is_own, is_long);
  const Value position = b_.Add(number, b_.Sub(kv_len, end));

  const Value zero = b_.Int32(0);
  const Dims slice = {tile, shape_.num_q_heads, shape_.head_dim};
  const Value q = b_.DynamicSlice(q_, {start, zero, zero}, slice);
  const Value attended =
      EmitKeyLoop(b_, shape_, kv_pages_, batch_.page_indices,
                  {.q = b_.Reshape(q, {1, tile, slice[1], slice[2]}),
                   .row = b_.Reshape(row, {1}),
                   .kv_len = b_.Reshape(kv_len, {1}),
                   .position = b_.Reshape(position, {1, tile}),
                   .is_live = b_.Reshape(is_live, {1, tile})});
  const Value merged =
      b_.Select(b_.Broadcast(is_live, slice, {0}), b_.Reshape(attended, slice),
                b_.DynamicSlice(out, {start, zero, zero}, slice));

  const Value next_token = b_.Add(token, b_.Int32(tile));
  const Value is_done = b_.Compare(Direction::kGe, next_token, end);
  return {b_.Select(is_done, next_row, row),
          b_.Select(is_done, end, next_token),
          b_.DynamicUpdateSlice(out, merged, {start, zero, zero})};
}

Value AttentionProgram::AttendToLongRows(const Value& out) {
  const Value is_long = b_.Compare(Direction::kGt, QueryLens(), b_.Int32(1));
  const Value first =
      b_.Reduce("minimum",
                b_.Select(is_long, b_.Iota({shape_.max_num_seqs}, 0),
                          b_.Int32(shape_.max_num_seqs)),
                {0});
  const Value token =
      b_.Reshape(b_.DynamicSlice(batch_.cu_q_lens, {first}, {1}), {});
  const Values state = b_.While(
      {first, token, out},
      [this](const Values& s) {
        return b_.Compare(Direction::kLt, s[0], batch_.num_seqs);
      },
      [this](const Values& s) { return AttendToNextTile(s); });
  return state[2];
}

Program AttentionProgram::Emit() {
  DeclareArguments();
  const TokenValues tokens = PlaceTokens(b_, batch_, shape_.num_tokens);
  if (shape_.writes_kv) {
    kv_pages_ = EmitKvWrite(b_, shape_, batch_, tokens, k_, v_, kv_pages_);
  }
  Value out = b_.Fill(b_.Zero(q_.type.element), q_.type.dims);
  if (shape_.form == AttentionForm::kDecode) {
    out = AttendToList({.row = tokens.row,
                        .token = b_.Iota({shape_.num_tokens}, 0),
                        .position = tokens.position,
                        .is_live = tokens.is_live},
                       out);
  } else {
    out = AttendToLongRows(AttendToList(SingleQueryRows(), out));
  }
  Values results = {out};
  if (shape_.writes_kv) results.push_back(kv_pages_);
  return b_.Finish(shape_.form == AttentionForm::kDecode ? "attention_decode"
                                                         : "attention_prefill",
                   results);
}

}  // namespace

absl::StatusOr<Program> EmitAttention(const AttentionProgramShape& shape) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckAttentionShape(shape));
  return AttentionProgram(WithChosenTiles(shape)).Emit();
}

}  // namespace tidewheel
