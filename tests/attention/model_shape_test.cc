#include "attention/model_shape.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelShape::Options Llama8b() {
  ModelShape::Options o;
  o.name = "llama";
  o.num_layers = 32;
  o.hidden_size = 4096;
  o.num_heads = 32;
  o.num_kv_heads = 8;
  o.head_dim = 128;
  o.vocab_size = 128256;
  o.max_position_embeddings = 131072;
  o.intermediate_size = 14336;
  o.vectors_per_layer = 2 * 4096;
  o.final_vectors = 4096;
  return o;
}

ModelShape::Options Qwen30bA3b() {
  ModelShape::Options o;
  o.name = "qwen";
  o.num_layers = 48;
  o.hidden_size = 2048;
  o.num_heads = 32;
  o.num_kv_heads = 4;
  o.head_dim = 128;
  o.vocab_size = 151936;
  o.max_position_embeddings = 40960;
  o.num_moe_layers = 48;
  o.num_experts = 128;
  o.experts_per_token = 8;
  o.moe_intermediate_size = 768;
  o.vectors_per_layer = 2 * 2048 + 2 * 128;
  o.final_vectors = 2048;
  return o;
}

// Mixture layers, a dense one, and shared experts in one small model.
ModelShape::Options Mixed() {
  ModelShape::Options o;
  o.name = "mixed";
  o.num_layers = 3;
  o.hidden_size = 8;
  o.num_heads = 4;
  o.num_kv_heads = 2;
  o.head_dim = 4;
  o.vocab_size = 10;
  o.max_position_embeddings = 64;
  o.intermediate_size = 16;
  o.num_moe_layers = 2;
  o.num_experts = 6;
  o.experts_per_token = 2;
  o.moe_intermediate_size = 4;
  o.shared_intermediate_size = 8;
  o.vectors_per_layer = 16;
  o.vectors_per_moe_layer = 6;
  o.vectors_per_expert = 3;
  o.final_vectors = 8;
  return o;
}

TEST(ModelShapeTest, CountsEqualThePublishedOnes) {
  const auto llama = ModelShape::Create(Llama8b());
  ASSERT_THAT(llama, IsOk());
  EXPECT_EQ(llama->total_params(), 8'030'261'248);
  EXPECT_EQ(llama->active_params(), llama->total_params());
  EXPECT_EQ(llama->weight_bytes(), 2 * llama->total_params());

  const auto qwen = ModelShape::Create(Qwen30bA3b());
  ASSERT_THAT(qwen, IsOk());
  EXPECT_EQ(qwen->total_params(), 30'532'122'624);
  // 120 of 128 experts rest: 3 x 2048 x 768 parameters in each of 48 layers.
  EXPECT_EQ(qwen->active_params(),
            qwen->total_params() - int64_t{3} * 2048 * 768 * 120 * 48);
}

TEST(ModelShapeTest, EveryPartOfAMixedModelIsCountedOnce) {
  const auto shape = ModelShape::Create(Mixed());
  ASSERT_THAT(shape, IsOk());
  const int64_t attention = 8 * 4 * 2 * (4 + 2);
  const int64_t dense = 3 * 8 * 16;
  const int64_t expert = 3 * 8 * 4;
  const int64_t shared = 3 * 8 * 8;
  const int64_t router = 8 * 6;
  const int64_t matrices =
      3 * attention + dense + 2 * (6 * expert + shared + router) + 2 * 10 * 8;
  const int64_t vectors = 3 * 16 + 2 * 6 + 2 * 6 * 3 + 8;
  EXPECT_EQ(shape->total_params(), matrices + vectors);
  EXPECT_EQ(shape->active_params(), matrices + vectors - 2 * 4 * (expert + 3));
  EXPECT_EQ(shape->matmul_flops_per_token(),
            2 * (3 * attention + dense + 2 * (2 * expert + shared + router)));
}

TEST(ModelShapeTest, TiedEmbeddingsAreStoredOnceAndStillMultiplied) {
  auto options = Llama8b();
  options.tied_embeddings = true;
  const auto tied = ModelShape::Create(options);
  const auto untied = ModelShape::Create(Llama8b());
  ASSERT_THAT(tied, IsOk());
  const int64_t embedding = int64_t{128256} * 4096;
  EXPECT_EQ(untied->total_params() - tied->total_params(), embedding);
  EXPECT_EQ(untied->weight_bytes() - tied->weight_bytes(), 2 * embedding);
  EXPECT_EQ(tied->Share(1)->lm_head_bytes, 2 * embedding);
  EXPECT_EQ(tied->Share(1)->logits_flops_per_row, 2 * embedding);
}

TEST(ModelShapeTest, SharesOfAllChipsCoverTheModel) {
  for (const auto& options : {Llama8b(), Qwen30bA3b()}) {
    const auto shape = ModelShape::Create(options);
    ASSERT_THAT(shape, IsOk());
    int64_t previous = std::numeric_limits<int64_t>::max();
    for (const int32_t chips : {1, 2, 4, 8, 16, 32}) {
      const auto share = shape->Share(chips);
      ASSERT_THAT(share, IsOk());
      EXPECT_GE(share->weight_bytes * chips, shape->weight_bytes());
      EXPECT_LT(share->weight_bytes, previous);
      previous = share->weight_bytes;
      if (chips == 1) continue;
      // Replicas of KV projections, norms and router stay below 12 %.
      EXPECT_LT(static_cast<double>(share->weight_bytes * chips),
                1.12 * static_cast<double>(shape->weight_bytes()))
          << chips;
    }
  }
}

TEST(ModelShapeTest, KvProjectionsAreReplicatedWhenChipsOutnumberHeads) {
  const auto shape = ModelShape::Create(Llama8b());
  ASSERT_THAT(shape, IsOk());
  const auto eight = shape->Share(8);
  const auto sixteen = shape->Share(16);
  ASSERT_THAT(eight, IsOk());
  ASSERT_THAT(sixteen, IsOk());
  const int64_t layer = int64_t{2} * 4096 * 128 * 2;  // Q, O or K, V of a head
  // Per layer: 4 Q heads and 1 KV head, then 2 Q heads and still 1 KV head.
  EXPECT_EQ(eight->attention_flops_per_token, 32 * layer * (4 + 1));
  EXPECT_EQ(sixteen->attention_flops_per_token, 32 * layer * (2 + 1));
}

TEST(ModelShapeTest, StreamedExpertAndResidentBytesAddUp) {
  for (const auto& options : {Llama8b(), Qwen30bA3b(), Mixed()}) {
    const auto shape = ModelShape::Create(options);
    ASSERT_THAT(shape, IsOk());
    for (const int32_t chips : {1, 2}) {
      const auto share = shape->Share(chips);
      ASSERT_THAT(share, IsOk());
      EXPECT_EQ(share->weight_bytes,
                share->streamed_bytes + 2 * share->lm_head_bytes +
                    options.num_experts * share->expert_bytes);
    }
  }
}

TEST(ModelShapeTest, QuantisedMatricesKeepVectorsAndEmbeddingsIn16Bits) {
  auto options = Llama8b();
  options.attention_dtype = WeightDtype::kFp8;
  options.ffn_dtype = WeightDtype::kFp8;
  const auto fp8 = ModelShape::Create(options);
  ASSERT_THAT(fp8, IsOk());
  const int64_t matrices =
      32 * (int64_t{4096} * 128 * 80 + int64_t{3} * 4096 * 14336);
  const int64_t rest = fp8->total_params() - matrices;
  EXPECT_EQ(fp8->weight_bytes(),
            matrices + matrices / (128 * 128) * 4 + 2 * rest);

  // gpt-oss keeps attention in bf16 and only the experts in mxfp4.
  auto mixed = Mixed();
  mixed.ffn_dtype = WeightDtype::kMxfp4;
  const auto mxfp4 = ModelShape::Create(mixed);
  const auto bf16 = ModelShape::Create(Mixed());
  ASSERT_THAT(mxfp4, IsOk());
  EXPECT_EQ(mxfp4->total_params(), bf16->total_params());
  // An expert of both layers is 192 parameters: 6 blocks of 17 bytes; dense
  // and shared blocks are 768: 24 blocks.
  EXPECT_EQ(bf16->weight_bytes() - mxfp4->weight_bytes(),
            6 * (2 * 192 - 6 * 17) + (2 * 768 - 24 * 17));
}

TEST(ModelShapeTest, HeadsThatCanNotBeSplitAreRefusedWithBothNumbers) {
  const auto shape = ModelShape::Create(Llama8b());
  ASSERT_THAT(shape, IsOk());
  for (const int32_t chips : {-1, 0, 3, 5, 64}) {
    EXPECT_THAT(
        shape->Share(chips),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr("num_heads 32"),
                       HasSubstr(absl::StrCat("tensor_parallel ", chips)))));
  }
  auto options = Llama8b();
  options.num_heads = 48;
  options.num_kv_heads = 16;
  EXPECT_THAT(ModelShape::Create(options)->Share(24),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_kv_heads 16")));
}

TEST(ModelShapeTest, NumbersThatCanNotBeAreRefusedByName) {
  struct Case {
    int32_t ModelShape::Options::*field;
    const char* name;
  };
  using O = ModelShape::Options;
  for (const Case& c :
       {Case{&O::num_layers, "num_layers"},
        {&O::hidden_size, "hidden_size"},
        {&O::num_heads, "num_heads"},
        {&O::num_kv_heads, "num_kv_heads"},
        {&O::head_dim, "head_dim"},
        {&O::vocab_size, "vocab_size"},
        {&O::max_position_embeddings, "max_position_embeddings"},
        {&O::intermediate_size, "intermediate_size"},
        {&O::experts_per_token, "experts_per_token"},
        {&O::moe_intermediate_size, "moe_intermediate_size"},
        {&O::num_experts, "num_experts"}}) {
    for (const int32_t bad : {0, -1, std::numeric_limits<int32_t>::min()}) {
      auto options = Mixed();
      options.*c.field = bad;
      EXPECT_THAT(ModelShape::Create(options),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr("model mixed"),
                                 HasSubstr(absl::StrCat(c.name, " ", bad)))))
          << c.name;
    }
  }
  auto options = Mixed();
  options.num_moe_layers = 4;
  EXPECT_THAT(ModelShape::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_moe_layers 4")));
  options = Mixed();
  options.experts_per_token = 7;
  EXPECT_THAT(ModelShape::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("experts_per_token 7")));
  options = Mixed();
  options.num_heads = 3;
  EXPECT_THAT(
      ModelShape::Create(options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_heads 3")));
}

TEST(ModelShapeTest, MoreParametersThanCanBeCountedIsAnError) {
  auto options = Qwen30bA3b();
  options.hidden_size = 1 << 24;
  options.moe_intermediate_size = 1 << 24;
  options.num_experts = 1 << 16;
  EXPECT_THAT(
      ModelShape::Create(options),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("num_experts 65536")));
  options.num_experts = 8;
  EXPECT_THAT(ModelShape::Create(options),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("hidden_size 16777216")));
}

TEST(ModelShapeTest, KvShapeIsThatOfTheModel) {
  const auto shape = ModelShape::Create(Llama8b());
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->KvShape(1, KvDtype::kBf16)->bytes_per_token(), 131072);
  EXPECT_EQ(shape->KvShape(4, KvDtype::kFp8E4m3)->bytes_per_token(), 16384);
}

}  // namespace
}  // namespace tidewheel
