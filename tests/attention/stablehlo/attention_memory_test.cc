// What compilers say of the emitted programs' memory: CPU plugins, and libtpu
// without a TPU.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attention/pjrt/libtpu_environment.h"
#include "attention/pjrt/pjrt_topology.h"
#include "attention/stablehlo/page_program.h"
#include "attention/tpu_generation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/attention/stablehlo/stablehlo_attention.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

constexpr ScalarType kF32 = ScalarType::kFloat32;
constexpr ScalarType kBf16 = ScalarType::kBfloat16;
constexpr ScalarType kE4m3 = ScalarType::kFloat8E4m3fn;
constexpr ScalarType kInt8 = ScalarType::kInt8;

// A shape of a server, whose pool is larger than its bound.
AttentionProgramShape Shape(AttentionForm form, ScalarType q_type,
                            ScalarType kv_type, int64_t num_tokens) {
  AttentionProgramShape shape;
  shape.form = form;
  shape.q_type = shape.new_kv_type = q_type;
  shape.kv_type = kv_type;
  shape.num_tokens = num_tokens;
  shape.num_q_heads = 32;
  shape.num_kv_heads = 8;
  shape.head_dim = shape.pool_head_dim = 128;
  shape.page_size = 16;
  shape.total_num_pages = 4096;
  shape.max_num_seqs = 16;
  shape.pages_per_seq = 256;
  if (SizeOfScalar(kv_type) == 1) {
    shape.options.k_scale = shape.options.v_scale = 0.5f;
  }
  return shape;
}

std::vector<AttentionProgramShape> Shapes() {
  std::vector<AttentionProgramShape> shapes = {
      Shape(AttentionForm::kDecode, kF32, kF32, 16),
      Shape(AttentionForm::kDecode, kBf16, kBf16, 256),
      Shape(AttentionForm::kPrefill, kBf16, kE4m3, 512),
      Shape(AttentionForm::kPrefill, kBf16, kInt8, 64)};
  // Narrow heads in a padded pool, many rows, and a context of a million.
  AttentionProgramShape padded =
      Shape(AttentionForm::kDecode, kBf16, kBf16, 128);
  padded.num_q_heads = 14;
  padded.num_kv_heads = 2;
  padded.head_dim = 64;
  padded.max_num_seqs = 128;
  padded.total_num_pages = 32768;
  padded.pages_per_seq = 65536;
  padded.options.sliding_window = 1000;
  shapes.push_back(padded);
  // One page a row, in a type that compilers would rather have narrower.
  shapes.push_back(Shape(AttentionForm::kPrefill, kBf16, kF32, 256));
  shapes.back().pages_per_seq = 1;
  return shapes;
}

// A copy of the pool, or a wider one, is more than the bound.
void ExpectFits(const AttentionProgramShape& shape, const Program& program,
                const PjrtCompiledMemoryStats& stats) {
  EXPECT_EQ(stats.alias_bytes, program.donated_bytes());
  EXPECT_LE(stats.temp_bytes, AttentionTempBound(shape));
  EXPECT_LT(AttentionTempBound(shape), program.donated_bytes());
  ::testing::Test::RecordProperty(
      absl::StrCat("temp of ", program.arguments[0].type.ToString()),
      absl::StrCat(stats.temp_bytes, " of ", AttentionTempBound(shape)));
}

// The parameter is the plugin's place in TIDEWHEEL_PJRT_CPU_PLUGINS.
class AttentionMemoryTest : public ::testing::TestWithParam<int> {};

TEST_P(AttentionMemoryTest, PoolIsAliasedAndTheRestIsBelowTheBound) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  for (AttentionProgramShape shape : Shapes()) {
    shape.pool_as_bits = true;
    const auto program = EmitAttention(shape);
    ASSERT_THAT(program, IsOk());
    SCOPED_TRACE(program->arguments[0].type.ToString());
    const DeviceProgram compiled(client, *program);
    ASSERT_TRUE(compiled.ok());
    ExpectFits(shape, *program, compiled.MemoryStats());
  }
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, AttentionMemoryTest,
                         ::testing::Range(0, kNumCpuPlugins));

TEST(AttentionBoundTest, BoundDoesNotDependOnTheContext) {
  for (AttentionProgramShape shape : Shapes()) {
    shape.pages_per_seq *= 100;  // more than a block, if it was not before
    const int64_t bound = AttentionTempBound(shape);
    shape.pages_per_seq *= 100;
    EXPECT_EQ(AttentionTempBound(shape), bound);
  }
}

// The parameter is the generation.
class TpuMemoryTest : public ::testing::TestWithParam<TpuGeneration> {
 protected:
  // Null after a failure.
  std::shared_ptr<PjrtTopology> Topology(const std::string& libtpu) {
    SetLibtpuCompileEnvironment();
    const auto plugin = PjrtPlugin::Load(libtpu);
    EXPECT_THAT(plugin, IsOk());
    if (!plugin.ok()) return nullptr;
    const auto topology =
        PjrtTopology::Create(*plugin, TpuCompileTarget(GetParam()));
    EXPECT_THAT(topology, IsOk());
    return topology.ok() ? *topology : nullptr;
  }
};

TEST_P(TpuMemoryTest, PoolIsAliasedAndTheRestIsBelowTheBound) {
  TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
  const auto topology = Topology(libtpu);
  ASSERT_NE(topology, nullptr);
  for (AttentionProgramShape shape : Shapes()) {
    // TPUs want heads of 128 lanes.
    shape.pool_head_dim = 128;
    const auto program = EmitAttention(shape);
    ASSERT_THAT(program, IsOk());
    SCOPED_TRACE(program->arguments[0].type.ToString());
    const auto compiled = topology->Compile(program->text);
    ASSERT_THAT(compiled, IsOk());
    const auto stats = (*compiled)->MemoryStats();
    ASSERT_THAT(stats, IsOk());
    ExpectFits(shape, *program, *stats);
  }
}

TEST_P(TpuMemoryTest, PageProgramsDoNotCopyThePool) {
  TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
  const auto topology = Topology(libtpu);
  ASSERT_NE(topology, nullptr);
  const PagePoolShape pool = {.kv_type = kBf16,
                              .total_num_pages = 4096,
                              .page_size = 16,
                              .num_kv_heads = 8,
                              .pool_head_dim = 128};
  for (const auto& program : {EmitCopyPages(pool, 8), EmitGatherPages(pool, 8),
                              EmitScatterPages(pool, 8)}) {
    ASSERT_THAT(program, IsOk());
    SCOPED_TRACE(program->name);
    const auto compiled = topology->Compile(program->text);
    ASSERT_THAT(compiled, IsOk());
    const auto stats = (*compiled)->MemoryStats();
    ASSERT_THAT(stats, IsOk());
    EXPECT_EQ(stats->alias_bytes, program->donated_bytes());
    EXPECT_LT(stats->temp_bytes, pool.type().num_bytes() / 100);
  }
}

std::string NameOf(const ::testing::TestParamInfo<TpuGeneration>& generation) {
  return std::string(TpuGenerationName(generation.param));
}

INSTANTIATE_TEST_SUITE_P(Generations, TpuMemoryTest,
                         ::testing::Values(TpuGeneration::kV5e,
                                           TpuGeneration::kV6e),
                         NameOf);

class TpuKvHeadsTest : public TpuMemoryTest {
 protected:
  // Launches need far less than the pool, whatever its heads are.
  void ExpectAllStayInPlace(ScalarType kv_type) {
    TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
    const auto topology = Topology(libtpu);
    ASSERT_NE(topology, nullptr);
    for (const int64_t kv_heads : {1, 2, 3, 5, 6, 7, 8, 10}) {
      SCOPED_TRACE(kv_heads);
      AttentionProgramShape shape =
          Shape(AttentionForm::kDecode, kBf16, kv_type, 16);
      shape.num_q_heads = shape.num_kv_heads = kv_heads;
      shape.total_num_pages = 32768;
      shape = WithTpuPool(shape);
      const auto program = EmitAttention(shape);
      ASSERT_THAT(program, IsOk());
      const auto compiled = topology->Compile(program->text);
      ASSERT_THAT(compiled, IsOk());
      const auto stats = (*compiled)->MemoryStats();
      ASSERT_THAT(stats, IsOk());
      EXPECT_EQ(stats->alias_bytes, shape.pool_bytes());
      EXPECT_LT(stats->temp_bytes, shape.pool_bytes() / 16);
    }
  }
};

TEST_P(TpuKvHeadsTest, FloatPoolStaysInPlace) { ExpectAllStayInPlace(kF32); }
TEST_P(TpuKvHeadsTest, Bfloat16PoolStaysInPlace) {
  ExpectAllStayInPlace(kBf16);
}
TEST_P(TpuKvHeadsTest, Float8PoolStaysInPlace) { ExpectAllStayInPlace(kE4m3); }

// Wide heads are rows of 128, and large pages are gathered in parts.
TEST_P(TpuKvHeadsTest, WideHeadsAndLargePagesStayInPlace) {
  TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
  const auto topology = Topology(libtpu);
  ASSERT_NE(topology, nullptr);
  for (const auto& [kv_heads, head_dim, page_size] :
       {std::array{1, 256, 16}, std::array{2, 256, 16}, std::array{3, 256, 16},
        std::array{16, 256, 64}, std::array{16, 128, 128}}) {
    SCOPED_TRACE(absl::StrCat(kv_heads, " x ", head_dim));
    AttentionProgramShape shape =
        Shape(AttentionForm::kDecode, kBf16, kBf16, 16);
    shape.num_q_heads = shape.num_kv_heads = kv_heads;
    shape.head_dim = head_dim;
    shape.page_size = page_size;
    shape.total_num_pages = 32768 * 16 / page_size;
    shape = WithTpuPool(shape);
    const auto compiled = topology->Compile(EmitAttention(shape)->text);
    ASSERT_THAT(compiled, IsOk());
    const auto stats = (*compiled)->MemoryStats();
    ASSERT_THAT(stats, IsOk());
    EXPECT_EQ(stats->alias_bytes, shape.pool_bytes());
    EXPECT_LT(stats->temp_bytes, shape.pool_bytes() / 16);
  }
}

// What WithTpuPool pads for: should a compiler no longer need it, this fails.
TEST_P(TpuKvHeadsTest, APoolOfThreeKvHeadsIsCopied) {
  TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
  const auto topology = Topology(libtpu);
  ASSERT_NE(topology, nullptr);
  AttentionProgramShape shape = Shape(AttentionForm::kDecode, kBf16, kBf16, 16);
  shape.num_q_heads = shape.num_kv_heads = 3;
  const auto compiled = topology->Compile(EmitAttention(shape)->text);
  ASSERT_THAT(compiled, IsOk());
  const auto stats = (*compiled)->MemoryStats();
  ASSERT_THAT(stats, IsOk());
  EXPECT_GT(stats->temp_bytes, shape.pool_bytes());
}

TEST_P(TpuKvHeadsTest, PageProgramsOfAPaddedPoolDoNotCopyIt) {
  TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
  const auto topology = Topology(libtpu);
  ASSERT_NE(topology, nullptr);
  for (const ScalarType type : {kBf16, kE4m3}) {
    for (const int64_t kv_heads : {1, 3, 16}) {
      AttentionProgramShape shape =
          Shape(AttentionForm::kDecode, kBf16, type, 16);
      shape.num_kv_heads = kv_heads;
      shape = WithTpuPool(shape);
      const PagePoolShape pool = {.kv_type = type,
                                  .total_num_pages = 4096,
                                  .page_size = kv_heads == 16 ? 128 : 16,
                                  .num_kv_heads = kv_heads,
                                  .pool_head_dim = 128,
                                  .pool_kv_heads = shape.pool_kv_heads,
                                  .pool_head_rows = shape.pool_head_rows};
      for (const auto& program :
           {EmitCopyPages(pool, 8), EmitGatherPages(pool, 8),
            EmitScatterPages(pool, 8)}) {
        ASSERT_THAT(program, IsOk());
        SCOPED_TRACE(program->name);
        const auto compiled = topology->Compile(program->text);
        ASSERT_THAT(compiled, IsOk());
        const auto stats = (*compiled)->MemoryStats();
        ASSERT_THAT(stats, IsOk());
        EXPECT_EQ(stats->alias_bytes, program->donated_bytes());
        EXPECT_LT(stats->temp_bytes, pool.type().num_bytes() / 100);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Generations, TpuKvHeadsTest,
                         ::testing::Values(TpuGeneration::kV5e,
                                           TpuGeneration::kV7x),
                         NameOf);

}  // namespace
}  // namespace tidewheel
