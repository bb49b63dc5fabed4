// The emitted attention program against the reference backend, on CPU plugins,
// over random batches of every kind.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "attention/reference_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/attention_world.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/attention/stablehlo/stablehlo_attention.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

constexpr ScalarType kF32 = ScalarType::kFloat32;
constexpr ScalarType kBf16 = ScalarType::kBfloat16;
constexpr ScalarType kE4m3 = ScalarType::kFloat8E4m3fn;
constexpr ScalarType kE5m2 = ScalarType::kFloat8E5m2;
constexpr ScalarType kInt8 = ScalarType::kInt8;

// Sizes of the bucket that all batches of a grid point are padded to.
constexpr int32_t kNumTokens = 24;
constexpr int32_t kMaxNumSeqs = 6;

struct GridPoint {
  const char* name;
  ScalarType q_type;
  ScalarType kv_type;
  ScalarType new_kv_type;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  int32_t head_padding;
  int32_t page_size;
  int32_t pages_per_seq;
  AttentionOptions options;
};

const GridPoint kGrid[] = {
    // Gathered in parts.
    {"large pages",
     kF32,
     kBf16,
     kF32,
     2,
     2,
     1024,
     0,
     128,
     2,
     {.sm_scale = 0.03f}},
    {"plain", kF32, kF32, kF32, 4, 2, 8, 0, 4, 8, {.sm_scale = 0.35f}},
    {"window",
     kBf16,
     kBf16,
     kBf16,
     8,
     1,
     16,
     16,
     3,
     9,
     {.sm_scale = 0.25f, .sliding_window = 5}},
    {"cap",
     kF32,
     kBf16,
     kF32,
     6,
     2,
     20,
     0,
     1,
     40,
     {.sm_scale = 1, .soft_cap = 3.0f}},
    {"scaled e4m3",
     kBf16,
     kE4m3,
     kBf16,
     5,
     5,
     8,
     8,
     4,
     8,
     {.sm_scale = 0.35f, .k_scale = 0.3f, .v_scale = 0.7f}},
    {"plain e5m2", kF32, kE5m2, kE5m2, 4, 4, 8, 0, 16, 2, {.sm_scale = 0.2f}},
    {"one scale",
     kBf16,
     kE4m3,
     kF32,
     4,
     1,
     8,
     0,
     5,
     7,
     {.sm_scale = 0.3f, .sliding_window = 9, .v_scale = -0.5f}},
    {"int8",
     kBf16,
     kInt8,
     kF32,
     4,
     2,
     8,
     0,
     4,
     8,
     {.sm_scale = 0.3f, .soft_cap = 20.0f, .k_scale = 0.02f, .v_scale = 0.03f}},
    {"leak",
     kF32,
     kF32,
     kF32,
     2,
     2,
     8,
     4,
     4,
     8,
     {.sm_scale = 0.35f,
      .sliding_window = 6,
      .soft_cap = 2.0f,
      .mask_value = -2}},
    {"wide pool",
     kBf16,
     kF32,
     kBf16,
     3,
     1,
     32,
     0,
     8,
     5,
     {.sm_scale = 0.2f, .k_scale = 0.5f}},
};

// Rows that fit the bucket: one query token, a whole prompt, or a chunk.
void AddRows(const GridPoint& point, AttentionWorld& world) {
  const int32_t longest = point.page_size * point.pages_per_seq;
  const auto draw = [&world](int32_t from, int32_t to) {
    return std::uniform_int_distribution<int32_t>(from, to)(world.random);
  };
  const int32_t num_rows = draw(1, kMaxNumSeqs);
  int32_t left = kNumTokens;
  for (int32_t row = 0; row < num_rows; ++row) {
    const int32_t spare = left - (num_rows - row - 1);
    const int32_t q_len = draw(0, 2) == 0 ? draw(1, spare) : 1;
    left -= q_len;
    const int32_t least = std::min(q_len, longest);
    world.AddRow(least, draw(0, 3) == 0 ? least : draw(least, longest));
  }
  world.padding_rows = kMaxNumSeqs - num_rows;
  world.padding_queries = left;
}

AttentionWorld RandomWorld(const GridPoint& point, uint32_t seed) {
  AttentionWorld world;
  world.random.seed(seed);
  world.q_type = point.q_type;
  world.kv_type = point.kv_type;
  world.num_q_heads = point.num_q_heads;
  world.num_kv_heads = point.num_kv_heads;
  world.head_dim = point.head_dim;
  world.page_size = point.page_size;
  world.pages_per_seq = point.pages_per_seq;
  world.total_num_pages = kMaxNumSeqs * point.pages_per_seq + 1;
  world.next_page = world.total_num_pages - 1;
  world.options = point.options;
  AddRows(point, world);
  return world;
}

// |got - wanted| in units of what float32 accumulation may lose: 1e-5 of the
// largest value beyond half an ulp of the output.
double WorstError(const std::vector<float>& got,
                  const std::vector<double>& wanted, ScalarType type) {
  double largest = 0;
  for (const double value : wanted) {
    largest = std::max(largest, std::fabs(value));
  }
  const double ulp = type == kBf16 ? 0x1p-8 : 0x1p-24;
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double error =
        std::fabs(got[i] - wanted[i]) - ulp * std::fabs(wanted[i]);
    // NaN must not pass.
    if (!(error <= 1e-5 * largest)) return std::max(worst, 1e9);
    worst = std::max(worst, error / (1e-5 * largest));
  }
  return worst;
}

// Runs one random batch with its KV write on `backend` and compares the output
// and every byte of the pool; the worst error.
double ExpectBatchAgrees(const GridPoint& point, uint32_t seed,
                         StablehloAttention& backend) {
  AttentionWorld world = RandomWorld(point, seed);
  const RaggedBatch batch = world.Build();
  const HeadsView q = world.Queries();
  const size_t count = static_cast<size_t>(kNumTokens) *
                       static_cast<size_t>(point.num_kv_heads) *
                       static_cast<size_t>(point.head_dim);
  const size_t live =
      count / kNumTokens * static_cast<size_t>(batch.total_q_tokens());
  std::vector<char> k(count * SizeOfScalar(point.new_kv_type));
  std::vector<char> v(k.size());
  for (size_t i = 0; i < count; ++i) {
    const bool is_padding = i >= live;
    StoreScalar(point.new_kv_type, k.data(), i,
                is_padding ? std::nanf("") : world.Draw());
    StoreScalar(point.new_kv_type, v.data(), i,
                is_padding ? std::nanf("") : world.Draw());
  }
  const auto heads = [&](const std::vector<char>& data) -> HeadsView {
    return {point.new_kv_type, data.data(), kNumTokens, point.num_kv_heads,
            point.head_dim};
  };
  const auto run = [&](AttentionBackend& which, AttentionWorld& in,
                       std::vector<char>& out) {
    out.assign(q.num_bytes(), '\x7f');
    EXPECT_THAT(
        which.WriteKvAndAttend(
            q, heads(k), heads(v), in.Pages(), batch, in.options,
            {q.type, out.data(), q.num_tokens, q.num_heads, q.head_dim}),
        IsOk());
  };
  AttentionWorld written = world;
  std::vector<char> rounded;
  ReferenceAttention reference;
  run(reference, written, rounded);
  std::vector<double> wanted(q.num_elements());
  EXPECT_THAT(reference.AttendInDouble(q, ReadOnly(written.Pages()), batch,
                                       world.options, wanted),
              IsOk());

  std::vector<char> bytes;
  run(backend, world, bytes);
  EXPECT_EQ(world.kv, written.kv);
  std::vector<float> got;
  for (size_t i = 0; i < q.num_elements(); ++i) {
    got.push_back(LoadScalar(q.type, bytes.data(), i));
  }
  const double error = WorstError(got, wanted, q.type);
  EXPECT_LE(error, 1.0);
  for (size_t i = q.Offset(batch.total_q_tokens(), 0); i < got.size(); ++i) {
    EXPECT_EQ(got[i], 0.0f) << "padding element " << i;
  }
  return error;
}

// The parameters are the plugin's place in TIDEWHEEL_PJRT_CPU_PLUGINS and a
// point of the grid.
class AttentionGridTest
    : public ::testing::TestWithParam<std::tuple<int, size_t>> {};

TEST_P(AttentionGridTest, BothFormsAgreeWithTheReference) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, std::get<0>(GetParam()));
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  const size_t index = std::get<1>(GetParam());
  const GridPoint& point = kGrid[index];
  SCOPED_TRACE(point.name);
  // Tiles that divide nothing, and one block or tile for all.
  const auto kv_head_padding = static_cast<int64_t>(index % 3);
  StablehloAttention decode(client, {.form = AttentionForm::kDecode,
                                     .kv_block_pages = index % 2 == 0 ? 3 : 100,
                                     .row_tile = index % 2 == 0 ? 100 : 5,
                                     .head_padding = point.head_padding,
                                     .kv_head_padding = kv_head_padding,
                                     .head_rows = 2});
  StablehloAttention prefill(client,
                             {.form = AttentionForm::kPrefill,
                              .kv_block_pages = index % 3 == 2 ? 100 : 2,
                              .row_tile = 4,
                              .query_tile = index % 2 == 0 ? 5 : 100,
                              .head_padding = point.head_padding,
                              .kv_head_padding = kv_head_padding});
  double worst = 0;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    worst = std::max(worst, ExpectBatchAgrees(point, seed, decode));
    worst = std::max(worst, ExpectBatchAgrees(point, seed, prefill));
    if (HasFailure()) break;
  }
  EXPECT_EQ(decode.num_compiles(), 1u);
  EXPECT_EQ(prefill.num_compiles(), 1u);
  RecordProperty("worst_error_in_1e-5_of_the_largest", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(
    CpuPlugins, AttentionGridTest,
    ::testing::Combine(::testing::Range(0, kNumCpuPlugins),
                       ::testing::Range<size_t>(0, std::size(kGrid))));

}  // namespace
}  // namespace tidewheel
