#include "attention/tpu_cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attention/tpu_chip.h"
#include "attention/tpu_cost_constants.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModelShape Dense(int32_t layers, int32_t hidden, int32_t heads, int32_t ffn,
                 int32_t vocab) {
  ModelShape::Options o;
  o.name = "dense";
  o.num_layers = layers;
  o.hidden_size = hidden;
  o.num_heads = heads;
  o.num_kv_heads = 8;
  o.head_dim = 128;
  o.vocab_size = vocab;
  o.max_position_embeddings = 131072;
  o.intermediate_size = ffn;
  o.vectors_per_layer = 2 * hidden;
  o.final_vectors = hidden;
  return *ModelShape::Create(o);
}

ModelShape Llama8b() { return Dense(32, 4096, 32, 14336, 128256); }
ModelShape Llama70b() { return Dense(80, 8192, 64, 28672, 128256); }
ModelShape Qwen8b() { return Dense(36, 4096, 32, 12288, 151936); }
ModelShape Qwen32b() { return Dense(64, 5120, 64, 25600, 151936); }

ModelShape Qwen30bA3b(int32_t experts_per_token = 8) {
  ModelShape::Options o;
  o.name = "mixture";
  o.num_layers = 48;
  o.hidden_size = 2048;
  o.num_heads = 32;
  o.num_kv_heads = 4;
  o.head_dim = 128;
  o.vocab_size = 151936;
  o.max_position_embeddings = 40960;
  o.num_moe_layers = 48;
  o.num_experts = 128;
  o.experts_per_token = experts_per_token;
  o.moe_intermediate_size = 768;
  return *ModelShape::Create(o);
}

TpuCostModel V6e(const ModelShape& model, TpuCostModel::Options options = {}) {
  auto result = TpuCostModel::Create(model, *FindTpuChip("v6e"), options);
  EXPECT_THAT(result, IsOk());
  return *result;
}

StepShape Decodes(int32_t rows, int64_t kv_len) {
  return {.num_seqs = rows,
          .num_decode_rows = rows,
          .q_tokens = rows,
          .kv_tokens = rows * kv_len,
          .attention_pairs = rows * kv_len,
          .logits_rows = rows};
}

// Adds a chunk of q_len tokens that ends at kv_len.
StepShape WithChunk(StepShape step, int32_t q_len, int64_t kv_len) {
  step.num_seqs += 1;
  step.q_tokens += q_len;
  step.kv_tokens += kv_len;
  step.attention_pairs += q_len * kv_len - int64_t{q_len} * (q_len - 1) / 2;
  step.logits_rows += 1;
  return step;
}

TpuCostModel::Options Exact() {
  TpuCostModel::Options options;
  options.padding = TpuCostModel::TokenPadding::kNone;
  for (const TpuCostConstantEntry& info : TpuCostConstantTable()) {
    if (absl::StrContains(info.name, "efficiency")) {
      options.constants.*info.field = 1;
    }
    if (absl::StrContains(info.name, "overhead")) {
      options.constants.*info.field = 0;
    }
  }
  return options;
}

TEST(TpuCostModelTest, AtFullEfficiencyADecodeIsTheRoofline) {
  const ModelShape model = Llama8b();
  const StepTime time =
      V6e(model, Exact()).Estimate(Decodes(/*rows=*/4, /*kv_len=*/1000));
  // Everything but the embedding is read, and KV of 131,072 B a token.
  const double embedding_bytes = 2.0 * 128256 * 4096;
  const double weights =
      (static_cast<double>(model.weight_bytes()) - embedding_bytes) / 1.64e12;
  EXPECT_NEAR(time.weights_s, weights, 1e-9);
  EXPECT_NEAR(time.kv_read_s, 4004 * 131072 / 1.64e12, 1e-9);
  const double flops =
      4.0 * (static_cast<double>(model.matmul_flops_per_token()) +
             2.0 * 128256 * 4096);
  EXPECT_NEAR(time.matmul_s, flops / 920e12, 1e-9);
  EXPECT_NEAR(time.attention_s, 4000.0 * 4 * 32 * 128 * 32 / 920e12, 1e-12);
  EXPECT_EQ(time.collectives_s, 0);
  EXPECT_EQ(time.overhead_s, 0);
  EXPECT_NEAR(time.total_s, time.weights_s + time.kv_read_s, 1e-12);
  EXPECT_EQ(time.bound, StepBound::kMemory);
}

TEST(TpuCostModelTest, TheBoundNamesWhereTheTimeGoes) {
  const TpuCostModel one = V6e(Llama8b());
  EXPECT_EQ(one.Estimate(Decodes(16, 4000)).bound, StepBound::kMemory);
  const StepTime prefill = one.Estimate(WithChunk({}, 8192, 8192));
  EXPECT_EQ(prefill.bound, StepBound::kCompute);
  EXPECT_GT(prefill.matmul_s, prefill.weights_s);
  TpuCostModel::Options options;
  options.chips = 8;
  const StepTime small = V6e(Llama8b(), options).Estimate(Decodes(1, 10));
  EXPECT_EQ(small.bound, StepBound::kOverhead);
  EXPECT_THAT(DescribeStepTime(small),
              AllOf(HasSubstr("overhead-bound"), HasSubstr("collectives")));
}

TEST(TpuCostModelTest, PartsAddUpToTheTotal) {
  TpuCostModel::Options options;
  options.chips = 4;
  const TpuCostModel model = V6e(Qwen32b(), options);
  for (const StepShape& step :
       {Decodes(1, 1), Decodes(64, 3000), WithChunk(Decodes(31, 900), 993, 993),
        WithChunk({}, 8192, 32768)}) {
    const StepTime t = model.Estimate(step);
    EXPECT_LE(t.total_s, t.weights_s + t.matmul_s + t.kv_read_s +
                             t.attention_s + t.collectives_s + t.overhead_s);
    // Logits and layers overlap apart, so the sum may exceed the larger total.
    EXPECT_GE(t.total_s, std::max(t.weights_s, t.matmul_s) +
                             std::max(t.kv_read_s, t.attention_s) +
                             t.collectives_s + t.overhead_s - 1e-15);
  }
}

TEST(TpuCostModelTest, MoreOfAnythingNeverTakesLess) {
  const TpuCostModel model = V6e(Llama8b());
  double previous = 0;
  for (int32_t rows = 1; rows <= 2048; rows *= 2) {
    const double total = model.Estimate(Decodes(rows, 500)).total_s;
    EXPECT_GT(total, previous) << rows;
    previous = total;
  }
  previous = 0;
  for (int64_t kv_len = 1; kv_len <= 131072; kv_len *= 2) {
    const double total = model.Estimate(Decodes(8, kv_len)).total_s;
    EXPECT_GT(total, previous) << kv_len;
    previous = total;
  }
}

TEST(TpuCostModelTest, TokensArePaddedToPowersOfTwoUpToTheBudget) {
  TpuCostModel::Options options;
  options.max_num_batched_tokens = 600;
  const TpuCostModel model = V6e(Llama8b(), options);
  const auto matmul = [&](int32_t tokens) {
    StepShape step = WithChunk({}, tokens, tokens);
    step.logits_rows = 0;
    return model.Estimate(step).matmul_s;
  };
  EXPECT_EQ(matmul(2), matmul(16));
  EXPECT_EQ(matmul(17), matmul(32));
  EXPECT_DOUBLE_EQ(matmul(17), 2 * matmul(16));
  EXPECT_EQ(matmul(257), matmul(512));
  EXPECT_EQ(matmul(513), matmul(600));
  EXPECT_DOUBLE_EQ(matmul(600) / matmul(512), 600.0 / 512);

  const TpuCostModel unpadded = V6e(Llama8b(), Exact());
  StepShape step = WithChunk({}, 17, 17);
  step.logits_rows = 0;
  const double seventeen = unpadded.Estimate(step).matmul_s;
  step = WithChunk({}, 34, 34);
  step.logits_rows = 0;
  EXPECT_DOUBLE_EQ(unpadded.Estimate(step).matmul_s, 2 * seventeen);
}

TEST(TpuCostModelTest, AChunkReadsItsRowOncePerBlockOfQueries) {
  // 1024 query rows / 4 heads per KV head = 256 query tokens a block.
  const TpuCostModel model = V6e(Llama8b(), Exact());
  const double token_s = 131072 / 1.64e12;
  for (const auto& [q_len, kv_len, passes] : {std::tuple{2, 2000, 1},
                                              {256, 2000, 1},
                                              {257, 2000, 2},
                                              {512, 512, 2},
                                              {513, 4096, 3},
                                              {2048, 2048, 8}}) {
    const StepTime alone = model.Estimate(WithChunk({}, q_len, kv_len));
    EXPECT_NEAR(alone.kv_read_s, (passes * kv_len + q_len) * token_s, 1e-12)
        << q_len;
    // Decode rows beside it are read once.
    const StepTime mixed =
        model.Estimate(WithChunk(Decodes(10, 3000), q_len, kv_len));
    EXPECT_NEAR(mixed.kv_read_s,
                (passes * kv_len + 30000 + q_len + 10) * token_s, 1e-12)
        << q_len;
  }
}

TEST(TpuCostModelTest, StepsWithoutSampledRowsReadNoLogitsMatrix) {
  const TpuCostModel model = V6e(Llama8b());
  StepShape step = WithChunk({}, 512, 512);
  const StepTime with = model.Estimate(step);
  step.logits_rows = 0;
  const StepTime without = model.Estimate(step);
  EXPECT_NEAR(with.weights_s - without.weights_s,
              2.0 * 128256 * 4096 / (1.64e12 * 0.95), 1e-9);
}

TEST(TpuCostModelTest, AMixtureReadsTheExpertsThatItsTokensHit) {
  const ModelShape model = Qwen30bA3b();
  const auto share = model.Share(1);
  ASSERT_THAT(share, IsOk());
  const TpuCostModel cost = V6e(model, Exact());
  const auto experts_read = [&](int32_t rows) {
    StepShape step = Decodes(rows, 1);
    step.logits_rows = 0;
    const double bytes = cost.Estimate(step).weights_s * 1.64e12 -
                         static_cast<double>(share->streamed_bytes);
    return bytes / static_cast<double>(share->expert_bytes);
  };
  EXPECT_NEAR(experts_read(1), 8, 1e-6);
  EXPECT_NEAR(experts_read(2), 128 * (1 - std::pow(120.0 / 128, 2)), 1e-6);
  EXPECT_NEAR(experts_read(64), 128 * (1 - std::pow(120.0 / 128, 64)), 1e-6);
  EXPECT_NEAR(experts_read(4096), 128, 1e-6);
  EXPECT_THAT(cost.notes(), ElementsAre(HasSubstr("experts")));
}

TEST(TpuCostModelTest, AMixtureThatUsesEveryExpertReadsEveryExpert) {
  const ModelShape model = Qwen30bA3b(/*experts_per_token=*/128);
  StepShape step = Decodes(1, 1);
  step.logits_rows = 0;
  const auto share = model.Share(1);
  const double all = static_cast<double>(share->streamed_bytes) +
                     128 * static_cast<double>(share->expert_bytes);
  EXPECT_NEAR(V6e(model, Exact()).Estimate(step).weights_s, all / 1.64e12,
              1e-9);
}

TEST(TpuCostModelTest, AllReducesAreARingOfBothDirections) {
  TpuCostModel::Options options = Exact();
  options.chips = 4;
  const StepTime time = V6e(Qwen32b(), options).Estimate(Decodes(16, 10));
  const double hops = 2 * 2 * 2.29e-6;
  const double bytes = 16.0 * 5120 * 2 * 2 * 3 / 4;
  EXPECT_NEAR(time.collectives_s, 128 * (hops + bytes / 180e9), 1e-12);
}

TEST(TpuCostModelTest, AV7xChipIsTwoDevices) {
  TpuCostModel::Options options = Exact();
  options.chips = 4;
  const auto model =
      TpuCostModel::Create(Llama70b(), *FindTpuChip("v7x"), options);
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->devices(), 8);
  EXPECT_THAT(model->notes(), ElementsAre(HasSubstr("v7x")));
  const StepTime time = model->Estimate(Decodes(8, 1000));
  // A KV head a device, at half the chip's bandwidth.
  EXPECT_NEAR(time.kv_read_s, 8008.0 * 80 * 2 * 128 * 2 / 3.7e12, 1e-12);
  EXPECT_THAT(V6e(Llama70b(), options).notes(), IsEmpty());
}

TEST(TpuCostModelTest, GroupsThatCanNotBeSplitAreRefused) {
  const TpuChip v6e = *FindTpuChip("v6e");
  TpuCostModel::Options options;
  for (const int32_t chips : {0, -1, 3, std::numeric_limits<int32_t>::max()}) {
    options.chips = chips;
    EXPECT_THAT(TpuCostModel::Create(Llama8b(), v6e, options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat(chips))));
  }
  options.chips = 1;
  options.max_num_batched_tokens = -1;
  EXPECT_THAT(TpuCostModel::Create(Llama8b(), v6e, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_num_batched_tokens -1")));
}

TEST(TpuCostModelDeathTest, AStepThatCanNotBeEndsTheProcess) {
  TpuCostModel::Options options;
  options.max_num_batched_tokens = 64;
  const TpuCostModel model = V6e(Llama8b(), options);
  EXPECT_DEATH(model.Estimate({}), "num_seqs >= 1");
  StepShape step = Decodes(4, 10);
  step.num_decode_rows = 5;
  EXPECT_DEATH(model.Estimate(step), "num_decode_rows");
  step.num_decode_rows = -1;
  EXPECT_DEATH(model.Estimate(step), "num_decode_rows");
  step = Decodes(4, 10);
  step.q_tokens = 3;
  EXPECT_DEATH(model.Estimate(step), "q_tokens >= step.num_seqs");
  step.q_tokens = 5;
  EXPECT_DEATH(model.Estimate(step), "q_tokens == step.num_seqs");
  EXPECT_DEATH(model.Estimate(Decodes(65, 10)), "max_num_batched_tokens");
}

// Back-of-the-envelope steady states of published serving runs, on v6e in
// bf16. Each row's deviation is printed; the bound is a modelling error.
class PublishedRunTest : public testing::Test {
 protected:
  static void Report(const std::string& row, double model, double published) {
    const double deviation = model / published - 1;
    RecordProperty(row, std::to_string(deviation));
    printf("%s: model %.2f, published %.2f, %+.0f %%\n", row.c_str(), model,
           published, deviation * 100);
    EXPECT_THAT(deviation, DoubleNear(0, 0.4)) << row;
  }

  // Mean time per output token, ms, of `requests` in flight that decode
  // alone and stop for each other's prompts, as sglang-jax runs them: while
  // one request decodes its output, every other one is admitted once.
  static double SeparatePrefillTpot(const ModelShape& model, int32_t chips,
                                    int32_t requests, int32_t prompt,
                                    int32_t output) {
    TpuCostModel::Options options;
    options.chips = chips;
    options.max_num_batched_tokens = 2048;
    const TpuCostModel cost = V6e(model, options);
    const double decode_s =
        cost.Estimate(Decodes(requests, prompt + output / 2)).total_s;
    const double prefill_s =
        cost.Estimate(WithChunk({}, prompt, prompt)).total_s;
    return (decode_s + prefill_s * (requests - 1) / output) * 1e3;
  }
};

// 512 tokens a step, saturated: 14.64 requests/s x 1927 tokens = 18.1 ms a
// step with about 34 decodes and 478 tokens of prompts.
TEST_F(PublishedRunTest, Llama8bOnOneChipSaturated) {
  TpuCostModel::Options options;
  options.max_num_batched_tokens = 512;
  const StepTime time =
      V6e(Llama8b(), options).Estimate(WithChunk(Decodes(34, 1864), 478, 900));
  Report("row 24, requests/s", 512 / time.total_s / 1927, 14.64);
}

TEST_F(PublishedRunTest, Qwen32bOnFourChips) {
  Report("row 7, TPOT ms", SeparatePrefillTpot(Qwen32b(), 4, 16, 1024, 1024),
         16.89);
}

TEST_F(PublishedRunTest, Qwen8bOnFourChips) {
  Report("row 3, TPOT ms", SeparatePrefillTpot(Qwen8b(), 4, 64, 1024, 1024),
         11.11);
}

TEST_F(PublishedRunTest, Llama8bOnFourChips) {
  Report("row 12, TPOT ms", SeparatePrefillTpot(Llama8b(), 4, 16, 265, 258),
         9.94);
}

// Mixed batches of at most 512 tokens: 64 prompts of 1000 tokens in the 1000
// steps of an output are 143 steps with 448 tokens of prompt.
TEST_F(PublishedRunTest, Llama70bOnEightChips) {
  TpuCostModel::Options options;
  options.chips = 8;
  options.max_num_batched_tokens = 512;
  const TpuCostModel cost = V6e(Llama70b(), options);
  const StepShape decodes = Decodes(64, 1500);
  const double decode_s = cost.Estimate(decodes).total_s;
  const double mixed_s = cost.Estimate(WithChunk(decodes, 448, 700)).total_s;
  Report("row 1, TPOT ms", (0.857 * decode_s + 0.143 * mixed_s) * 1e3, 25.35);
  Report("row 1, median ITL ms", decode_s * 1e3, 23.11);
}

TEST(TpuChipTest, ChipsAreFoundByAnyOfTheirNames) {
  for (const TpuChip& chip : TpuChips()) {
    const auto found = FindTpuChip(chip.name);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->hbm_bytes, chip.hbm_bytes);
  }
  EXPECT_EQ(FindTpuChip("V6E")->name, "v6e");
  EXPECT_EQ(FindTpuChip("trillium")->name, "v6e");
  EXPECT_EQ(FindTpuChip("TPU7x")->name, "v7x");
  EXPECT_EQ(FindTpuChip("tpu-v5litepod")->name, "v5e");
  for (const char* bad : {"", "v", "tpu", "v6", "h100"}) {
    EXPECT_THAT(FindTpuChip(bad),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("v4, v5e, v5p, v6e, v7x")));
  }
}

TEST(TpuCostConstantsTest, DefaultsAreThoseOfTheTableAndInRange) {
  const TpuCostConstants defaults;
  std::set<absl::string_view> names;
  for (const TpuCostConstantEntry& info : TpuCostConstantTable()) {
    EXPECT_EQ(defaults.*info.field, info.default_value) << info.name;
    EXPECT_GE(info.default_value, info.min) << info.name;
    EXPECT_LE(info.default_value, info.max) << info.name;
    EXPECT_FALSE(info.source.empty()) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
  }
  // Every field has a row.
  EXPECT_EQ(names.size() * sizeof(double), sizeof(TpuCostConstants));
}

TEST(TpuCostConstantsTest, OverridesAreCheckedByNameAndRange) {
  TpuCostConstants constants;
  EXPECT_THAT(SetTpuCostConstant(constants, "kv_read_efficiency", 0.5), IsOk());
  EXPECT_EQ(constants.kv_read_efficiency, 0.5);
  EXPECT_THAT(SetTpuCostConstant(constants, "kv_efficiency", 0.5),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"kv_efficiency\""),
                             HasSubstr("kv_read_efficiency"))));
  for (const double bad : {0.0, -1.0, 1.5, std::nan(""),
                           std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(SetTpuCostConstant(constants, "kv_read_efficiency", bad),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("[0.01, 1]"), HasSubstr("0.7"))));
  }
  EXPECT_EQ(constants.kv_read_efficiency, 0.5);
}

}  // namespace
}  // namespace tidewheel
