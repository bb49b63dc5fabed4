// Which heads, types, head_dims and blocks a generation accepts.
//
// Each fact is one verdict of the TPU compiler (libtpu 0.0.42.1, jax 0.10.2)
// or of JAX's export.

#include <string>
#include <vector>

#include "attention/kernel_shape.h"
#include "attention/limit_finding.h"
#include "attention/shape_rules.h"
#include "attention/tpu_generation.h"
#include "attention/tpu_limits.h"
#include "attention/vmem_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

KernelShape Small(int32_t q_heads, int32_t kv_heads) {
  KernelShape shape;
  shape.num_q_heads = q_heads;
  shape.num_kv_heads = kv_heads;
  shape.max_num_seqs = 4;
  shape.pages_per_seq = 8;
  shape.max_num_batched_tokens = 32;
  shape.num_kv_pages_per_block = 4;
  shape.num_queries_per_block = 16;
  return shape;
}

std::string ClassOf(TpuGeneration generation, const KernelShape& shape) {
  const Verdict verdict = TpuLimits(generation).Predict(shape);
  return verdict.ok ? "ok" : std::string(LimitClassName(*verdict.failure));
}

std::string ClassOnV6e(const KernelShape& shape) {
  return ClassOf(TpuGeneration::kV6e, shape);
}

TEST(TpuLimitsShapeTest, KvHeadsMustTileTheirPackedWords) {
  struct Case {
    KvDtype dtype;
    std::vector<int32_t> accepted;
    std::vector<int32_t> refused;
  };
  const std::vector<Case> cases = {
      {KvDtype::kBf16, {1, 2, 4, 8, 16, 24, 32}, {3, 5, 6, 12}},
      {KvDtype::kFp8E4m3, {2, 4, 8, 16, 32}, {1, 3, 5, 6, 12, 24}},
      {KvDtype::kFp8E5m2, {2, 4, 8, 16, 32}, {1, 3, 5, 6, 12, 24}},
      {KvDtype::kInt8, {2, 4, 8, 16, 32}, {1, 3, 5, 6, 12, 24}},
      {KvDtype::kF32, {1, 2, 4}, {3, 5, 6}}};
  for (const Case& c : cases) {
    for (const int32_t heads : c.accepted) {
      KernelShape shape = Small(heads, heads);
      shape.kv_dtype = c.dtype;
      EXPECT_EQ(ClassOnV6e(shape), "ok") << heads << KvDtypeName(c.dtype);
    }
    for (const int32_t heads : c.refused) {
      KernelShape shape = Small(heads, heads);
      shape.kv_dtype = c.dtype;
      EXPECT_EQ(ClassOnV6e(shape), "export_heads_not_tileable")
          << heads << KvDtypeName(c.dtype);
    }
  }
}

TEST(TpuLimitsShapeTest, AnyGroupOfQueryHeadsCompiles) {
  for (const int32_t group : {1, 2, 4, 5, 6, 7, 8, 71}) {
    EXPECT_EQ(ClassOnV6e(Small(group, 1)), "ok") << group;
  }
  EXPECT_EQ(ClassOnV6e(Small(28, 4)), "ok");
  EXPECT_EQ(ClassOnV6e(Small(12, 2)), "ok");
  EXPECT_EQ(ClassOnV6e(Small(40, 8)), "ok");
}

TEST(TpuLimitsShapeTest, BlocksOfF32HeadsNeedEightQueryHeads) {
  KernelShape shape = Small(8, 8);
  shape.kv_dtype = KvDtype::kF32;
  EXPECT_EQ(ClassOnV6e(shape), "export_block_shape");
  shape.num_q_heads = 32;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
}

TEST(TpuLimitsShapeTest, HeadDimIsWholeVectors) {
  for (const int32_t head_dim : {32, 64, 80, 96, 112, 160, 192}) {
    KernelShape shape = Small(8, 2);
    shape.head_dim = head_dim;
    EXPECT_EQ(ClassOnV6e(shape), "export_assert_head_dim_or_q_dtype");
  }
}

TEST(TpuLimitsShapeTest, WideHeadsCompileOnlyWithoutAStride) {
  for (const int32_t head_dim : {256, 512}) {
    KernelShape shape = Small(8, 2);
    shape.head_dim = head_dim;
    EXPECT_EQ(ClassOnV6e(shape), "mosaic_head_dim_not_128");
    shape.kv_dtype = KvDtype::kF32;
    EXPECT_EQ(ClassOnV6e(shape), "mosaic_head_dim_not_128");
    // Two fp8 KV heads are one row of words a token.
    shape.kv_dtype = KvDtype::kFp8E4m3;
    EXPECT_EQ(ClassOnV6e(shape), "ok");
    shape.num_kv_heads = 8;
    EXPECT_EQ(ClassOnV6e(shape), "mosaic_head_dim_not_128");
    // So is one bf16 KV head.
    shape.num_kv_heads = 1;
    shape.kv_dtype = KvDtype::kBf16;
    EXPECT_EQ(ClassOnV6e(shape), "ok");
    shape.kv_dtype = KvDtype::kF32;
    EXPECT_EQ(ClassOnV6e(shape), "mosaic_head_dim_not_128");
  }
}

TEST(TpuLimitsShapeTest, QueriesAreF32OrBf16) {
  KernelShape shape = Small(8, 2);
  shape.q_dtype = QueryDtype::kF32;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
  for (const QueryDtype dtype : {QueryDtype::kF16, QueryDtype::kFp8E4m3}) {
    shape.q_dtype = dtype;
    EXPECT_EQ(ClassOnV6e(shape), "export_assert_head_dim_or_q_dtype");
  }
}

KernelShape OneTokenBlocks(int32_t q_heads, int32_t kv_heads) {
  KernelShape shape = Small(q_heads, kv_heads);
  shape.page_size = 1;
  shape.num_kv_pages_per_block = 1;
  return shape;
}

TEST(TpuLimitsShapeTest, ABlockOfOneTokenNeedsF32) {
  KernelShape shape = OneTokenBlocks(8, 2);
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
  shape.num_kv_pages_per_block = 2;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
  shape.num_kv_pages_per_block = 1;
  shape.q_dtype = QueryDtype::kF32;
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
  shape.kv_dtype = KvDtype::kF32;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
  // Queries of several heads to a KV head are broadcast as well.
  shape.q_dtype = QueryDtype::kBf16;
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
  shape.num_q_heads = 2;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
}

TEST(TpuLimitsShapeTest, ABlockOfOneTokenTakesScaledKOfF32Queries) {
  KernelShape shape = OneTokenBlocks(8, 2);
  shape.q_dtype = QueryDtype::kF32;
  shape.kv_dtype = KvDtype::kFp8E5m2;
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
  shape.has_kv_scales = true;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
  shape.q_dtype = QueryDtype::kBf16;
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
}

TEST(TpuLimitsShapeTest, ABlockOfOneTokenTakesOneRowOfQueries) {
  KernelShape shape = OneTokenBlocks(2, 2);
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
  shape.num_queries_per_block = 1;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
  shape.kv_dtype = KvDtype::kInt8;
  EXPECT_EQ(ClassOnV6e(shape), "export_verification");
  shape.has_kv_scales = true;
  EXPECT_EQ(ClassOnV6e(shape), "ok");
}

TEST(TpuLimitsShapeTest, OnlyV4CanNotMultiplyFp8) {
  for (const TpuGeneration generation : AllTpuGenerations()) {
    for (const KvDtype dtype : {KvDtype::kFp8E4m3, KvDtype::kFp8E5m2}) {
      KernelShape shape = Small(8, 2);
      shape.kv_dtype = dtype;
      EXPECT_EQ(ClassOf(generation, shape),
                generation == TpuGeneration::kV4 ? "mosaic_fp8_matmul" : "ok");
      // Scaled K and V are bf16 by then.
      shape.has_kv_scales = true;
      EXPECT_EQ(ClassOf(generation, shape), "ok");
    }
    KernelShape shape = Small(8, 2);
    shape.kv_dtype = KvDtype::kInt8;
    EXPECT_EQ(ClassOf(generation, shape), "ok");
  }
}

TEST(TpuLimitsShapeTest, TheFirstCheckOfACompileNamesTheFailure) {
  KernelShape shape = Small(8, 8);
  shape.kv_dtype = KvDtype::kF32;
  shape.head_dim = 64;
  EXPECT_EQ(ClassOnV6e(shape), "export_assert_head_dim_or_q_dtype");
  shape.num_kv_heads = 1;
  shape.kv_dtype = KvDtype::kInt8;
  EXPECT_EQ(ClassOnV6e(shape), "export_heads_not_tileable");
}

TEST(TpuLimitsShapeTest, EveryBrokenRuleIsFound) {
  KernelShape shape = Small(6, 3);
  shape.head_dim = 64;
  shape.q_dtype = QueryDtype::kF16;
  EXPECT_EQ(CheckShape(TpuGeneration::kV6e, shape).size(), 3);
}

TEST(TpuLimitsShapeTest, FindingsNameValueLimitAndRemedy) {
  const std::vector<LimitFinding> findings =
      CheckShape(TpuGeneration::kV6e, Small(12, 6));
  ASSERT_EQ(findings.size(), 1);
  EXPECT_THAT(findings[0].text,
              AllOf(HasSubstr("num_kv_heads 6"), HasSubstr("multiple of 8"),
                    HasSubstr("8 KV heads (the next lower is 4)")));
}

TEST(TpuLimitsShapeTest, StaticChecksComeFirst) {
  KernelShape shape = Small(8, 3);
  EXPECT_EQ(ClassOnV6e(shape), "export_static_check");
  shape = Small(8, 2);
  shape.num_kv_pages_per_block = 9;
  EXPECT_THAT(TpuLimits(TpuGeneration::kV6e).Predict(shape).text,
              HasSubstr("num_kv_pages_per_block 9 exceeds pages_per_seq 8"));
  shape = Small(8, 2);
  shape.vmem_limit_bytes = 0;
  EXPECT_THAT(TpuLimits(TpuGeneration::kV6e).Predict(shape).text,
              HasSubstr("vmem_limit_bytes 0 is not positive"));
}

TEST(TpuLimitsShapeTest, AnySizeHasAVerdict) {
  constexpr int32_t kMost = 2'147'483'647;
  for (int32_t KernelShape::*const size :
       {&KernelShape::num_q_heads, &KernelShape::num_kv_heads,
        &KernelShape::head_dim, &KernelShape::page_size,
        &KernelShape::max_num_seqs, &KernelShape::pages_per_seq,
        &KernelShape::max_num_batched_tokens,
        &KernelShape::num_kv_pages_per_block,
        &KernelShape::num_queries_per_block}) {
    for (const int32_t value : {-kMost - 1, -1, 0, 1 << 20, kMost}) {
      KernelShape shape = Small(8, 2);
      shape.*size = value;
      const Verdict verdict = TpuLimits(TpuGeneration::kV5e).Predict(shape);
      EXPECT_FALSE(verdict.text.empty());
      if (value <= 0) {
        EXPECT_EQ(ClassOnV6e(shape), "export_static_check");
      }
    }
  }
}

TEST(TpuLimitsShapeTest, TheLargestSizesTogetherDoNotOverflow) {
  KernelShape shape = Small(1 << 13, 1 << 13);
  shape.head_dim = 1 << 13;
  shape.page_size = 1 << 22;
  shape.num_queries_per_block = 1 << 20;
  shape.max_num_batched_tokens = 1 << 22;
  shape.num_kv_pages_per_block = 1;
  shape.q_dtype = QueryDtype::kF32;
  const Verdict verdict = TpuLimits(TpuGeneration::kV5e).Predict(shape);
  EXPECT_FALSE(verdict.ok);
  EXPECT_THAT(CheckStatic(shape), IsEmpty());
  EXPECT_GT(ComputeVmemNeed(TpuGeneration::kV5e, shape).total_bytes(), 0);
}

TEST(TpuGenerationTest, NamesOfJaxAndOfCloudsAreKnown) {
  EXPECT_EQ(ParseTpuGeneration("v5e").value(), TpuGeneration::kV5e);
  EXPECT_EQ(ParseTpuGeneration("TPU v5 lite").value(), TpuGeneration::kV5e);
  EXPECT_EQ(ParseTpuGeneration("v5litepod-8").value(), TpuGeneration::kV5e);
  EXPECT_EQ(ParseTpuGeneration("TPU v5").value(), TpuGeneration::kV5p);
  EXPECT_EQ(ParseTpuGeneration("V6E-4").value(), TpuGeneration::kV6e);
  EXPECT_EQ(ParseTpuGeneration("TPU7x").value(), TpuGeneration::kV7x);
  EXPECT_EQ(ParseTpuGeneration("tpu7x-4").value(), TpuGeneration::kV7x);
  for (const TpuGeneration generation : AllTpuGenerations()) {
    EXPECT_EQ(ParseTpuGeneration(TpuGenerationName(generation)).value(),
              generation);
  }
}

TEST(TpuGenerationTest, OtherNamesAreErrors) {
  for (const char* const name : {"", "v3", "v8x", "tpu", "v5x", "-v4"}) {
    EXPECT_THAT(ParseTpuGeneration(name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("use v4, v5e, v5p, v6e or v7x")));
  }
}

}  // namespace
}  // namespace tidewheel
