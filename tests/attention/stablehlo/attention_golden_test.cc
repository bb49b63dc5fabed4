// The emitted attention program against JAX's own answers, on CPU plugins.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/golden_files.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/attention/stablehlo/stablehlo_attention.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

// The parameter is the plugin's place in TIDEWHEEL_PJRT_CPU_PLUGINS.
class AttentionGoldenTest : public ::testing::TestWithParam<int> {};

// What tests/data/golden/README.md asks of float32 accumulation: 1e-5 of the
// largest value, and half an ulp of the output.
void ExpectCaseAgrees(AttentionBackend& backend, const GoldenCase& golden) {
  const HeadsView q = golden.q();
  GoldenTensor out = {golden.tensors.at("q").dtype, {}, {}};
  out.bytes.assign(q.num_bytes(), '\x7f');
  ASSERT_THAT(
      backend.RaggedPagedAttention(
          q, golden.kv_pages(), golden.batch(), golden.options(),
          {q.type, out.bytes.data(), q.num_tokens, q.num_heads, q.head_dim}),
      IsOk());
  const std::vector<double> got = out.Doubles();
  const std::vector<double> ideal = golden.tensors.at("expected_f64").Doubles();
  ASSERT_GE(got.size(), ideal.size());
  double largest = 0;
  for (const double value : ideal) {
    largest = std::max(largest, std::fabs(value));
  }
  const double ulp = q.type == ScalarType::kBfloat16 ? 0x1p-8 : 0x1p-24;
  for (size_t i = 0; i < ideal.size(); ++i) {
    ASSERT_LE(std::fabs(got[i] - ideal[i]),
              1e-5 * largest + ulp * std::fabs(ideal[i]))
        << "element " << i << ": " << got[i] << " for " << ideal[i];
  }
  for (size_t i = ideal.size(); i < got.size(); ++i) {
    ASSERT_EQ(got[i], 0.0) << "padding element " << i;
  }
}

// Of the `index`-th case: every second pair with tiles that divide nothing; KV
// heads of every third padded.
StablehloAttention::Options OptionsOf(size_t index, bool decodes) {
  const bool is_tiled = index / 2 % 2 == 0;
  return {.form = decodes ? AttentionForm::kDecode : AttentionForm::kPrefill,
          .kv_block_pages = is_tiled ? 3 : 0,
          .row_tile = is_tiled ? 3 : 0,
          .query_tile = is_tiled ? 5 : 0,
          .kv_head_padding = index % 3 == 0 ? 1 : 0};
}

// Each in one form on one plugin and in the other form on the other.
TEST_P(AttentionGoldenTest, ProgramsAgreeWithTheSelectedCases) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  const std::string folder = TIDEWHEEL_SOURCE_DIR "/tests/data/golden/cases";
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_EQ(names.size(), 12u);
  for (size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const bool decodes = (i + static_cast<size_t>(GetParam())) % 2 == 0;
    StablehloAttention backend(client, OptionsOf(i, decodes));
    ExpectCaseAgrees(backend, ReadGoldenCase(folder, names[i]));
  }
}

// Each case is a compile of about a second. PjrtBackendTest runs each on one
// plugin in the form that a server takes; here it runs on the other plugin in
// the other form.
TEST_P(AttentionGoldenTest, OtherFormAgreesWithEveryCaseOnOneOfThePlugins) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  TIDEWHEEL_REQUIRE_SHARED(folder, "golden/cases");
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_GE(names.size(), 145u);
  const auto first = static_cast<size_t>(kNumCpuPlugins - 1 - GetParam());
  for (size_t i = first; i < names.size(); i += kNumCpuPlugins) {
    SCOPED_TRACE(names[i]);
    const GoldenCase golden = ReadGoldenCase(folder, names[i]);
    const RaggedBatch batch = golden.batch();
    bool has_prefill = false;
    for (int32_t row = 0; row < batch.num_seqs; ++row) {
      has_prefill |= batch.q_len(row) > 1;
    }
    StablehloAttention backend(client, OptionsOf(i, /*decodes=*/has_prefill));
    ExpectCaseAgrees(backend, golden);
  }
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, AttentionGoldenTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
