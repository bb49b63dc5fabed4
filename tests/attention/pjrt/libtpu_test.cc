// libtpu's compiler on a host without a TPU. Each test runs in a process of
// its own: libtpu reads its environment once, and may end the process.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "attention/pjrt/libtpu_environment.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/pjrt/pjrt_topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

constexpr char kStep[] = R"(
  func.func public @main(
      %pool: tensor<64x128xf32> {tf.aliasing_output = 0 : i32},
      %row: tensor<64x128xf32>) -> tensor<64x128xf32> {
    %0 = stablehlo.add %pool, %row : tensor<64x128xf32>
    return %0 : tensor<64x128xf32>
  })";

// Ends the process: 0 if `condition` holds, else 1 with `text` on stderr. The
// plugin's own static destructors are not waited for.
void Require(bool condition, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "FAILED: %s\n", text.c_str());
  _exit(1);
}

std::shared_ptr<PjrtPlugin> LoadLibtpu(const std::string& path) {
  SetLibtpuCompileEnvironment();
  const auto plugin = PjrtPlugin::Load(path);
  Require(plugin.ok(), plugin.status().ToString());
  return *plugin;
}

void CompileFor(const std::shared_ptr<PjrtPlugin>& plugin,
                TpuGeneration generation) {
  const std::string name(TpuGenerationName(generation));
  const auto topology =
      PjrtTopology::Create(plugin, TpuCompileTarget(generation));
  Require(topology.ok(), name + ": " + topology.status().ToString());
  const size_t expected_devices = generation == TpuGeneration::kV7x ? 2 : 1;
  Require(
      (*topology)->num_devices() == expected_devices,
      name + ": " + std::to_string((*topology)->num_devices()) + " devices");
  const auto kind = ParseTpuGeneration((*topology)->device_kind());
  Require(kind.ok() && *kind == generation,
          name + ": device kind " + (*topology)->device_kind());
  const auto program = (*topology)->Compile(kStep);
  Require(program.ok(), name + ": " + program.status().ToString());
  const PjrtShape shape(PjrtElementType::kF32, {64, 128});
  Require(
      (*program)->outputs().size() == 1 && (*program)->outputs()[0] == shape,
      name + ": outputs");
  const auto stats = (*program)->MemoryStats();
  Require(stats.ok(), name + ": " + stats.status().ToString());
  Require(stats->alias_bytes == shape.num_bytes() &&
              stats->argument_bytes == 2 * shape.num_bytes(),
          name + ": alias " + std::to_string(stats->alias_bytes) +
              ", arguments " + std::to_string(stats->argument_bytes));
  const auto blob = (*program)->Serialize();
  Require(blob.ok() && blob->size() > 1000, name + ": serialized");
}

class LibtpuDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

// Ends the process. Its folder goes before.
void CompileAndLookForFiles(const std::string& path) {
  bool is_empty = false;
  {
    const TemporaryFolder folder;
    setenv("TMPDIR", folder.path().c_str(), /*overwrite=*/1);
    CompileFor(LoadLibtpu(path), TpuGeneration::kV5e);
    is_empty = std::filesystem::is_empty(folder.path());
  }
  Require(is_empty, "a file in the temporary folder");
  _exit(0);
}

TEST_F(LibtpuDeathTest, LeavesNoLogsBehind) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  if (std::getenv("TPU_LOG_DIR") != nullptr) {
    GTEST_SKIP() << "TPU_LOG_DIR asks for logs";
  }
  EXPECT_EXIT(CompileAndLookForFiles(path), testing::ExitedWithCode(0), "");
}

TEST_F(LibtpuDeathTest, CompilesForAllGenerations) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  EXPECT_EXIT(
      {
        const auto plugin = LoadLibtpu(path);
        for (const TpuGeneration generation : AllTpuGenerations()) {
          CompileFor(plugin, generation);
        }
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LibtpuDeathTest, RefusesWithStatuses) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  EXPECT_EXIT(
      {
        const auto plugin = LoadLibtpu(path);
        const auto unknown = PjrtTopology::Create(plugin, {.name = "v99:1x1"});
        Require(!unknown.ok(), "v99 was accepted");
        const auto topology =
            PjrtTopology::Create(plugin, TpuCompileTarget(TpuGeneration::kV5e));
        Require(topology.ok(), topology.status().ToString());
        const auto bad = (*topology)->Compile("func.func @main(");
        Require(bad.status().code() == absl::StatusCode::kUnknown,
                bad.status().ToString());
        // 0.0.52 would end the process.
        const auto dynamic = (*topology)->Compile(
            "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> "
            "{ return %a : tensor<?xf32> }");
        Require(absl::IsInvalidArgument(dynamic.status()),
                dynamic.status().ToString());
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LibtpuDeathTest, ClientWithoutATpuIsAStatus) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  if (std::filesystem::exists("/dev/accel0") ||
      std::filesystem::exists("/dev/vfio/0")) {
    GTEST_SKIP() << "this host may have a TPU";
  }
  EXPECT_EXIT(
      {
        const auto client =
            PjrtClient::Create(LoadLibtpu(path), {.create_timeout_ms = 60'000});
        Require(absl::IsNotFound(client.status()) &&
                    client.status().message().find(
                        "TPU initialization failed") != absl::string_view::npos,
                client.status().ToString());
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tidewheel
