// Which program runs a step: a kernel of a library or one emitted here. On the
// fake plugin, which compiles anything.

#include "attention/pjrt/attention_programs.h"

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "attention/pjrt/kernel_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/attention/pjrt/fake_plugin_test_base.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The bytes of every kernel here and their hash, as Python's xxhash prints it.
constexpr char kBytes[] = "kernel one";
constexpr char kHash[] = "6e6b19c0e22792d7591d87b4453f7a04";

struct KernelSize {
  int64_t num_tokens;
  int64_t max_num_seqs;
  int64_t pages_per_seq;
  int64_t num_queries_per_block = 16;
};

AttentionProgramShape Shape() {
  AttentionProgramShape shape;
  shape.q_type = shape.kv_type = shape.new_kv_type = ScalarType::kBfloat16;
  shape.num_q_heads = 8;
  shape.num_kv_heads = 2;
  shape.head_dim = shape.pool_head_dim = 128;
  shape.page_size = 16;
  shape.total_num_pages = 64;
  shape.max_num_seqs = 8;
  shape.pages_per_seq = 20;
  shape.options.sm_scale = 0.125f;
  return shape;
}

Json Tensor(const char* name, const char* dtype, const Json& shape) {
  return {{"name", name}, {"dtype", dtype}, {"shape", shape}};
}

// A kernel for Shape() in the exporter's words.
Json Entry(const KernelSize& size) {
  const Json q = {size.num_tokens, 8, 128};
  const Json kv = {size.num_tokens, 2, 128};
  const Json pool = {64, 16, 4, 128};
  const char* const bf16 = "bfloat16";
  return {
      {"file", std::string(kHash) + ".mlirbc"},
      {"bytes", std::string(kBytes).size()},
      {"xxh3_128", kHash},
      {"stablehlo_version", "1.15.0"},
      {"mosaic_version", 11},
      {"generation", "v5e"},
      {"num_tokens", size.num_tokens},
      {"max_num_seqs", size.max_num_seqs},
      {"pages_per_seq", size.pages_per_seq},
      {"num_q_heads", 8},
      {"num_kv_heads", 2},
      {"head_dim", 128},
      {"pool_head_dim", 128},
      {"page_size", 16},
      {"total_num_pages", 64},
      {"q_dtype", bf16},
      {"new_kv_dtype", bf16},
      {"kv_dtype", bf16},
      {"num_kv_pages_per_block", 8},
      {"num_queries_per_block", size.num_queries_per_block},
      {"vmem_limit_bytes", nullptr},
      {"donated_argument", 3},
      {"donated_result", 1},
      {"options",
       {{"sm_scale", 0.125},
        {"sliding_window", nullptr},
        {"soft_cap", nullptr},
        {"mask_value", -2.381976426469702e+38},
        {"k_scale", nullptr},
        {"v_scale", nullptr}}},
      {"arguments",
       {Tensor("q", bf16, q), Tensor("k", bf16, kv), Tensor("v", bf16, kv),
        Tensor("kv_pages", bf16, pool),
        Tensor("kv_lens", "int32", Json::array({size.max_num_seqs})),
        Tensor("page_indices", "int32",
               Json::array({size.max_num_seqs, size.pages_per_seq})),
        Tensor("cu_q_lens", "int32", Json::array({size.max_num_seqs + 1})),
        Tensor("num_seqs", "int32", Json::array({1}))}},
      {"results", {Tensor("out", bf16, q), Tensor("kv_pages", bf16, pool)}}};
}

class AttentionProgramsTest : public FakePluginTest {
 protected:
  void SetUp() override {
    auto cache = ProgramCache::Create(MakeClient(), {});
    ASSERT_THAT(cache, IsOk());
    cache_ = *std::move(cache);
  }
  void TearDown() override {
    programs_.reset();
    cache_.reset();
    FakePluginTest::TearDown();
  }

  void MakeLibrary(const std::vector<KernelSize>& sizes) {
    Json entries = Json::array();
    for (const KernelSize& size : sizes) entries.push_back(Entry(size));
    folder_.Write(std::string(kHash) + ".mlirbc", kBytes);
    const Json manifest = {{"format", "tidewheel-tpu-kernels"},
                           {"format_version", 1},
                           {"jax_version", "0.10.2"},
                           {"jaxlib_version", "0.10.2"},
                           {"artifacts", entries}};
    folder_.Write("manifest.json", manifest.dump());
    auto library = KernelLibrary::Load(folder_.path().string());
    ASSERT_THAT(library, IsOk());
    library_.emplace(*std::move(library));
  }
  KernelPlan Plan(int32_t max_num_batched_tokens) {
    const auto plan = PlanKernels(
        Shape(), {.max_num_batched_tokens = max_num_batched_tokens},
        library_.has_value() ? &*library_ : nullptr, TpuGeneration::kV5e);
    EXPECT_THAT(plan, IsOk());
    return *plan;
  }
  void MakePrograms(const KernelPlan& plan) {
    AttentionPrograms::Options options;
    options.shape = Shape();
    options.shape.max_num_seqs = plan.table.max_num_seqs;
    options.shape.pages_per_seq = plan.table.pages_per_seq;
    options.token_buckets = plan.token_buckets;
    options.kernels = library_.has_value() ? &*library_ : nullptr;
    options.generation = TpuGeneration::kV5e;
    options.note = [this](absl::string_view text) {
      notes_.emplace_back(text);
    };
    auto programs = AttentionPrograms::Create(cache_.get(), options);
    ASSERT_THAT(programs, IsOk());
    programs_ = *std::move(programs);
  }
  // The fake returns what was announced at the compile.
  const PjrtExecutable* Get(AttentionForm form, int32_t tokens) {
    const size_t bucket = programs_->BucketOf(tokens);
    fake().outputs = {
        {PjrtElementType::kBf16, {programs_->tokens(bucket), 8, 128}},
        {PjrtElementType::kBf16, {64, 16, 4, 128}}};
    const auto got = programs_->Get(form, bucket);
    EXPECT_THAT(got, IsOk());
    return got.value_or(nullptr);
  }

  const TemporaryFolder folder_;
  std::unique_ptr<ProgramCache> cache_;
  std::optional<KernelLibrary> library_;
  std::unique_ptr<AttentionPrograms> programs_;
  std::vector<std::string> notes_;
};

TEST_F(AttentionProgramsTest, WithoutALibraryEachFormIsEmittedOnce) {
  const KernelPlan plan = Plan(50);
  EXPECT_THAT(plan.token_buckets, ElementsAre(16, 32, 64));
  EXPECT_EQ(plan.table.pages_per_seq, 20);
  MakePrograms(plan);
  const PjrtExecutable* const decode = Get(AttentionForm::kDecode, 3);
  EXPECT_NE(Get(AttentionForm::kPrefill, 16), decode);
  EXPECT_EQ(Get(AttentionForm::kDecode, 16), decode);
  EXPECT_NE(Get(AttentionForm::kDecode, 17), decode);
  EXPECT_EQ(cache_->counts().compiles, 3);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(AttentionProgramsTest, KernelServesBothFormsOfItsBucket) {
  MakeLibrary({{24, 8, 32}, {64, 8, 32}});
  const KernelPlan plan = Plan(50);
  // The kernels' buckets and table.
  EXPECT_THAT(plan.token_buckets, ElementsAre(16, 24, 32, 64));
  EXPECT_EQ(plan.table.max_num_seqs, 8);
  EXPECT_EQ(plan.table.pages_per_seq, 32);
  MakePrograms(plan);
  const PjrtExecutable* const kernel = Get(AttentionForm::kDecode, 20);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(Get(AttentionForm::kPrefill, 24), kernel);
  EXPECT_EQ(kernel->arguments()[0].shape.dims()[0], 24);
  EXPECT_TRUE(kernel->arguments()[3].donated);
  EXPECT_NE(Get(AttentionForm::kPrefill, 64), kernel);
  EXPECT_EQ(cache_->counts().compiles, 2);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(AttentionProgramsTest, BucketWithoutAKernelIsEmittedAndTold) {
  MakeLibrary({{64, 8, 32}});
  MakePrograms(Plan(64));
  const PjrtExecutable* const decode = Get(AttentionForm::kDecode, 5);
  EXPECT_NE(Get(AttentionForm::kPrefill, 5), decode);
  EXPECT_NE(Get(AttentionForm::kDecode, 5), nullptr);
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("batches of 16 tokens"),
                                        HasSubstr(folder_.path().string()),
                                        HasSubstr("is for 64 tokens"))));
}

TEST_F(AttentionProgramsTest, KernelOfAnotherModelIsNotUsed) {
  MakeLibrary({{16, 8, 20}});
  KernelNeed need = KernelNeedOf(Shape(), TpuGeneration::kV6e);
  need.bucket.num_tokens = 16;
  EXPECT_EQ(library_->Choose(need).artifact, nullptr);
  AttentionPrograms::Options options;
  options.shape = Shape();
  options.token_buckets = {16};
  options.kernels = &*library_;
  options.generation = TpuGeneration::kV6e;
  options.note = [this](absl::string_view text) { notes_.emplace_back(text); };
  auto programs = AttentionPrograms::Create(cache_.get(), options);
  ASSERT_THAT(programs, IsOk());
  programs_ = *std::move(programs);
  EXPECT_NE(Get(AttentionForm::kDecode, 1), nullptr);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("v6e")));
}

// 2048 queries a block need more vector memory than a v5e lends.
TEST_F(AttentionProgramsTest, KernelWhoseBlocksDoNotFitIsNotUsed) {
  MakeLibrary({{2048, 8, 20, 2048}});
  const KernelArtifact& artifact = library_->manifest().artifacts.front();
  EXPECT_THAT(CheckKernelFits(artifact),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("2048 queries does not fit")));
  MakePrograms(Plan(2048));
  EXPECT_NE(Get(AttentionForm::kPrefill, 2000), nullptr);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("does not fit")));
}

// Between the two bounds of what it needs the compiler decides.
TEST_F(AttentionProgramsTest, KernelThatMayFitIsTried) {
  MakeLibrary({{2048, 8, 20, 64}});
  KernelArtifact artifact = library_->manifest().artifacts.front();
  artifact.vmem_limit_bytes = 1;
  const std::string refusal(CheckKernelFits(artifact).message());
  std::smatch bounds;
  ASSERT_TRUE(std::regex_search(
      refusal, bounds, std::regex("up to (\\d+) bytes .* at least (\\d+)")));
  const int64_t least = std::stoll(bounds[2]);
  ASSERT_LT(least, std::stoll(bounds[1]));
  artifact.vmem_limit_bytes = least;
  EXPECT_THAT(CheckKernelFits(artifact), IsOk());
  artifact.vmem_limit_bytes = least - 1;
  EXPECT_THAT(CheckKernelFits(artifact),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("does not fit")));
}

TEST_F(AttentionProgramsTest, KernelThatWasDamagedSinceIsNotUsed) {
  MakeLibrary({{16, 8, 20}});
  folder_.Write(std::string(kHash) + ".mlirbc", "kernel 0ne");
  MakePrograms(Plan(16));
  EXPECT_NE(Get(AttentionForm::kDecode, 1), nullptr);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("batches of 16 tokens")));
}

}  // namespace
}  // namespace tidewheel
