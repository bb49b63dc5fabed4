#include "tools/devices_command.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/captured_output.h"
#include "tests/tools/scoped_variable.h"
#include "tools/pjrt/plugin_functions.h"
#include "tools/pjrt/plugin_process.h"
#include "tools/pjrt/plugin_search.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFault[] = "TIDEWHEEL_TEST_FAULT";

Outcome Devices(DevicesOptions options) {
  options.executable = TIDEWHEEL_COMMAND;
  return Capture([&](std::FILE* out, std::FILE* err) {
    return RunDevices(options, out, err);
  });
}

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    longest = std::max(longest, end - begin);
  }
  return longest;
}

class DevicesCpuTest : public testing::TestWithParam<int> {};

TEST_P(DevicesCpuTest, ListsWhatACpuPluginDrives) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(path, GetParam());
  const Outcome output = Devices({.plugin = path, .json = true});
  ASSERT_EQ(output.exit_code, 0) << output.out << output.err;
  const nlohmann::json json = output.json();
  EXPECT_EQ(json["plugin"]["origin"], "--plugin");
  EXPECT_EQ(json["plugin"]["xla_version"], 2);
  EXPECT_TRUE(json["plugin"]["missing_functions"].empty());
  EXPECT_EQ(json["client"]["platform"], "cpu");
  ASSERT_FALSE(json["client"]["devices"].empty());
  const nlohmann::json& device = json["client"]["devices"][0];
  EXPECT_EQ(device["kind"], "cpu");
  EXPECT_EQ(device["default_memory"], "device");
  EXPECT_TRUE(device["memory"].is_null());
  EXPECT_TRUE(json["compiles_for"]["chips"].empty());
}

INSTANTIATE_TEST_SUITE_P(Plugins, DevicesCpuTest,
                         testing::Range(0, kNumCpuPlugins));

TEST(DevicesCommandTest, TextNamesDevicesFunctionsAndMemory) {
  const Outcome output = Devices({.plugin = TIDEWHEEL_FAULTY_PLUGIN});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, AllOf(HasSubstr("functions   all "),
                                HasSubstr("StableHLO   1.2.3\n"),
                                HasSubstr("platform    fake, 7"),
                                HasSubstr("100 B in use of 1.00 kB"),
                                HasSubstr("ahead for v4 (v4:1x1x1), v5e")));
}

TEST(DevicesCommandTest, MissingFileIsBadInput) {
  const Outcome output = Devices({.plugin = "no/such/plugin.so"});
  EXPECT_EQ(output.exit_code, kExitBadInput);
  EXPECT_THAT(output.err, AllOf(HasSubstr("--plugin 'no/such/plugin.so'"),
                                HasSubstr("is not there")));
}

TEST(DevicesCommandTest, FileThatIsNoPluginIsBadInput) {
  const Outcome output = Devices({.plugin = TIDEWHEEL_NOT_A_PLUGIN});
  EXPECT_EQ(output.exit_code, kExitBadInput);
  EXPECT_THAT(output.err, HasSubstr("is no PJRT plugin"));
}

TEST(DevicesCommandTest, PluginThatHangsWhileItIsLoadedIsStopped) {
  const ScopedVariable fault(kFault, "load:hang");
  const Outcome output =
      Devices({.plugin = TIDEWHEEL_FAULTY_PLUGIN, .timeout_s = 1});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr("was not loaded within 1000 ms"));
}

TEST(DevicesCommandTest, PluginThatDiesWhileItIsLoadedHasLastWords) {
  const ScopedVariable fault(kFault, "load:abort");
  const Outcome output = Devices({.plugin = TIDEWHEEL_FAULTY_PLUGIN});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err,
              AllOf(HasSubstr("signal 6"), HasSubstr("told to abort")));
}

TEST(DevicesCommandTest, ClientThatHangsLeavesTheRestOfTheReport) {
  const ScopedVariable fault(kFault, "client:hang");
  const Outcome output = Devices(
      {.plugin = TIDEWHEEL_FAULTY_PLUGIN, .json = true, .timeout_s = 1});
  EXPECT_EQ(output.exit_code, 1);
  const nlohmann::json json = output.json();
  EXPECT_EQ(json["plugin"]["pjrt_version"], "0.81");
  EXPECT_EQ(json["compiles_for"]["chips"].size(), 5);
  EXPECT_EQ(json["client"]["error"]["code"], "DEADLINE_EXCEEDED");
}

TEST(DevicesCommandTest, ClientThatDiesLeavesTheRestOfTheReport) {
  const ScopedVariable fault(kFault, "client:abort");
  const Outcome output =
      Devices({.plugin = TIDEWHEEL_FAULTY_PLUGIN, .json = true});
  EXPECT_EQ(output.exit_code, 1);
  const nlohmann::json json = output.json();
  EXPECT_EQ(json["compiles_for"]["chips"].size(), 5);
  EXPECT_THAT(json["client"]["error"]["message"].get<std::string>(),
              AllOf(HasSubstr("signal 6"), HasSubstr("told to abort")));
}

TEST(DevicesCommandTest, LibtpuWithoutATpuSaysWhatItCompilesFor) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  if (HostHasTpuFiles()) GTEST_SKIP() << "this host may have a TPU";
  const Outcome output = Devices({.plugin = path});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("devices     none: "),
                    HasSubstr("TPU initialization failed"),
                    HasSubstr("ahead for v4 (TPU v4), v5e (TPU v5 lite), v5p"),
                    HasSubstr("tidewheel check")));
  // All but what has no blank to break at.
  EXPECT_LE(LongestLine(output.out), std::max<size_t>(80, path.size() + 30));
}

TEST(PluginSearchTest, TpuLibraryPathComesBeforeTheUsualPlaces) {
  const ScopedVariable variable("TPU_LIBRARY_PATH", TIDEWHEEL_FAULTY_PLUGIN);
  const auto found = FindPjrtPlugin("", "--plugin");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->path, TIDEWHEEL_FAULTY_PLUGIN);
  EXPECT_EQ(found->origin, "TPU_LIBRARY_PATH");
  const auto given = FindPjrtPlugin(TIDEWHEEL_NOT_A_PLUGIN, "--plugin");
  ASSERT_THAT(given, IsOk());
  EXPECT_EQ(given->path, TIDEWHEEL_NOT_A_PLUGIN);
}

TEST(PluginSearchTest, TpuLibraryPathThatIsWrongIsNotPassedOver) {
  const ScopedVariable variable("TPU_LIBRARY_PATH", "no/such/libtpu.so");
  const auto found = FindPjrtPlugin("", "--plugin");
  EXPECT_THAT(found, StatusIs(absl::StatusCode::kNotFound,
                              HasSubstr("TPU_LIBRARY_PATH 'no/such")));
}

TEST(PluginSearchTest, PackageOfTheNewestPythonIsFound) {
  const TemporaryFolder root;
  std::string newest;
  for (const char* const python : {"python3.11", "python3.12"}) {
    const std::filesystem::path folder =
        root.path() / "lib" / python / "site-packages" / "libtpu";
    std::filesystem::create_directories(folder);
    newest = folder / "libtpu.so";
    std::ofstream(newest) << "x";
  }
  const ScopedVariable none("TPU_LIBRARY_PATH", "");
  const ScopedVariable environment("VIRTUAL_ENV", root.path().string());
  const auto found = FindPjrtPlugin("", "--plugin");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->path, newest);
}

TEST(PluginSearchTest, WithoutAPluginTheErrorSaysHowToGetOne) {
  const ScopedVariable none("TPU_LIBRARY_PATH", "");
  const ScopedVariable environment("VIRTUAL_ENV", "");
  const ScopedVariable home("HOME", "");
  const auto found = FindPjrtPlugin("", "--plugin");
  if (found.ok()) GTEST_SKIP() << "the system has " << found->path;
  EXPECT_THAT(found, StatusIs(absl::StatusCode::kNotFound,
                              AllOf(HasSubstr("pip install libtpu==0.0.42.1"),
                                    HasSubstr("TPU_LIBRARY_PATH"),
                                    HasSubstr("/usr/lib/libtpu.so"))));
}

// A call that the runtime learns to make must be known to `devices`.
TEST(PluginFunctionsTest, ListsEveryFunctionThatTheRuntimeDeclares) {
  std::set<std::string> listed;
  for (const PluginFunction& function : PluginFunctions()) {
    listed.insert(std::to_string(function.slot.index) + " " +
                  function.slot.name);
  }
  std::set<std::string> declared;
  const std::regex slot(R"re(kSlot\{\s*(\d+),\s*"(PJRT_\w+)"\})re");
  for (const auto& entry : std::filesystem::directory_iterator(
           TIDEWHEEL_SOURCE_DIR "/attention/pjrt")) {
    const std::string name = entry.path().filename();
    if (name.rfind("pjrt_c_api", 0) != 0 || entry.path().extension() != ".h") {
      continue;
    }
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file),
                           std::istreambuf_iterator<char>()};
    for (std::sregex_iterator it(text.begin(), text.end(), slot), end;
         it != end; ++it) {
      declared.insert((*it)[1].str() + " " + (*it)[2].str());
    }
  }
  EXPECT_GT(declared.size(), 40);
  EXPECT_EQ(listed, declared);
}

}  // namespace
}  // namespace tidewheel
