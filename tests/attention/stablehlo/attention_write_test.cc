// What the emitted attention program writes into pages, byte by byte, on CPU
// plugins.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "attention/reference_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/attention/stablehlo/stablehlo_attention.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

constexpr int32_t kTokens = 32;
constexpr int32_t kKvHeads = 4;
constexpr int32_t kHeadDim = 64;
constexpr int32_t kPageSize = 8;
constexpr int32_t kPages = 6;
constexpr size_t kValues = size_t{kTokens} * kKvHeads * kHeadDim;

// The parameter is the plugin's place in TIDEWHEEL_PJRT_CPU_PLUGINS.
class AttentionWriteTest : public ::testing::TestWithParam<int> {};

// The numbers about which rounding to `type` may go wrong: every value of the
// type, the middles between neighbours, and the float32 next to each.
std::vector<float> Edges(ScalarType type) {
  std::vector<float> exact;
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    const float value = LoadScalar(type, &byte, 0);
    if (std::isfinite(value)) exact.push_back(value);
  }
  std::ranges::sort(exact);
  std::vector<float> edges = {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1e30f,
                              -1e30f,        1e-40f,    -0.0f};
  for (size_t i = 0; i < exact.size(); ++i) {
    std::vector<float> around = {exact[i]};
    if (i > 0) around.push_back((exact[i] + exact[i - 1]) / 2);
    for (const float value : around) {
      edges.push_back(value);
      edges.push_back(std::nextafterf(value, HUGE_VALF));
      edges.push_back(std::nextafterf(value, -HUGE_VALF));
      edges.push_back(value * (1 + 0x1p-11f));
      edges.push_back(value * (1 - 0x1p-11f));
    }
  }
  return edges;
}

// One prefill of a row that writes `values`, each as K and as V.
struct WriteCall {
  WriteCall(ScalarType kv_type, ScalarType new_type,
            const std::vector<float>& values)
      : heads(values.size() * SizeOfScalar(new_type)), q(kValues, 1.0f) {
    for (size_t i = 0; i < values.size(); ++i) {
      StoreScalar(new_type, heads.data(), i, values[i]);
    }
    kv = {new_type, heads.data(), kTokens, kKvHeads, kHeadDim};
    pages = {kv_type, nullptr, kPages, kPageSize, 2 * kKvHeads, kHeadDim};
  }

  RaggedBatch batch() const {
    return {.kv_lens = kv_lens,
            .page_indices = table,
            .cu_q_lens = cu_q_lens,
            .num_seqs = 1,
            .max_num_seqs = 1,
            .pages_per_seq = 4,
            .page_size = kPageSize,
            .total_num_pages = kPages,
            .max_num_batched_tokens = kTokens};
  }
  // The pool after the call.
  std::vector<char> Run(AttentionBackend& backend) const {
    std::vector<char> pool(pages.num_bytes(), '\x5a');
    MutableKvPagesView view = pages;
    view.data = pool.data();
    std::vector<float> out(q.size());
    EXPECT_THAT(
        backend.WriteKvAndAttend(
            {ScalarType::kFloat32, q.data(), kTokens, kKvHeads, kHeadDim}, kv,
            kv, view, batch(), options,
            {ScalarType::kFloat32, out.data(), kTokens, kKvHeads, kHeadDim}),
        IsOk());
    return pool;
  }

  std::vector<char> heads;
  std::vector<float> q;
  std::vector<int32_t> kv_lens = {kTokens};
  std::vector<int32_t> table = {3, 1, 5, 2};
  std::vector<int32_t> cu_q_lens = {0, kTokens};
  HeadsView kv;
  MutableKvPagesView pages;
  AttentionOptions options;
};

// `ulp`: relative to a value, what it may differ by. NaN is NaN.
void ExpectSamePool(const WriteCall& call, AttentionBackend& backend,
                    float ulp) {
  SCOPED_TRACE(ScalarTypeName(call.pages.type));
  ReferenceAttention reference;
  const std::vector<char> wanted = call.Run(reference);
  const std::vector<char> got = call.Run(backend);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < call.pages.num_elements(); ++i) {
    const float a = LoadScalar(call.pages.type, got.data(), i);
    const float b = LoadScalar(call.pages.type, wanted.data(), i);
    if (std::isnan(a) && std::isnan(b)) continue;
    // Equal infinities differ by NaN.
    if (a == b && std::signbit(a) == std::signbit(b)) continue;
    ASSERT_LE(std::fabs(a - b), ulp * std::fabs(b)) << "element " << i;
  }
}

TEST_P(AttentionWriteTest, RoundsAsTheReferenceDoes) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  StablehloAttention backend(client, {});
  for (const ScalarType type : {ScalarType::kFloat8E4m3fn,
                                ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    std::vector<float> values = Edges(type);
    ASSERT_LT(values.size(), kValues);
    values.resize(kValues, 0.75f);
    ExpectSamePool(WriteCall(type, ScalarType::kFloat32, values), backend, 0);
  }
}

// Compilers multiply by the reciprocal, so one ulp of a float32 is allowed,
// which 8 bits and 16 do not show here.
TEST_P(AttentionWriteTest, DividesByTheScales) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  StablehloAttention backend(client, {});
  std::vector<float> values(kValues);
  std::mt19937 random(7);
  for (float& value : values) {
    value = std::normal_distribution<float>(0, 50)(random);
  }
  for (const auto& [type, new_type, ulp] :
       {std::tuple(ScalarType::kFloat32, ScalarType::kBfloat16, 0x1p-23f),
        std::tuple(ScalarType::kBfloat16, ScalarType::kFloat32, 0.0f),
        std::tuple(ScalarType::kFloat8E4m3fn, ScalarType::kBfloat16, 0.0f),
        std::tuple(ScalarType::kInt8, ScalarType::kFloat32, 0.0f)}) {
    WriteCall call(type, new_type, values);
    call.options.k_scale = 0.3f;
    call.options.v_scale = -0.7f;
    ExpectSamePool(call, backend, ulp);
  }
}

// Also with a scale, and NaN with all its bits.
TEST_P(AttentionWriteTest, CopiesBitsOfThePoolsType) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  StablehloAttention backend(client, {});
  std::mt19937 random(7);
  for (const ScalarType type :
       {ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E4m3fn,
        ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    WriteCall call(type, type, std::vector<float>(kValues));
    for (char& byte : call.heads) byte = static_cast<char>(random());
    call.options.k_scale = 0.3f;
    ReferenceAttention reference;
    EXPECT_EQ(call.Run(backend), call.Run(reference)) << ScalarTypeName(type);
  }
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, AttentionWriteTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
