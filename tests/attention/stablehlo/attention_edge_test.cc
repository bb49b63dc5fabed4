// Corners of the attention contract that random batches and JAX's cases seldom
// reach, on CPU plugins: both forms give what the reference gives.

#include <algorithm>
#include <string>
#include <utility>
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

// The parameter is the plugin's place in TIDEWHEEL_PJRT_CPU_PLUGINS.
class AttentionEdgeTest : public ::testing::TestWithParam<int> {
 protected:
  static StablehloAttention::Options Options(AttentionForm form) {
    return {.form = form, .kv_block_pages = 2, .row_tile = 2, .query_tile = 4};
  }

  // Runs the world in both forms and expects the reference's result.
  void ExpectAgrees(AttentionWorld& world, StablehloAttention& decode,
                    StablehloAttention& prefill) {
    ReferenceAttention reference;
    const RaggedBatch batch = world.Build();
    const std::vector<float> wanted = world.Run(reference, batch);
    ASSERT_FALSE(wanted.empty());
    for (StablehloAttention* backend : {&decode, &prefill}) {
      absl::Status status;
      const std::vector<float> got = world.Run(*backend, batch, &status);
      ASSERT_THAT(status, IsOk());
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], wanted[i], 2e-6) << i;
      }
    }
  }
};

// Pages that lie wholly before the window are the null page, which holds NaN.
TEST_P(AttentionEdgeTest, ReleasedPagesAreNotRead) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  StablehloAttention decode(client, Options(AttentionForm::kDecode));
  StablehloAttention prefill(client, Options(AttentionForm::kPrefill));
  for (const int32_t window : {3, 9}) {
    AttentionWorld world;
    world.options.sliding_window = window;
    for (const auto& [q_len, kv_len] :
         {std::pair(1, 27), std::pair(6, 31), std::pair(1, 5)}) {
      const auto row = static_cast<size_t>(world.AddRow(q_len, kv_len));
      const int32_t first_key = std::max(0, kv_len - q_len - window + 1);
      for (int32_t entry = 0; entry < first_key / 4; ++entry) {
        world.Entry(row, entry) = 0;
      }
    }
    ExpectAgrees(world, decode, prefill);
  }
}

// Logits below any mask, and so far apart that all but one weight is 0; the
// running maximum starts below them.
TEST_P(AttentionEdgeTest, HugeLogitsAreAPlainSoftmax) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  StablehloAttention decode(client, Options(AttentionForm::kDecode));
  StablehloAttention prefill(client, Options(AttentionForm::kPrefill));
  for (const float size : {1.0f, 6e4f, 1e30f, -1e30f}) {
    AttentionWorld world;
    world.num_q_heads = world.num_kv_heads = 1;
    world.head_dim = 1;
    world.AddRow(1, 20);
    world.AddRow(2, 17);
    world.queries = {{-size}, {-size, size}};
    for (size_t row = 0; row < 2; ++row) {
      for (int32_t t = 0; t < world.lens[row]; ++t) {
        world.SetSlot(world.Entry(row, t / 4), t % 4, 0, 0, t == 9 ? 2 : 1);
      }
    }
    ExpectAgrees(world, decode, prefill);
  }
}

// Every way in which tokens of other rows lie beside a tile.
TEST_P(AttentionEdgeTest, RowsOfEveryLengthLieBesideEachOther) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  StablehloAttention decode(client, Options(AttentionForm::kDecode));
  StablehloAttention prefill(client, Options(AttentionForm::kPrefill));
  for (int32_t middle = 1; middle <= 9; ++middle) {
    for (const int32_t first : {1, 4, 5}) {
      AttentionWorld world;
      world.AddRow(first, 7);
      world.AddRow(middle, 12);
      world.AddRow(2, 2);
      world.AddRow(1, 30);
      world.padding_queries = 18 - first - middle - 3;
      ExpectAgrees(world, decode, prefill);
    }
  }
  EXPECT_EQ(decode.num_compiles(), 1u);
  EXPECT_EQ(prefill.num_compiles(), 1u);
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, AttentionEdgeTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
