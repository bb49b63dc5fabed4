// PjrtBackend against JAX's own answers and against the reference, on CPU
// plugins.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "attention/pjrt/pjrt_backend.h"
#include "attention/reference_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/attention_world.h"
#include "tests/attention/golden_files.h"
#include "tests/attention/pjrt/cpu_plugin_test_base.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class PjrtBackendTest : public CpuPluginTest {
 protected:
  void SetUp() override {
    CpuPluginTest::SetUp();
    if (client_ == nullptr) return;
    auto backend = PjrtBackend::Create(client_);
    ASSERT_THAT(backend, IsOk());
    backend_ = *std::move(backend);
  }

  // What tests/data/golden/README.md asks of float32 accumulation: 1e-5 of the
  // largest value, and half an ulp of the output.
  void ExpectCaseAgrees(const std::string& folder, const std::string& name) {
    SCOPED_TRACE(name);
    const GoldenCase golden = ReadGoldenCase(folder, name);
    const HeadsView q = golden.q();
    GoldenTensor out = {golden.tensors.at("q").dtype, {}, {}};
    out.bytes.assign(q.num_bytes(), '\x7f');
    ASSERT_THAT(
        backend_->RaggedPagedAttention(
            q, golden.kv_pages(), golden.batch(), golden.options(),
            {q.type, out.bytes.data(), q.num_tokens, q.num_heads, q.head_dim}),
        IsOk());
    const std::vector<double> got = out.Doubles();
    const std::vector<double> ideal =
        golden.tensors.at("expected_f64").Doubles();
    ASSERT_GE(got.size(), ideal.size());
    double largest = 0;
    for (const double value : ideal) {
      largest = std::max(largest, std::fabs(value));
    }
    const double ulp = q.type == ScalarType::kBfloat16 ? 0x1p-8 : 0x1p-24;
    for (size_t i = 0; i < ideal.size(); ++i) {
      const double error = std::fabs(got[i] - ideal[i]);
      const double rounding = ulp * std::fabs(ideal[i]);
      ASSERT_LE(error, 1e-5 * largest + rounding)
          << "element " << i << ": " << got[i] << " for " << ideal[i];
      worst_ = std::max(worst_, (error - rounding) / largest);
    }
    for (size_t i = ideal.size(); i < got.size(); ++i) {
      ASSERT_EQ(got[i], 0.0) << "padding element " << i;
    }
  }

  std::unique_ptr<PjrtBackend> backend_;
  double worst_ = 0;  // of the largest value, beyond the output's rounding
};

TEST_P(PjrtBackendTest, AgreesWithTheSelectedGoldenCases) {
  const std::string folder = TIDEWHEEL_SOURCE_DIR "/tests/data/golden/cases";
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_EQ(names.size(), 12u);
  for (const std::string& name : names) ExpectCaseAgrees(folder, name);
}

// Each case on one of the plugins: nearly each is a compile of its own.
// AttentionGoldenTest runs it in the other form on the other plugin.
TEST_P(PjrtBackendTest, OneOfThePluginsAgreesWithEveryGoldenCase) {
  TIDEWHEEL_REQUIRE_SHARED(folder, "golden/cases");
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_GE(names.size(), 145u);
  for (size_t i = static_cast<size_t>(GetParam()); i < names.size();
       i += kNumCpuPlugins) {
    ExpectCaseAgrees(folder, names[i]);
  }
  std::cout << "worst error " << worst_ << " of the largest value\n";
}

// A world of drawn types, sizes and options; poison where nobody may look.
AttentionWorld DrawWorld(uint32_t seed) {
  AttentionWorld world;
  world.random.seed(seed);
  const auto below = [&world](size_t limit) {
    return static_cast<int32_t>(world.random() % limit);
  };
  constexpr ScalarType kKvTypes[] = {
      ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E4m3fn,
      ScalarType::kFloat8E5m2, ScalarType::kInt8};
  world.q_type = below(2) == 0 ? ScalarType::kFloat32 : ScalarType::kBfloat16;
  world.kv_type = kKvTypes[seed % 5];
  world.num_kv_heads = 1 + below(3);
  world.num_q_heads = world.num_kv_heads * (1 + below(3));
  world.head_dim = 1 + below(20);
  world.page_size = 1 + below(6);
  world.pages_per_seq = 4 + below(6);
  world.padding_rows = below(3);
  world.padding_queries = below(4);
  world.options.sm_scale = 0.3f;
  if (below(3) == 0) world.options.sliding_window = 1 + below(9);
  if (below(3) == 0) world.options.soft_cap = 2.5f;
  if (below(4) == 0) world.options.mask_value = -3;
  if (world.kv_type != ScalarType::kFloat32 && below(2) == 0) {
    world.options.k_scale = 0.25f;
    world.options.v_scale = 0.5f;
  }
  world.options.empty_rows = EmptyRows::kSkip;
  const int32_t longest = world.page_size * world.pages_per_seq;
  for (int32_t row = 1 + below(4); row > 0; --row) {
    const int32_t kv_len = 1 + below(static_cast<size_t>(longest));
    const int32_t q_len =
        below(2) == 0 ? 1 : below(static_cast<size_t>(kv_len) + 1);
    world.AddRow(q_len, kv_len);
  }
  return world;
}

// Rounding of the output, and float32 accumulation of values of this size.
void ExpectNear(const AttentionWorld& world, const std::vector<float>& got,
                const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  float largest = 0;
  for (const float value : wanted) {
    largest = std::max(largest, std::fabs(value));
  }
  // Values may fall on either side of a rounding boundary.
  const float ulp = world.q_type == ScalarType::kBfloat16 ? 0x1p-7f : 0x1p-23f;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_LE(std::fabs(got[i] - wanted[i]),
              2e-5f * largest + ulp * std::fabs(wanted[i]))
        << "element " << i << ": " << got[i] << " for " << wanted[i];
  }
}

TEST_P(PjrtBackendTest, AgreesWithTheReferenceInDrawnWorlds) {
  ReferenceAttention reference;
  for (uint32_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    AttentionWorld world = DrawWorld(seed);
    const RaggedBatch batch = world.Build();
    absl::Status status;
    const std::vector<float> wanted = world.Run(reference, batch);
    const std::vector<float> got = world.Run(*backend_, batch, &status);
    ASSERT_THAT(status, IsOk());
    ASSERT_NO_FATAL_FAILURE(ExpectNear(world, got, wanted));
  }
}

// This step's k and v of any two types, padding rows NaN.
struct NewKv {
  std::vector<char> k;
  std::vector<char> v;
  HeadsView k_view;
  HeadsView v_view;
};

NewKv DrawNewKv(AttentionWorld& world, ScalarType k_type, ScalarType v_type,
                int32_t real_tokens) {
  const int64_t tokens = world.Queries().num_tokens;
  const auto draw = [&](ScalarType type, std::vector<char>& bytes) {
    const HeadsView view = {type, nullptr, tokens, world.num_kv_heads,
                            world.head_dim};
    bytes.resize(view.num_bytes());
    for (size_t i = 0; i < view.num_elements(); ++i) {
      const bool real = i < view.Offset(real_tokens, 0);
      StoreScalar(type, bytes.data(), i, real ? world.Draw() * 3 : kNan);
    }
    return view;
  };
  NewKv kv;
  kv.k_view = draw(k_type, kv.k);
  kv.v_view = draw(v_type, kv.v);
  kv.k_view.data = kv.k.data();
  kv.v_view.data = kv.v.data();
  return kv;
}

TEST_P(PjrtBackendTest, FusedFormWritesThePagesBitForBit) {
  ReferenceAttention reference;
  for (uint32_t seed = 100; seed < 115; ++seed) {
    SCOPED_TRACE(seed);
    AttentionWorld world = DrawWorld(seed);
    const RaggedBatch batch = world.Build();
    const ScalarType types[] = {ScalarType::kFloat32, ScalarType::kBfloat16,
                                world.kv_type};
    // k and v of different types in some worlds.
    NewKv kv = DrawNewKv(world, types[seed % 3], types[seed / 5 % 3],
                         batch.total_q_tokens());
    const HeadsView q = world.Queries();
    AttentionWorld expected = world;
    std::vector<char> out(q.num_bytes(), '\x7f');
    std::vector<char> wanted = out;
    const auto run = [&](AttentionBackend& backend, AttentionWorld& on,
                         std::vector<char>& to) {
      return backend.WriteKvAndAttend(
          q, kv.k_view, kv.v_view, on.Pages(), batch, world.options,
          {q.type, to.data(), q.num_tokens, q.num_heads, q.head_dim});
    };
    ASSERT_THAT(run(reference, expected, wanted), IsOk());
    ASSERT_THAT(run(*backend_, world, out), IsOk());
    EXPECT_EQ(world.kv, expected.kv);
    std::vector<float> got_values;
    std::vector<float> wanted_values;
    for (size_t i = 0; i < q.num_elements(); ++i) {
      got_values.push_back(LoadScalar(q.type, out.data(), i));
      wanted_values.push_back(LoadScalar(q.type, wanted.data(), i));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectNear(world, got_values, wanted_values));
  }
}

TEST_P(PjrtBackendTest, RefusedCallChangesNothing) {
  AttentionWorld world;
  world.AddRow(1, 5);
  world.AddRow(2, 7);
  world.Entry(1, 1) = world.Entry(0, 1);  // Both rows write this page.
  const RaggedBatch batch = world.Build();
  const HeadsView q = world.Queries();
  const std::vector<char> before = world.kv;
  const NewKv kv =
      DrawNewKv(world, ScalarType::kFloat32, ScalarType::kFloat32, 3);
  std::vector<float> out(q.num_elements(), 42.0f);
  EXPECT_THAT(backend_->WriteKvAndAttend(
                  q, kv.k_view, kv.v_view, world.Pages(), batch, world.options,
                  {ScalarType::kFloat32, out.data(), q.num_tokens, 4, 8}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is written by rows 0 and 1")));
  EXPECT_EQ(world.kv, before);
  EXPECT_THAT(out, Each(42.0f));
  EXPECT_EQ(backend_->programs().counts().compiles, 0);
}

TEST_P(PjrtBackendTest, BatchOfEmptyRowsGivesZeros) {
  AttentionWorld world;
  world.options.empty_rows = EmptyRows::kSkip;
  world.AddRow(0, 3);
  absl::Status status;
  const std::vector<float> out = world.Run(*backend_, world.Build(), &status);
  EXPECT_THAT(status, IsOk());
  EXPECT_EQ(out.size(), 2u * 4 * 8);
  EXPECT_THAT(out, Each(0.0f));
}

TEST_P(PjrtBackendTest, CallsOfOneShapeCompileOnce) {
  AttentionWorld world;
  world.AddRow(1, 9);
  world.AddRow(1, 4);
  const std::vector<float> first = world.Run(*backend_, world.Build());
  EXPECT_EQ(world.Run(*backend_, world.Build()), first);
  EXPECT_EQ(backend_->programs().counts().compiles, 1);
  world.options.sm_scale = 0.5f;
  EXPECT_NE(world.Run(*backend_, world.Build()), first);
  EXPECT_EQ(backend_->programs().counts().compiles, 2);
  world.options.sm_scale = 1;
  EXPECT_EQ(world.Run(*backend_, world.Build()), first);
  EXPECT_EQ(backend_->programs().counts().compiles, 2);
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, PjrtBackendTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
