#include "attention/pjrt/resident_attention.h"

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/cpu_plugin_test_base.h"
#include "tests/attention/pjrt/resident_world.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

auto Invalid(const char* text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}
auto Misplaced(const char* text) {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text));
}

// A batch of rows of given lengths; row i has page i + 1 and no other.
struct SmallBatch {
  std::vector<int32_t> kv_lens;
  std::vector<int32_t> page_indices;
  std::vector<int32_t> cu_q_lens = {0};
  RaggedBatch batch;

  SmallBatch(const ResidentAttentionOptions& options,
             const std::vector<int32_t>& q_lens) {
    const auto rows = static_cast<size_t>(options.max_num_seqs);
    const auto width = static_cast<size_t>(options.pages_per_seq);
    page_indices.resize(rows * width);
    for (size_t row = 0; row < q_lens.size(); ++row) {
      kv_lens.push_back(q_lens[row]);
      cu_q_lens.push_back(cu_q_lens.back() + q_lens[row]);
      page_indices[row * width] = static_cast<int32_t>(row) + 1;
    }
    kv_lens.resize(rows);
    cu_q_lens.resize(rows + 1, cu_q_lens.back());
    batch = {.kv_lens = kv_lens,
             .page_indices = page_indices,
             .cu_q_lens = cu_q_lens,
             .num_seqs = static_cast<int32_t>(q_lens.size()),
             .max_num_seqs = options.max_num_seqs,
             .pages_per_seq = options.pages_per_seq,
             .page_size = options.page_size,
             .total_num_pages = options.total_num_pages,
             .max_num_batched_tokens = options.tokens.max_num_batched_tokens};
  }
};

class ResidentAttentionTest : public CpuPluginTest {
 protected:
  std::unique_ptr<ResidentAttention> Make(
      const ResidentAttentionOptions& options) {
    auto attention = ResidentAttention::Create(client_, options);
    EXPECT_THAT(attention, IsOk());
    return attention.ok() ? *std::move(attention) : nullptr;
  }

  void ExpectWorldAgrees(const ResidentAttentionOptions& options,
                         int32_t num_steps, uint32_t seed) {
    const auto attention = Make(options);
    ASSERT_NE(attention, nullptr);
    ResidentWorld world(attention.get(), options, seed);
    ASSERT_THAT(world.Run(num_steps), IsOk());
    EXPECT_EQ(world.most_in_flight(), 2u);
    EXPECT_GT(world.num_copies(), 0);
    EXPECT_GT(world.num_abandoned(), 0);
    EXPECT_GT(attention->table().counts().delta_uploads, 0);
    EXPECT_GT(attention->table().counts().whole_uploads, 1);
    std::cout << num_steps << " steps, worst error " << world.worst_error()
              << " of the largest value\n";
  }

  // All of a step but its arrays' values, which are zeros.
  static absl::Status RunStep(ResidentAttention& attention,
                              const SmallBatch& batch,
                              const std::vector<int32_t>& changed_rows) {
    TIDEWHEEL_RETURN_IF_ERROR(
        attention.BeginStep(batch.batch, changed_rows, {}));
    const PjrtClient& client = attention.programs().client();
    const auto upload = [&client](const PjrtShape& shape) {
      const std::vector<std::byte> zeros(
          static_cast<size_t>(shape.num_bytes()));
      return *client.Upload(zeros, shape);
    };
    PjrtBuffer q = upload(attention.q_shape());
    PjrtBuffer k = upload(attention.kv_shape());
    for (int32_t layer = 0; layer < 2; ++layer) {
      TIDEWHEEL_RETURN_IF_ERROR(attention.RunLayer(layer, q, k, k, q));
    }
    return attention.EndStep();
  }

  static ResidentAttentionOptions FloatOptions() {
    return ResidentWorld::Options(ScalarType::kFloat32, ScalarType::kFloat32, 8,
                                  8);
  }
};

TEST_P(ResidentAttentionTest, FloatWorldAgreesWithTheReference) {
  ExpectWorldAgrees(FloatOptions(), 300, 1);
}

TEST_P(ResidentAttentionTest, Bfloat16WorldAgreesWithTheReference) {
  ExpectWorldAgrees(
      ResidentWorld::Options(ScalarType::kBfloat16, ScalarType::kFloat32, 8, 8),
      150, 2);
}

TEST_P(ResidentAttentionTest, Float8WorldAgreesWithTheReference) {
  auto options = ResidentWorld::Options(ScalarType::kFloat8E4m3fn,
                                        ScalarType::kFloat8E4m3fn, 8, 8);
  options.tokens.smallest = 16;
  ExpectWorldAgrees(options, 150, 3);
}

// Heads of 64 in rows of 128, as a TPU wants them.
TEST_P(ResidentAttentionTest, PaddedHeadsAgreeWithTheReference) {
  auto options = ResidentWorld::Options(ScalarType::kBfloat16,
                                        ScalarType::kBfloat16, 64, 128);
  options.tokens.smallest = 16;
  ExpectWorldAgrees(options, 100, 4);
}

// What a TPU pads the pool of 3 KV heads to.
TEST_P(ResidentAttentionTest, PaddedKvHeadsAgreeWithTheReference) {
  auto options = ResidentWorld::Options(ScalarType::kFloat8E5m2,
                                        ScalarType::kBfloat16, 8, 8);
  options.num_q_heads = 6;
  options.num_kv_heads = 3;
  options.pool_kv_heads = 4;
  options.tokens.smallest = 16;
  ExpectWorldAgrees(options, 100, 5);
}

TEST_P(ResidentAttentionTest, NoProgramCopiesThePool) {
  ResidentAttentionOptions options = ResidentWorld::Options(
      ScalarType::kBfloat16, ScalarType::kBfloat16, 64, 128);
  options.total_num_pages = 4000;
  options.tokens.smallest = 16;
  options.attention.resize(1);
  const auto attention = Make(options);
  ASSERT_NE(attention, nullptr);
  ASSERT_THAT(attention->Warm(), IsOk());
  const auto memory = attention->Memory();
  ASSERT_THAT(memory, IsOk());
  const int64_t layer_bytes = 4000 * int64_t{4} * 4 * 128 * 2;
  EXPECT_EQ(memory->pool_bytes, 2 * layer_bytes);
  // Two forms of one bucket, 7 sizes of each page move, 1 and 2 rows of deltas.
  EXPECT_EQ(memory->launches.num_programs, 2 + 21 + 2);
  EXPECT_EQ(memory->launches.least_pool_alias_bytes, layer_bytes);
  EXPECT_LT(memory->launches.largest_temp_bytes, layer_bytes / 8);
  std::cout << "pool " << layer_bytes << " bytes a layer, alias "
            << memory->launches.least_pool_alias_bytes << ", temp "
            << memory->launches.largest_temp_bytes << "\n";
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_P(ResidentAttentionTest, TenThousandStepsLeakNothing) {
  ResidentAttentionOptions options = FloatOptions();
  options.tokens.smallest = 16;
  options.total_num_pages = 3000;
  options.attention.resize(1);
  const auto attention = Make(options);
  ASSERT_NE(attention, nullptr);
  const SmallBatch decode(options, {1, 1, 1});
  const SmallBatch prefill(options, {1, 4});
  int64_t resident = 0;
  constexpr int kWarmup = 500;
  for (int step = 0; step < kWarmup + 10'000; ++step) {
    if (step == kWarmup) resident = ResidentBytes();
    const SmallBatch& batch = step % 3 == 0 ? prefill : decode;
    const std::vector<int32_t> all = {0, 1, 2, 3};
    const std::vector<int32_t> some = {1};
    ASSERT_THAT(RunStep(*attention, batch, step % 7 == 0 ? all : some), IsOk());
    if (step == 0) continue;
    ASSERT_THAT(attention->AwaitOldest(), IsOk());
  }
  const int64_t growth = ResidentBytes() - resident;
  std::cout << "10,000 steps, growth " << growth / 1024 << " KiB\n";
  // A leaked array of a step would be 1 KiB or more of each.
  EXPECT_LT(growth, 4 << 20);
  EXPECT_GT(attention->table().counts().delta_uploads, 5000);
}

TEST_P(ResidentAttentionTest, StepsComeInTheirOrderAndAtMostTwo) {
  ResidentAttentionOptions options = FloatOptions();
  options.tokens.smallest = 16;
  options.attention.resize(1);
  const auto attention = Make(options);
  ASSERT_NE(attention, nullptr);
  const SmallBatch batch(options, {1, 1});
  PjrtBuffer none;
  EXPECT_THAT(attention->EndStep(), Misplaced("no step is open"));
  EXPECT_THAT(attention->RunLayer(0, none, none, none, none),
              Misplaced("no step is open"));
  EXPECT_THAT(attention->AwaitOldest(), Misplaced("no step is in flight"));
  ASSERT_THAT(RunStep(*attention, batch, {}), IsOk());
  ASSERT_THAT(attention->BeginStep(batch.batch, {}, {}), IsOk());
  EXPECT_THAT(attention->BeginStep(batch.batch, {}, {}),
              Misplaced("a step is open"));
  EXPECT_THAT(attention->RunLayer(2, none, none, none, none),
              Invalid("layer 2 is not in [0, 2)"));
  EXPECT_THAT(attention->RunLayer(0, none, none, none, none),
              Invalid("argument 0 is empty"));
  attention->AbandonStep();
  ASSERT_THAT(RunStep(*attention, batch, {}), IsOk());
  EXPECT_EQ(attention->steps_in_flight(), 2u);
  EXPECT_THAT(attention->BeginStep(batch.batch, {}, {}),
              Misplaced("2 steps are in flight"));
  EXPECT_THAT(attention->AwaitOldest(), IsOk());
  EXPECT_THAT(RunStep(*attention, batch, {}), IsOk());
  attention->DropOldest();
  EXPECT_THAT(attention->AwaitOldest(), IsOk());
  EXPECT_EQ(attention->steps_in_flight(), 0u);
}

TEST_P(ResidentAttentionTest, HostArraysGiveWhatDeviceArraysGive) {
  ResidentAttentionOptions options = FloatOptions();
  options.tokens.smallest = 16;
  options.attention.resize(1);
  const auto attention = Make(options);
  ASSERT_NE(attention, nullptr);
  const SmallBatch batch(options, {1});
  ASSERT_THAT(attention->BeginStep(batch.batch, {}, {}), IsOk());
  ASSERT_EQ(attention->step_tokens(), 16);
  std::vector<float> q(16 * 4 * 8, 1);
  std::vector<float> k(16 * 2 * 8, 2);
  std::vector<float> v(16 * 2 * 8, 3);
  std::vector<float> out(q.size(), 9);
  constexpr ScalarType kFloat = ScalarType::kFloat32;
  const HeadsView q_view = {kFloat, q.data(), 16, 4, 8};
  const HeadsView k_view = {kFloat, k.data(), 16, 2, 8};
  const HeadsView v_view = {kFloat, v.data(), 16, 2, 8};
  const MutableHeadsView out_view = {kFloat, out.data(), 16, 4, 8};
  HeadsView bad = q_view;
  bad.num_tokens = 15;
  EXPECT_THAT(attention->RunLayer(0, q_view, bad, v_view, out_view),
              Invalid("k is float32[15, 4, 8] and must be"));
  ASSERT_THAT(attention->RunLayer(0, q_view, k_view, v_view, out_view), IsOk());
  // One key: its value. The rest is padding.
  std::vector<float> wanted(q.size(), 0);
  std::fill_n(wanted.begin(), 4 * 8, 3.0f);
  EXPECT_EQ(out, wanted);
  ASSERT_THAT(attention->EndStep(), IsOk());
  EXPECT_THAT(attention->AwaitOldest(), IsOk());
}

TEST_P(ResidentAttentionTest, BatchesThatDoNotFitAreRefused) {
  ResidentAttentionOptions options = FloatOptions();
  options.tokens.smallest = 16;
  options.attention.resize(1);
  const auto attention = Make(options);
  ASSERT_NE(attention, nullptr);
  const auto refuses = [&](auto change, const char* text) {
    SmallBatch small(options, {1, 3});
    change(small);
    EXPECT_THAT(attention->BeginStep(small.batch, {}, {}), Invalid(text));
  };
  refuses([](auto& b) { b.batch.max_num_seqs = 7; }, "max_num_seqs 7");
  refuses([](auto& b) { b.batch.page_size = 5; }, "page_size 5");
  refuses([](auto& b) { b.batch.num_seqs = 0; }, "num_seqs 0 is not in [1, 6]");
  refuses([](auto& b) { b.batch.num_seqs = 7; }, "num_seqs 7");
  refuses([](auto& b) { b.batch.kv_lens = b.batch.kv_lens.first(3); },
          "kv_lens has 3 entries instead of 6");
  refuses([](auto& b) { b.kv_lens[1] = 2; }, "row 1 has q_len 3");
  refuses([](auto& b) { b.kv_lens[1] = 25; }, "kv_len 25, the table holds 24");
  refuses([](auto& b) { b.cu_q_lens[1] = 0; }, "row 0 has q_len 0");
  refuses([](auto& b) { b.cu_q_lens[0] = 1; }, "cu_q_lens begins with 1");
  refuses([](auto& b) { b.page_indices[6] = 30; }, "row 1 names page 30");
  refuses([](auto& b) { b.page_indices[35] = -1; }, "row 5 names page -1");
  refuses(
      [](auto& b) {
        b.kv_lens[1] = 20;
        b.cu_q_lens[2] = 18;
      },
      "18 query tokens, max_num_batched_tokens is 16");
  const SmallBatch good(options, {1});
  EXPECT_THAT(
      attention->BeginStep(good.batch, {}, std::vector<PageCopy>{{1, 30, 4}}),
      Invalid("the copy of page 1 to 30"));
  ASSERT_THAT(attention->BeginStep(good.batch, {}, {}), IsOk());
  attention->AbandonStep();
  EXPECT_THAT(attention->BeginStep(good.batch, std::vector<int32_t>{6}, {}),
              Invalid("changed row 6"));
}

TEST_P(ResidentAttentionTest, OptionsThatDoNotFitAreRefused) {
  const auto refuses = [&](auto change, const char* text) {
    ResidentAttentionOptions options = FloatOptions();
    change(options);
    EXPECT_THAT(ResidentAttention::Create(client_, options), Invalid(text));
  };
  refuses([](auto& o) { o.num_layers = 0; }, "num_layers 0");
  refuses([](auto& o) { o.num_layers = 3; }, "options for 2 of 3 layers");
  refuses([](auto& o) { o.attention[1].empty_rows = EmptyRows::kSkip; },
          "empty_rows");
  refuses([](auto& o) { o.pool_head_dim = 7; }, "pool_head_dim 7");
  refuses([](auto& o) { o.pool_kv_heads = 1; }, "pool_kv_heads 1");
  refuses([](auto& o) { o.num_kv_heads = 3; }, "num_q_heads 4");
  refuses([](auto& o) { o.attention[1].sliding_window = 0; },
          "sliding_window 0");
  refuses([](auto& o) { o.tokens.max_num_batched_tokens = 0; },
          "max_num_batched_tokens");
}

TEST_P(ResidentAttentionTest, PageZeroStaysZeroAndUnnamedRowsAreKept) {
  ResidentAttentionOptions options = FloatOptions();
  options.tokens.smallest = 16;
  options.attention.resize(1);
  const auto attention = Make(options);
  ASSERT_NE(attention, nullptr);
  const SmallBatch batch(options, {1, 1, 1});
  ASSERT_THAT(RunStep(*attention, batch, {}), IsOk());
  ASSERT_THAT(RunStep(*attention, batch, {}), IsOk());
  ASSERT_THAT(attention->AwaitOldest(), IsOk());
  ASSERT_THAT(RunStep(*attention, batch, {2, 0}), IsOk());
  EXPECT_EQ(attention->table().counts().whole_uploads, 1);
  EXPECT_EQ(attention->table().counts().delta_uploads, 1);
  EXPECT_EQ(attention->table().counts().rows, 2);
  std::vector<std::byte> page(2 * attention->page_bytes(), std::byte{1});
  ASSERT_THAT(attention->ReadPages(std::vector<int32_t>{0}, page), IsOk());
  EXPECT_THAT(page, ::testing::Each(std::byte{0}));
}

TEST_P(ResidentAttentionTest, KernelsOnACpuAreNotedOrMissed) {
  ResidentAttentionOptions options = FloatOptions();
  options.kernel_folder = "/nowhere/kernels";
  EXPECT_THAT(ResidentAttention::Create(client_, options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, ResidentAttentionTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
