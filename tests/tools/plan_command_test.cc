#include "tools/plan_command.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "allocator/page_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/run_command.h"
#include "tools/server_plan.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

Outcome Plan(absl::string_view arguments) {
  return RunTidewheel(absl::StrCat("plan ", arguments));
}

nlohmann::json PlanJson(absl::string_view arguments) {
  const Outcome outcome = Plan(absl::StrCat("--json ", arguments));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  return nlohmann::json::parse(outcome.out);
}

TEST(PlanCommandTest, TheArithmeticAddsUpLineByLine) {
  const auto plan = PlanJson(
      "--model llama-3.1-8b --chip v6e --max-model-len 8192 --reserve 1GB");
  EXPECT_EQ(plan["hbm_bytes"], 34'400'000'000);
  EXPECT_EQ(plan["budget_bytes"], 30'960'000'000);
  EXPECT_EQ(plan["weight_bytes"], 16'060'522'496);
  EXPECT_EQ(plan["reserve_bytes"], 1'000'000'000);
  EXPECT_EQ(plan["reserve_is_estimate"], false);
  EXPECT_EQ(plan["kv_budget_bytes"], 13'899'477'504);
  EXPECT_EQ(plan["bytes_per_token"], 131'072);
  EXPECT_EQ(plan["page_size"], 16);
  EXPECT_EQ(plan["bytes_per_page"], 2'097'152);
  EXPECT_EQ(plan["total_num_pages"], 6627);
  EXPECT_EQ(plan["usable_num_pages"], 6626);
  EXPECT_EQ(plan["usable_tokens"], 6626 * 16);
  EXPECT_EQ(plan["pages_per_seq"], 512);
  EXPECT_EQ(plan["smem_bytes"], PageTableSmemBytes(256, 512));
  EXPECT_EQ(plan["smem_limit_bytes"], 1'048'576);
  EXPECT_EQ(plan["largest_max_num_seqs"], 504);
}

TEST(PlanCommandTest, TheTextShowsTheSameNumbers) {
  const Outcome outcome =
      Plan("--model llama-3.1-8b --max-model-len 8192 --reserve 1GB");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  for (const char* line :
       {"8,030,261,248 parameters", "34,400,000,000 B", "x utilisation 0.9",
        "16,060,522,496 B", "13,899,477,504 B", "131,072 B", "2,097,152 B",
        "6,627", "6,626", "106,016", "of 1,048,576 B",
        "page 0 is never lent"}) {
    EXPECT_THAT(outcome.out, HasSubstr(line));
  }
  for (absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(PlanCommandTest, WithoutAPageSizeTheSmallestThatFitsIsChosen) {
  // 256 rows of up to 896 columns fit scalar memory.
  struct Case {
    int32_t max_model_len;
    int32_t page_size;
  };
  for (const Case& c :
       {Case{1, 16}, {896 * 16, 16}, {896 * 16 + 1, 32}, {131072, 256}}) {
    const auto plan = PlanJson(
        absl::StrCat("--model llama-3.1-8b --max-model-len ", c.max_model_len));
    EXPECT_EQ(plan["page_size"], c.page_size) << c.max_model_len;
    EXPECT_EQ(plan["page_size_is_chosen"], true);
    EXPECT_LE(plan["smem_bytes"], kTpuSmemBytes);
  }
  const Outcome text = Plan("--model llama-3.1-8b");
  EXPECT_THAT(text.out, HasSubstr("chosen: the smallest"));
}

TEST(PlanCommandTest, APageSizeWhoseTableDoesNotFitNamesTheRemedies) {
  const Outcome outcome =
      Plan("--model llama-3.1-8b --max-model-len 131072 --page-size 16");
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("256 rows x 8192 pages"), HasSubstr("1048576 B"),
                    HasSubstr("page_size of at least "
                              "256"),
                    HasSubstr("at most 24 rows")));
  const Outcome rows = Plan("--model llama-3.1-8b --max-num-seqs 2009");
  EXPECT_EQ(rows.exit_code, kExitBadInput);
  EXPECT_THAT(rows.err, HasSubstr("at most 2008 rows"));
}

TEST(PlanCommandTest, BytesAreThoseOfOneDevice) {
  const auto one = PlanJson("--model llama-3.1-70b --chip v5p --chips 2");
  const auto four = PlanJson("--model llama-3.1-70b --chip v5p --chips 4");
  EXPECT_EQ(one["bytes_per_token"], 2 * four["bytes_per_token"].get<int64_t>());
  EXPECT_EQ(one["hbm_bytes"], four["hbm_bytes"]);
  // Two devices a chip, with half of its memory each.
  const auto v7x = PlanJson("--model llama-3.1-70b --chip v7x --chips 2");
  EXPECT_EQ(v7x["devices"], 4);
  EXPECT_EQ(v7x["hbm_bytes"], 103'000'000'000);
  EXPECT_EQ(v7x["bytes_per_token"], four["bytes_per_token"]);
}

TEST(PlanCommandTest, KvDtypeAutoIsBf16AndFp8HalvesIt) {
  const auto plain = PlanJson("--model llama-3.1-8b");
  EXPECT_EQ(plain["kv_dtype"], "bf16");
  EXPECT_EQ(PlanJson("--model llama-3.1-8b --kv-dtype bf16"), plain);
  const auto fp8 = PlanJson("--model llama-3.1-8b --kv-dtype fp8_e5m2");
  EXPECT_EQ(fp8["bytes_per_token"], 65'536);
}

TEST(PlanCommandTest, TheEstimateOfActivationsGrowsWithTheStep) {
  const auto small =
      PlanJson("--model llama-3.1-8b --max-num-batched-tokens 512");
  const auto large =
      PlanJson("--model llama-3.1-8b --max-num-batched-tokens 8192");
  EXPECT_EQ(small["reserve_is_estimate"], true);
  // 7680 tokens more: residual, norm and output of 4096, gate and up of 14336.
  EXPECT_EQ(large["reserve_bytes"].get<int64_t>() -
                small["reserve_bytes"].get<int64_t>(),
            int64_t{7680} * 2 * (3 * 4096 + 2 * 14336));
  EXPECT_LT(large["usable_tokens"], small["usable_tokens"]);
}

TEST(PlanCommandTest, APoolTooSmallForTheLongestRequestIsSaid) {
  const auto plan = PlanJson(
      "--model llama-3.1-8b --max-model-len 8192 --page-size 16 --num-pages "
      "301");
  EXPECT_EQ(plan["usable_num_pages"], 300);
  EXPECT_EQ(plan["longest_request_tokens"], 4800);
  ASSERT_EQ(plan["notes"].size(), 1U);
  EXPECT_THAT(plan["notes"][0].get<std::string>(),
              AllOf(HasSubstr("needs 512 pages"), HasSubstr("lends 300"),
                    HasSubstr("past 4800 tokens")));
  // H6: exactly 1.00 times is enough.
  const auto exact = PlanJson(
      "--model llama-3.1-8b --max-model-len 8192 --page-size 16 --num-pages "
      "513");
  EXPECT_EQ(exact["longest_requests_at_once"], 1.0);
  EXPECT_EQ(exact["longest_request_tokens"], 8192);
  EXPECT_THAT(exact["notes"], IsEmpty());
}

TEST(PlanCommandTest, PastTheModelsOwnLimitIsANoteAndNoRefusal) {
  const auto plan = PlanJson("--model qwen3-8b --max-model-len 50000");
  EXPECT_THAT(plan["notes"][0].get<std::string>(),
              AllOf(HasSubstr("50000"), HasSubstr("40960")));
}

TEST(PlanCommandTest, BadInputIsExitCode2WithTheReason) {
  struct Case {
    const char* arguments;
    const char* reason;
  };
  for (const Case& c :
       {Case{"--model no-such-model", "llama-3.1-8b"},
        {"--model llama-3.1-8b --chip h100", "v6e"},
        {"--model llama-3.1-8b --kv-dtype fp4", "\"fp4\""},
        {"--model llama-3.1-8b --hbm 32", "--hbm \"32\" has no unit"},
        {"--model llama-3.1-8b --reserve lots", "--reserve \"lots\""},
        {"--model llama-3.1-8b --hbm-utilization 0", "outside (0, 1]"},
        {"--model llama-3.1-8b --hbm-utilization 1.01", "outside (0, 1]"},
        {"--model llama-3.1-8b --hbm-utilization nan", "outside (0, 1]"},
        {"--model llama-3.1-8b --chips 0", "chips 0"},
        {"--model llama-3.1-8b --chips 3", "tensor_parallel 3"},
        {"--model llama-3.1-8b --page-size 0", "page_size 0"},
        {"--model llama-3.1-8b --num-pages 1", "null page"},
        {"--model llama-3.1-8b --num-pages 999999999", "do not fit"},
        {"--model llama-3.1-8b --max-num-seqs 0", "max_num_seqs 0"},
        {"--model llama-3.1-8b --max-model-len -5", "max_model_len -5"},
        {"--model llama-3.1-8b --max-num-batched-tokens 0",
         "max_num_batched_tokens 0"},
        {"--model llama-3.1-405b --chip v5e --chips 8",
         "nothing is left for KV pages"}}) {
    const Outcome outcome = Plan(c.arguments);
    EXPECT_EQ(outcome.exit_code, kExitBadInput) << c.arguments;
    EXPECT_THAT(outcome.out, IsEmpty()) << c.arguments;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("tidewheel plan: "), HasSubstr(c.reason)));
  }
}

TEST(PlanCommandTest, AnExplicitHbmReplacesTheChips) {
  const auto gb = PlanJson("--model llama-3.1-8b --hbm 80GB");
  const auto gib = PlanJson("--model llama-3.1-8b --hbm 80GiB");
  EXPECT_EQ(gb["hbm_bytes"], 80'000'000'000);
  EXPECT_EQ(gib["hbm_bytes"], 85'899'345'920);
  EXPECT_GT(gib["usable_tokens"], gb["usable_tokens"]);
}

}  // namespace
}  // namespace tidewheel
