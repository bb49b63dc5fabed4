#include "tools/server_config_file.h"

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/serving_setup.h"

namespace tidewheel {
namespace {

using ::testing::HasSubstr;

bool NothingGiven(const char*) { return false; }

ServingOptions SomeServer() {
  ServingOptions serving;
  serving.chip = "v5e";
  serving.model = "qwen3-8b";
  serving.plan.chips = 2;
  serving.plan.page_size = 64;
  serving.plan.total_num_pages = 321;
  serving.plan.max_num_seqs = 24;
  serving.plan.max_model_len = 5000;
  serving.plan.max_num_batched_tokens = 1024;
  serving.plan.kv_dtype = KvDtype::kFp8E4m3;
  serving.prefix_cache = false;
  serving.watermark = 0.07;
  serving.scheduler.max_prefill_chunk = 512;
  return serving;
}

TEST(ServerConfigFileTest, AServerComesBackFromItsFile) {
  for (const AdmissionPolicy admission :
       {AdmissionPolicy::kOptimistic, AdmissionPolicy::kReserve}) {
    ServingOptions serving = SomeServer();
    serving.scheduler.admission = admission;
    const absl::StatusOr<ServingSetup> setup = PrepareServing(serving);
    ASSERT_THAT(setup, IsOk());
    const std::string json =
        ServerConfigJson(ConfigOf(*setup, serving.model, serving.chip));
    const absl::StatusOr<ServerConfig> config =
        ParseServerConfig(json, "tidewheel.json");
    ASSERT_THAT(config, IsOk());
    EXPECT_EQ(ServerConfigJson(*config), json);

    SimulateFlags flags;
    ApplyServerConfig(*config, NothingGiven, flags);
    const absl::StatusOr<SimulateOptions> options = ResolveSimulateFlags(flags);
    ASSERT_THAT(options, IsOk());
    const absl::StatusOr<ServingSetup> again = PrepareServing(options->serving);
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(ConfigOf(*again, options->serving.model, options->serving.chip),
              *config);
    EXPECT_EQ(again->allocator.pages_per_seq, setup->allocator.pages_per_seq);
    EXPECT_EQ(again->scheduler.admission, admission);
    if (admission == AdmissionPolicy::kOptimistic) {
      EXPECT_EQ(again->scheduler.watermark_pages, 22);  // 0.07 of 320
    }
  }
}

TEST(ServerConfigFileTest, TheLibraryGetsTheSameOptions) {
  const absl::StatusOr<ServingSetup> setup = PrepareServing(SomeServer());
  ASSERT_THAT(setup, IsOk());
  const absl::StatusOr<LibraryOptions> options =
      LibraryOptionsOf(ConfigOf(*setup, "qwen3-8b", "v5e"));
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->allocator.total_num_pages, 321);
  EXPECT_EQ(options->allocator.page_size, 64);
  EXPECT_EQ(options->allocator.max_num_seqs, 24);
  EXPECT_EQ(options->allocator.pages_per_seq, 79);  // 5000 / 64
  EXPECT_FALSE(options->allocator.enable_prefix_cache);
  EXPECT_EQ(options->scheduler.max_num_seqs, 24);
  EXPECT_EQ(options->scheduler.max_model_len, 5000);
  EXPECT_EQ(options->scheduler.max_num_batched_tokens, 1024);
  EXPECT_EQ(options->scheduler.watermark_pages, 22);
  EXPECT_EQ(options->scheduler.max_prefill_chunk, 512);
}

TEST(ServerConfigFileTest, TheLibraryNeedsWhatItHasNoDefaultFor) {
  ServerConfig config;
  config.page_size = 16;
  EXPECT_THAT(LibraryOptionsOf(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no total_num_pages")));
}

TEST(ServerConfigFileTest, AGivenFlagWins) {
  const absl::StatusOr<ServerConfig> config = ParseServerConfig(
      R"({"max_num_seqs": 8, "page_size": 32})", "tidewheel.json");
  ASSERT_THAT(config, IsOk());
  SimulateFlags flags;
  flags.serving.plan.max_num_seqs = 77;
  ApplyServerConfig(
      *config,
      [](const char* flag) { return std::string(flag) == "--max-num-seqs"; },
      flags);
  EXPECT_EQ(flags.serving.plan.max_num_seqs, 77);
  EXPECT_EQ(flags.serving.plan.page_size, 32);
}

struct BadConfig {
  const char* json;
  const char* place;
};

class BadConfigTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, IsRefusedWithThePlace) {
  EXPECT_THAT(ParseServerConfig(GetParam().json, "c.json"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().place)));
}

INSTANTIATE_TEST_SUITE_P(
    Configs, BadConfigTest,
    testing::Values(
        BadConfig{"{\n \"page_size\": 16,\n}", "line 3, column 1"},
        BadConfig{"3", "c.json is no object"},
        BadConfig{R"({"pagesize": 16})",
                  "c.json: pagesize is no key of a server's configuration"},
        BadConfig{R"({"page_size": 0})", "page_size is 0"},
        BadConfig{R"({"page_size": 2.5})", "page_size is 2.5"},
        BadConfig{R"({"page_size": 16, "page_size": 16})", "appears twice"},
        BadConfig{R"({"total_num_pages": 1})", "total_num_pages is 1"},
        BadConfig{R"({"max_num_seqs": 3000000000})", "max_num_seqs is 3"},
        BadConfig{R"({"prefix_cache": 1})", "prefix_cache is 1; give true"},
        BadConfig{R"({"model": 8})", "model is 8; give a name"},
        BadConfig{R"({"admission": "eager"})", "admission: admission \"eager"},
        BadConfig{R"({"tidewheel_config": 2})", "this version reads 1"},
        BadConfig{R"({"watermark_pages": 3})", "needs total_num_pages"},
        BadConfig{R"({"watermark_pages": 9, "total_num_pages": 10})",
                  "leaves none of the 9 usable pages"}));

TEST(ServerConfigFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(ReadServerConfig("no/such/tidewheel.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no/such/tidewheel.json: can not be read")));
}

}  // namespace
}  // namespace tidewheel
