#include "tools/tune_command.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Outcome Tune(absl::string_view arguments) {
  return RunTidewheel(absl::StrCat("tune ", arguments));
}

class TuneCommandTest : public testing::Test {
 protected:
  std::string TempFile(const std::string& name) const {
    return folder_.File(name);
  }

 private:
  const TemporaryFolder folder_;
};

// Prompts that begin with one of a few prefixes.
constexpr absl::string_view kShared =
    "--curve --num-prompts 60 --input-len 100 --output-len 20 --range-ratio "
    "0.5 --prefixes 6 --prefix-len 200 --page-size 16 ";

TEST_F(TuneCommandTest, EveryFigureIsInTheFilesToo) {
  const std::string json_file = TempFile("result.json");
  const std::string csv_file = TempFile("curve.csv");
  const Outcome outcome =
      Tune(absl::StrCat(kShared, "--sizes 40,90 --save-result ", json_file,
                        " --save-curve ", csv_file));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("1 - r"), HasSubstr("asked for"),
                                 HasSubstr("Ceiling"), HasSubstr("Kneedle")));
  const auto json = nlohmann::json::parse(ReadFile(json_file));
  EXPECT_EQ(json["requests"], 60);
  EXPECT_EQ(json["page_size"], 16);
  EXPECT_TRUE(json["model"].is_null());
  const int64_t ceiling = json["ceiling"]["hit_pages"];
  // All but the first prompt of each prefix find its 12 full pages.
  EXPECT_EQ(ceiling, (60 - 6) * 12);
  const std::vector<std::string> lines =
      absl::StrSplit(ReadFile(csv_file), '\n', absl::SkipEmpty());
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "total_num_pages,hit_tokens,hit_pages,token_hit_ratio,"
            "page_hit_ratio");
  EXPECT_THAT(lines.back(),
              HasSubstr(absl::StrCat(",", ceiling * 16, ",", ceiling, ",")));
  int64_t shown = 0;
  for (const auto& row : json["rows"]) {
    const int64_t size = row["total_num_pages"];
    if (size == 40 || size == 90) ++shown;
    EXPECT_EQ(row["hit_tokens"], 16 * row["hit_pages"].get<int64_t>());
    EXPECT_DOUBLE_EQ(
        row["token_hit_ratio"],
        row["hit_tokens"].get<double>() / row["prompt_tokens"].get<double>());
  }
  EXPECT_EQ(shown, 2);
}

TEST_F(TuneCommandTest, FullSimulationsAgree) {
  const Outcome outcome = Tune(absl::StrCat(kShared, "--verify 4 --quiet"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("The curve is exact at these sizes."));
}

TEST_F(TuneCommandTest, RequestsThatOverlapAreCheckedToo) {
  const Outcome outcome = Tune(
      absl::StrCat(kShared,
                   "--timed --verify 3 --model qwen3-0.6b --max-model-len 2048 "
                   "--max-num-seqs 16 --request-rate 20"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("overlapping"), HasSubstr("deviation"),
                    HasSubstr("points of the simulations")));
}

TEST_F(TuneCommandTest, AModelTurnsPagesIntoBytes) {
  const std::string json_file = TempFile("result.json");
  const Outcome outcome =
      Tune(absl::StrCat(kShared,
                        "--model llama-3.1-8b --max-model-len 4096 "
                        "--save-result ",
                        json_file));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("+1 GiB"), HasSubstr("fits the chips")));
  const auto json = nlohmann::json::parse(ReadFile(json_file));
  EXPECT_EQ(json["bytes_per_page"], 16 * 131'072);
  // The whole curve is less than 1 GiB: with one more everything is found.
  for (const auto& row : json["rows"]) {
    const int64_t missing = json["ceiling"]["hit_tokens"].get<int64_t>() -
                            row["hit_tokens"].get<int64_t>();
    EXPECT_DOUBLE_EQ(
        row["next_gib_ratio"],
        static_cast<double>(missing) / json["prompt_tokens"].get<double>());
  }
}

TEST_F(TuneCommandTest, SaysThatNothingIsReused) {
  const Outcome outcome = Tune("--curve --num-prompts 30 --verify 2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("No reuse"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("fold\n")));
}

TEST_F(TuneCommandTest, PoolsThatRefuseRequestsSaySo) {
  // One page to lend holds no request, 18 hold the shorter ones.
  const Outcome outcome = Tune(absl::StrCat(kShared, "--sizes 2,19"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("refuses 60 requests"),
                                 ContainsRegex("refuses [1-5]?[0-9] req")));
}

TEST_F(TuneCommandTest, SessionsAreInTheOrderOfASimulation) {
  const std::string json_file = TempFile("result.json");
  // Short ones: a build that validates each step walks the pool each time.
  const Outcome outcome = Tune(absl::StrCat(
      "--curve --num-prompts 200 --session-turns 4 --input-len 100 "
      "--output-len 20 --range-ratio 0.5 --page-size 16 --verify 5 "
      "--save-result ",
      json_file));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Sessions"), HasSubstr("estimate"),
                                 Not(HasSubstr("No reuse"))));
  // In the largest pool nothing is evicted, so that the order is exact.
  const auto json = nlohmann::json::parse(ReadFile(json_file));
  EXPECT_EQ(json["checks"].back()["deviation"], 0);
}

struct BadInput {
  const char* arguments;
  const char* error;
};

class TuneCommandBadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(TuneCommandBadInputTest, IsRefusedWithARemedy) {
  const Outcome outcome = Tune(GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().error));
  EXPECT_THAT(outcome.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, TuneCommandBadInputTest,
    testing::Values(
        BadInput{"", "give --curve"},
        BadInput{"--curve --sizes 1", "give sizes of at least 2 pages"},
        BadInput{"--curve --sizes 1000,-4", "size -4 leaves no page"},
        BadInput{"--curve --sizes 3000000000", "at most 2147483647"},
        BadInput{"--curve --page-size 0", "page_size 0 is below 1"},
        BadInput{"--curve --num-pages 1", "size 1 leaves no page"},
        BadInput{"--curve --max-model-len 1", "raise --max-model-len"},
        BadInput{"--curve --verify -1", "--verify -1 is outside [0, 1000]"},
        BadInput{"--curve --chips 8", "--chips describes a server"},
        BadInput{"--curve --model no-such-model", "no-such-model"},
        BadInput{"--curve --trace no-such-file", "no-such-file"},
        BadInput{"--curve --trace no-such-file --prefixes 3",
                 "leave one of the two out"},
        BadInput{"--curve --num-prompts 0", "num_prompts 0 is below 1"},
        BadInput{"--curve --save-curve /no/such/folder/c.csv", "cannot write"},
        BadInput{"--curve --num-prompts 9 --timed --model qwen3-0.6b "
                 "--page-size 16 --max-model-len 8192 --sizes 2",
                 "ask for one request at a time"}));

}  // namespace
}  // namespace tidewheel
