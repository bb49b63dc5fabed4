// Shapes that a program can not have, and what is true of programs as text.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "attention/stablehlo/attention_program.h"
#include "attention/stablehlo/program_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AttentionProgramShape GoodShape() {
  AttentionProgramShape shape;
  shape.num_tokens = 8;
  shape.num_q_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = shape.pool_head_dim = 8;
  shape.page_size = 4;
  shape.total_num_pages = 12;
  shape.max_num_seqs = 4;
  shape.pages_per_seq = 4;
  return shape;
}

TEST(AttentionShapeTest, WhatDoesNotFitIsNamed) {
  using Change = void (*)(AttentionProgramShape&);
  const std::pair<Change, const char*> cases[] = {
      {[](auto& s) { s.num_tokens = 0; }, "num_tokens 0 is below 1"},
      {[](auto& s) { s.num_kv_heads = -2; }, "num_kv_heads -2 is below 1"},
      {[](auto& s) { s.num_q_heads = 5; },
       "num_q_heads 5 must be a multiple of num_kv_heads 2"},
      {[](auto& s) { s.pool_head_dim = 7; },
       "pool_head_dim 7 is below head_dim 8"},
      {[](auto& s) { s.pool_kv_heads = 1; },
       "pool_kv_heads 1 is below num_kv_heads 2"},
      {[](auto& s) { s.pool_head_rows = 3; },
       "pool_head_rows 3 does not divide pool_head_dim 8"},
      {[](auto& s) { s.row_tile = -1; }, "row_tile -1 is below 0"},
      {[](auto& s) { s.total_num_pages = 1 << 29; },
       "total_num_pages 536870912 times page_size 4 exceeds 2147483647"},
      {[](auto& s) { s.pages_per_seq = 1 << 29; },
       "pages_per_seq 536870912 times page_size 4 exceeds 2147483647"},
      {[](auto& s) { s.max_num_seqs = 1 << 30; },
       "max_num_seqs 1073741824 exceeds 1073741823"},
      {[](auto& s) { s.num_kv_heads = s.num_q_heads = int64_t{1} << 50; },
       "kv_pages takes more than 1125899906842624 bytes"},
      {[](auto& s) { s.q_type = ScalarType::kInt8; },
       "q_type is int8 and must be float32 or bfloat16"},
      {[](auto& s) { s.new_kv_type = ScalarType::kFloat8E5m2; },
       "new_kv_type is float8_e5m2 and must be float32, bfloat16 or the "
       "pool's float32"},
      {[](auto& s) { s.options.sm_scale = HUGE_VALF; }, "sm_scale is inf"},
      {[](auto& s) { s.options.sliding_window = 0; },
       "sliding_window 0 must be positive"},
      {[](auto& s) { s.options.soft_cap = 0.0f; }, "soft_cap 0 must not be 0"},
      {[](auto& s) { s.options.mask_value = HUGE_VALF; }, "mask_value is inf"},
      {[](auto& s) { s.options.v_scale = 0.0f; }, "v_scale is 0"}};
  EXPECT_THAT(EmitAttention(GoodShape()), IsOk());
  for (const auto& [change, text] : cases) {
    AttentionProgramShape shape = GoodShape();
    change(shape);
    EXPECT_THAT(EmitAttention(shape),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
  // Nothing is divided by the scale, and no type of k is needed.
  AttentionProgramShape reads = GoodShape();
  reads.writes_kv = false;
  reads.new_kv_type = ScalarType::kInt8;
  reads.options.k_scale = 0.0f;
  EXPECT_THAT(EmitAttention(reads), IsOk());
}

TEST(AttentionShapeTest, LargestIndicesAreAccepted) {
  AttentionProgramShape shape = GoodShape();
  shape.page_size = 1;
  shape.total_num_pages = INT32_MAX;
  shape.pages_per_seq = INT32_MAX;
  EXPECT_THAT(EmitAttention(shape), IsOk());
}

TEST(AttentionShapeTest, ChosenTilesAreNoLargerThanWhatTheyTile) {
  for (const int64_t size : {1, 3, 1000}) {
    AttentionProgramShape shape = GoodShape();
    shape.form = AttentionForm::kPrefill;
    shape.num_tokens = shape.max_num_seqs = shape.pages_per_seq = size;
    for (const int64_t page_size : {1, 64, 1024}) {
      shape.page_size = page_size;
      const AttentionProgramShape chosen = WithChosenTiles(shape);
      EXPECT_GE(chosen.kv_block_pages, 1);
      EXPECT_LE(chosen.kv_block_pages, size);
      EXPECT_GE(chosen.row_tile, 1);
      EXPECT_LE(chosen.row_tile, size);
      EXPECT_GE(chosen.query_tile, 1);
      EXPECT_LE(chosen.query_tile, size);
    }
  }
}

TEST(AttentionShapeTest, SameShapeGivesTheSameBytes) {
  AttentionProgramShape shape = GoodShape();
  for (const AttentionForm form :
       {AttentionForm::kDecode, AttentionForm::kPrefill}) {
    shape.form = form;
    const auto first = EmitAttention(shape);
    const auto second = EmitAttention(shape);
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    EXPECT_EQ(first->text, second->text);
    // Neither compiler takes a dimension that is not known.
    EXPECT_THAT(first->text, Not(HasSubstr("?")));
    AttentionProgramShape other = shape;
    other.options.sm_scale = 0.5f;
    EXPECT_NE(EmitAttention(other)->text, first->text);
  }
}

TEST(AttentionShapeTest, ATpusPoolHasWholeTilesAndNoMore) {
  AttentionProgramShape shape = GoodShape();
  const auto pool_kv_heads = [&shape](ScalarType type, int64_t heads) {
    shape.kv_type = type;
    shape.num_kv_heads = heads;
    return WithTpuPool(shape).pool_combined_heads() / 2;
  };
  for (const ScalarType type : {ScalarType::kFloat32, ScalarType::kBfloat16,
                                ScalarType::kFloat8E4m3fn}) {
    EXPECT_EQ(pool_kv_heads(type, 1),
              type == ScalarType::kFloat8E4m3fn ? 2 : 1);
    EXPECT_EQ(pool_kv_heads(type, 2), 2);
    EXPECT_EQ(pool_kv_heads(type, 3), 4);
    EXPECT_EQ(pool_kv_heads(type, 8), 8);
    EXPECT_EQ(pool_kv_heads(type, 10), 12);
  }
  // Two rows a head, so that 6 of them are 24 rows.
  shape.head_dim = 129;
  EXPECT_EQ(WithTpuPool(shape).pool_head_dim, 256);
  EXPECT_EQ(WithTpuPool(shape).pool_row_width(), 128);
  EXPECT_EQ(pool_kv_heads(ScalarType::kBfloat16, 1), 1);
  EXPECT_EQ(pool_kv_heads(ScalarType::kInt8, 1), 1);
  EXPECT_EQ(pool_kv_heads(ScalarType::kBfloat16, 3), 4);
  EXPECT_EQ(pool_kv_heads(ScalarType::kBfloat16, 6), 6);
}

TEST(AttentionShapeTest, SignatureNamesWhatIsDonated) {
  AttentionProgramShape shape = GoodShape();
  shape.kv_type = shape.new_kv_type = ScalarType::kFloat8E4m3fn;
  shape.pool_head_dim = 16;
  shape.pool_as_bits = true;
  const auto program = EmitAttention(shape);
  ASSERT_THAT(program, IsOk());
  ASSERT_EQ(program->arguments.size(), 8u);
  EXPECT_EQ(program->arguments[2].type.ToString(), "tensor<8x2x8xui8>");
  EXPECT_EQ(program->arguments[3].name, "kv_pages");
  EXPECT_EQ(program->arguments[3].type.ToString(), "tensor<12x4x4x16xui8>");
  EXPECT_EQ(program->arguments[3].aliased_result, 1);
  EXPECT_EQ(program->donated_bytes(), 12 * 4 * 4 * 16);
  EXPECT_EQ(program->results[1], program->arguments[3].type);
  shape.writes_kv = false;
  const auto reads = EmitAttention(shape);
  ASSERT_THAT(reads, IsOk());
  EXPECT_EQ(reads->arguments.size(), 6u);
  EXPECT_EQ(reads->results.size(), 1u);
  EXPECT_EQ(reads->donated_bytes(), 0);
}

TEST(ProgramBuilderDeathTest, ShapesThatDoNotFitAreAMisuse) {
  ProgramBuilder b;
  const Value three = b.Iota({3}, 0);
  const Value four = b.Iota({4}, 0);
  EXPECT_DEATH(b.Add(three, four), "left.type == right.type");
  EXPECT_DEATH(b.Add(three, b.Float32(1)), "left.type == right.type");
  EXPECT_DEATH(b.Reshape(three, {4}), "num_elements");
}

TEST(ProgramBuilderDeathTest, ValueOfAClosedLoopIsAMisuse) {
  ProgramBuilder b;
  Value inside;
  b.While(
      {b.Int32(0)},
      [&](const std::vector<Value>& s) {
        return b.Compare(ProgramBuilder::Direction::kLt, s[0], b.Int32(3));
      },
      [&](const std::vector<Value>& s) -> std::vector<Value> {
        inside = b.Add(s[0], b.Int32(1));
        return {inside};
      });
  EXPECT_DEATH(b.Add(inside, inside), "in_scope");
}

}  // namespace
}  // namespace tidewheel
