// What tools/export_tpu_kernel.py writes, through KernelLibrary, into libtpu's
// compiler on a host without a TPU. Each test runs in a process of its own:
// libtpu reads its environment once, and may end the process.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "allocator/status_macros.h"
#include "attention/pjrt/kernel_library.h"
#include "attention/pjrt/libtpu_environment.h"
#include "attention/pjrt/pjrt_topology.h"
#include "attention/tpu_limits.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr ScalarType kF32 = ScalarType::kFloat32;
constexpr ScalarType kBf16 = ScalarType::kBfloat16;
constexpr ScalarType kE4m3 = ScalarType::kFloat8E4m3fn;
constexpr ScalarType kE5m2 = ScalarType::kFloat8E5m2;
constexpr ScalarType kInt8 = ScalarType::kInt8;

// Bytes of the pool in every need below: a copy of it would show.
constexpr int64_t kPoolBytes = int64_t{64} << 20;

struct Types {
  ScalarType q = kBf16;
  ScalarType kv = kBf16;
  ScalarType new_kv = kBf16;
};

KernelNeed Need(int64_t num_q_heads, int64_t num_kv_heads, const Types& types,
                const KernelBucket& bucket) {
  KernelNeed need;
  KernelSettings& settings = need.settings;
  settings.q_type = types.q;
  settings.kv_type = types.kv;
  settings.new_kv_type = types.new_kv;
  settings.num_q_heads = num_q_heads;
  settings.num_kv_heads = num_kv_heads;
  settings.head_dim = 128;
  settings.page_size = 16;
  settings.total_num_pages =
      kPoolBytes / (settings.page_size * 2 * num_kv_heads * 128 *
                    static_cast<int64_t>(SizeOfScalar(types.kv)));
  settings.options.sm_scale = 0.08838834764f;
  need.bucket = bucket;
  return need;
}

// One of each kind that a server would export, for one generation.
std::vector<KernelNeed> Needs(TpuGeneration generation) {
  std::vector<KernelNeed> needs = {
      Need(8, 1, {}, {16, 8, 64}),
      Need(32, 8, {}, {64, 64, 64}),
      Need(28, 4, {}, {128, 8, 128}),
      Need(12, 2, {}, {256, 16, 256}),
      Need(8, 2, {}, {32, 8, 16}),
      Need(4, 4, {kF32, kBf16, kF32}, {128, 32, 32}),
      Need(8, 2, {kF32, kF32, kF32}, {64, 8, 64}),
      Need(32, 8, {kBf16, kE5m2, kBf16}, {64, 16, 64}),
      Need(64, 8, {kBf16, kE4m3, kE4m3}, {64, 16, 64}),
      Need(16, 2, {kBf16, kInt8, kBf16}, {128, 8, 64}),
  };
  needs[4].settings.head_dim = 64;
  needs[4].settings.options.soft_cap = 30.0f;
  needs[6].settings.options.sliding_window = 100;
  for (KernelNeed& need : needs) {
    need.settings.generation = generation;
    if (SizeOfScalar(need.settings.kv_type) > 1) continue;
    need.settings.options.k_scale = 0.5f;
    need.settings.options.v_scale = 0.25f;
  }
  return needs;
}

KvDtype KvDtypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return KvDtype::kF32;
    case ScalarType::kBfloat16:
      return KvDtype::kBf16;
    case ScalarType::kFloat8E4m3fn:
      return KvDtype::kFp8E4m3;
    case ScalarType::kFloat8E5m2:
      return KvDtype::kFp8E5m2;
    case ScalarType::kInt8:
      break;
  }
  return KvDtype::kInt8;
}

// An entry of the exporter's list of buckets, with the blocks that our limits
// choose.
absl::StatusOr<Json> BucketOf(const KernelNeed& need) {
  const KernelSettings& s = need.settings;
  const auto narrow = [](int64_t size) { return static_cast<int32_t>(size); };
  const KernelShape shape = {
      .num_q_heads = narrow(s.num_q_heads),
      .num_kv_heads = narrow(s.num_kv_heads),
      .page_size = narrow(s.page_size),
      .q_dtype = s.q_type == kF32 ? QueryDtype::kF32 : QueryDtype::kBf16,
      .kv_dtype = KvDtypeOf(s.kv_type),
      .has_kv_scales = s.options.k_scale.has_value(),
      .max_num_seqs = narrow(need.bucket.max_num_seqs),
      .pages_per_seq = narrow(need.bucket.pages_per_seq),
      .max_num_batched_tokens = narrow(need.bucket.num_tokens)};
  TIDEWHEEL_ASSIGN_OR_RETURN(const BlockChoice blocks,
                             TpuLimits(s.generation).ChooseBlocks(shape));
  Json bucket = {
      {"generations", {std::string(TpuGenerationName(s.generation))}},
      {"num_tokens", need.bucket.num_tokens},
      {"max_num_seqs", need.bucket.max_num_seqs},
      {"pages_per_seq", need.bucket.pages_per_seq},
      {"num_q_heads", s.num_q_heads},
      {"num_kv_heads", s.num_kv_heads},
      {"head_dim", s.head_dim},
      {"page_size", s.page_size},
      {"total_num_pages", s.total_num_pages},
      {"q_dtype", std::string(ScalarTypeName(s.q_type))},
      {"kv_dtype", std::string(ScalarTypeName(s.kv_type))},
      {"new_kv_dtype", std::string(ScalarTypeName(s.new_kv_type))},
      {"sm_scale", s.options.sm_scale},
      {"num_kv_pages_per_block", blocks.num_kv_pages_per_block},
      {"num_queries_per_block", blocks.num_queries_per_block}};
  if (s.options.soft_cap) bucket["soft_cap"] = *s.options.soft_cap;
  if (s.options.sliding_window) {
    bucket["sliding_window"] = *s.options.sliding_window;
  }
  if (s.options.k_scale) bucket["k_scale"] = *s.options.k_scale;
  if (s.options.v_scale) bucket["v_scale"] = *s.options.v_scale;
  return bucket;
}

// Makes the folder of kernels below `root`.
absl::StatusOr<KernelLibrary> Export(const std::string& python,
                                     const fs::path& root,
                                     const std::vector<KernelNeed>& needs) {
  Json buckets = Json::array();
  for (const KernelNeed& need : needs) {
    TIDEWHEEL_ASSIGN_OR_RETURN(Json bucket, BucketOf(need));
    buckets.push_back(std::move(bucket));
  }
  std::ofstream(root / "buckets.json") << buckets;
  const fs::path folder = root / "kernels";
  // Forced, since the limits have been asked already.
  const std::string command = "'" + python +
                              "' -B '" TIDEWHEEL_SOURCE_DIR
                              "/tools/export_tpu_kernel.py' --force --out '" +
                              folder.string() + "' --buckets '" +
                              (root / "buckets.json").string() + "' >&2";
  if (std::system(command.c_str()) != 0) return absl::InternalError(command);
  return KernelLibrary::Load(folder.string());
}

void PrintRow(const KernelArtifact& artifact,
              const PjrtCompiledMemoryStats& stats) {
  const KernelSettings& s = artifact.settings;
  std::printf(
      "%-3s heads %2d,%d x %3d %-8s %-13s %-13s %3d tokens, blocks "
      "%2d x %2d: alias %d, temp %d, code %d bytes\n",
      TpuGenerationName(s.generation).data(), static_cast<int>(s.num_q_heads),
      static_cast<int>(s.num_kv_heads), static_cast<int>(s.head_dim),
      ScalarTypeName(s.q_type).data(), ScalarTypeName(s.new_kv_type).data(),
      ScalarTypeName(s.kv_type).data(),
      static_cast<int>(artifact.bucket.num_tokens),
      static_cast<int>(artifact.num_kv_pages_per_block),
      static_cast<int>(artifact.num_queries_per_block),
      static_cast<int>(stats.alias_bytes), static_cast<int>(stats.temp_bytes),
      static_cast<int>(stats.generated_code_bytes));
}

absl::Status Compile(const PjrtTopology& topology, const KernelLibrary& library,
                     const KernelNeed& need) {
  const KernelChoice choice = library.Choose(need);
  if (choice.artifact == nullptr) return absl::NotFoundError(choice.reason);
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string bytes,
                             library.Read(*choice.artifact));
  TIDEWHEEL_ASSIGN_OR_RETURN(const auto program, topology.Compile(bytes));
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtCompiledMemoryStats stats,
                             program->MemoryStats());
  PrintRow(*choice.artifact, stats);
  // Copies of q, k and v are fine, one of the pool is not.
  if (stats.alias_bytes == kPoolBytes && stats.temp_bytes <= kPoolBytes / 4) {
    return absl::OkStatus();
  }
  return absl::InternalError("the pool of the last row is copied");
}

absl::Status ExportAndCompile(TpuGeneration generation,
                              const std::string& python,
                              const std::string& libtpu, const fs::path& root) {
  const std::vector<KernelNeed> needs = Needs(generation);
  TIDEWHEEL_ASSIGN_OR_RETURN(const KernelLibrary library,
                             Export(python, root, needs));
  SetLibtpuCompileEnvironment();
  TIDEWHEEL_ASSIGN_OR_RETURN(const auto plugin, PjrtPlugin::Load(libtpu));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const auto topology,
      PjrtTopology::Create(plugin, TpuCompileTarget(generation)));
  for (const KernelNeed& need : needs) {
    TIDEWHEEL_RETURN_IF_ERROR(Compile(*topology, library, need));
  }
  return absl::OkStatus();
}

// Ends the process with 0 if all is well. The plugin's static destructors are
// not waited for.
void RunAndExit(TpuGeneration generation, const std::string& python,
                const std::string& libtpu) {
  absl::Status status;
  {
    const TemporaryFolder folder;
    status = ExportAndCompile(generation, python, libtpu, folder.path());
  }
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  _exit(status.ok() ? 0 : 1);
}

class KernelExportDeathTest : public testing::TestWithParam<TpuGeneration> {};

TEST_P(KernelExportDeathTest, ExportedKernelsCompileInPlaceOfThePool) {
  TIDEWHEEL_REQUIRE_JAX_PYTHON(python);
  TIDEWHEEL_REQUIRE_LIBTPU(libtpu);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(RunAndExit(GetParam(), python, libtpu),
              testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Generations, KernelExportDeathTest,
                         testing::ValuesIn(AllTpuGenerations().begin(),
                                           AllTpuGenerations().end()),
                         [](const auto& param_info) {
                           return std::string(
                               TpuGenerationName(param_info.param));
                         });

}  // namespace
}  // namespace tidewheel
