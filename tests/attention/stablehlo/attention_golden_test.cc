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
void ExpectCaseAgrees(AttentionBackend& backend, const std::string& folder,
                      const std::string& name) {
  SCOPED_TRACE(name);
  const GoldenCase golden = ReadGoldenCase(folder, name);
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

// Case `i` in one form on one plugin and in the other form on the other; every
// second pair of cases with tiles that divide nothing; KV heads of every third
// padded.
void ExpectCasesAgree(const std::shared_ptr<PjrtClient>& client, int plugin,
                      const std::string& folder, size_t num_cases) {
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_GE(names.size(), num_cases);
  for (size_t i = 0; i < names.size(); ++i) {
    const bool decodes = (i + static_cast<size_t>(plugin)) % 2 == 0;
    const bool is_tiled = i / 2 % 2 == 0;
    StablehloAttention backend(
        client,
        {.form = decodes ? AttentionForm::kDecode : AttentionForm::kPrefill,
         .kv_block_pages = is_tiled ? 3 : 0,
         .row_tile = is_tiled ? 3 : 0,
         .query_tile = is_tiled ? 5 : 0,
         .kv_head_padding = i % 3 == 0 ? 1 : 0});
    ExpectCaseAgrees(backend, folder, names[i]);
  }
}

TEST_P(AttentionGoldenTest, ProgramsAgreeWithTheSelectedCases) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  ExpectCasesAgree(client, GetParam(),
                   TIDEWHEEL_SOURCE_DIR "/tests/data/golden/cases", 12);
}

TEST_P(AttentionGoldenTest, ProgramsAgreeWithEveryCase) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  TIDEWHEEL_REQUIRE_SHARED(folder, "golden/cases");
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  ExpectCasesAgree(client, GetParam(), folder, 145);
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, AttentionGoldenTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
