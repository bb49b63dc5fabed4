#include "tools/config_command.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/run_command.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

Outcome Check(absl::string_view arguments) {
  return RunTidewheel(absl::StrCat("check --json ", arguments));
}

std::vector<std::string> Names(const nlohmann::json& json) {
  std::vector<std::string> names;
  for (const auto& finding : json["findings"]) names.push_back(finding["name"]);
  return names;
}

TEST(ConfigCommandTest, ModelAndChipGiveTheKernelItsHeadsAndLimits) {
  ConfigFlags flags;
  flags.model = "qwen3-8b";
  flags.chip = "v5e";
  flags.kv_dtype = "fp8_e4m3";
  const absl::StatusOr<ConfigurationShape> shape = ReadConfiguration(flags);
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->generation, TpuGeneration::kV5e);
  EXPECT_EQ(shape->num_q_heads, 32);
  EXPECT_EQ(shape->num_kv_heads, 8);
  EXPECT_EQ(shape->max_model_len, 40960);
  EXPECT_EQ(shape->kv_dtype, KvDtype::kFp8E4m3);
}

TEST(ConfigCommandTest, VmemLimitIsBytesOrASizeWithUnit) {
  ConfigFlags flags;
  flags.model = "qwen3-8b";
  flags.vmem_limit = "16777216";
  EXPECT_EQ(ReadConfiguration(flags)->vmem_limit_bytes, 16777216);
  flags.vmem_limit = "16MiB";
  EXPECT_EQ(ReadConfiguration(flags)->vmem_limit_bytes, 16777216);
  flags.vmem_limit = "16 potatoes";
  EXPECT_FALSE(ReadConfiguration(flags).ok());
}

TEST(ConfigCommandTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  ConfigFlags flags;
  flags.model = "qwen3-8b";
  flags.chip = "v9";
  EXPECT_THAT(ReadConfiguration(flags),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("v6e")));
  EXPECT_EQ(Check("--model no-such-model").exit_code, kExitBadInput);
}

TEST(ConfigCommandTest, TableAboveScalarMemoryFailsAndALargerPageHolds) {
  const Outcome small = Check("--model llama-3.1-8b --page-size 16");
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(Names(small.json()),
              testing::ElementsAre("max-num-seqs-above-table-rows"));
  const Outcome large = Check("--model llama-3.1-8b --page-size 256");
  EXPECT_EQ(large.exit_code, 0);
  EXPECT_TRUE(large.json()["holds"]);
}

TEST(ConfigCommandTest, ShrunkCacheIsCaughtByName) {
  const Outcome outcome =
      Check("--model llama-3.1-8b --page-size 256 --num-pages 400");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(Names(outcome.json()),
              testing::Contains("cache-smaller-than-a-sequence"));
  EXPECT_FALSE(outcome.json()["nearest"].is_null());
}

}  // namespace
}  // namespace tidewheel
