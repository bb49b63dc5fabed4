#include "tools/simulate_command.h"

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

Outcome Simulate(absl::string_view arguments) {
  return RunTidewheel(absl::StrCat("simulate ", arguments));
}

class SimulateCommandTest : public testing::Test {
 protected:
  std::string TempFile(const std::string& name) const {
    return folder_.File(name);
  }

 private:
  const TemporaryFolder folder_;
};

// A small run that takes little in builds that validate every step.
constexpr absl::string_view kSmall =
    "--model qwen3-0.6b --num-prompts 40 --input-len 200 --output-len 20 "
    "--range-ratio 0.5 --max-num-seqs 16 --page-size 64 --max-model-len 2048 "
    "--max-num-batched-tokens 512 ";
constexpr absl::string_view kSmallPool = "--num-pages 200 ";

TEST_F(SimulateCommandTest, EveryRequestCompletesByDefault) {
  const Outcome run = Simulate(absl::StrCat(kSmall, kSmallPool));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, IsEmpty());
  EXPECT_THAT(run.out, AllOf(HasSubstr("Serving Benchmark Result"),
                             ContainsRegex("Successful requests: +40\n"),
                             ContainsRegex("Median TTFT .ms.: +[0-9]"),
                             ContainsRegex("P99 ITL .ms.: +[0-9]"),
                             HasSubstr("Speed-up over real time"),
                             HasSubstr("199 pages of 64 tokens"),
                             Not(HasSubstr("NOT ALL COMPLETED"))));
}

TEST_F(SimulateCommandTest, JsonHasTheNamesOfVllmsBenchmark) {
  const std::string path = TempFile("result.json");
  ASSERT_EQ(Simulate(absl::StrCat(kSmall,
                                  "--goodput ttft:500 tpot:50 "
                                  "--metric-percentiles 50,99,99.9 "
                                  "--save-result ",
                                  path))
                .exit_code,
            0);
  const nlohmann::json json = nlohmann::json::parse(ReadFile(path));
  for (const char* key :
       {"completed", "duration", "total_input_tokens", "total_output_tokens",
        "request_throughput", "request_goodput", "output_throughput", "refused",
        "preemptions", "recomputed_tokens", "prefix_cache_queries",
        "prefix_cache_hits", "preempted_prefix_cache_queries",
        "preempted_prefix_cache_hits", "steps", "page_utilization",
        "queue_time", "wall_seconds", "speedup_over_real_time"}) {
    EXPECT_TRUE(json.contains(key) && json[key].is_number()) << key;
  }
  for (const char* name : {"ttft", "tpot", "itl", "e2el"}) {
    for (const char* statistic :
         {"mean", "median", "std", "p50", "p99", "p99.9"}) {
      const std::string key = absl::StrCat(statistic, "_", name, "_ms");
      EXPECT_TRUE(json.contains(key) && json[key].is_number()) << key;
    }
    const std::string suffix = absl::StrCat("_", name, "_ms");
    EXPECT_EQ(json["median" + suffix], json["p50" + suffix]);
    EXPECT_LE(json["p50" + suffix], json["p99" + suffix]);
    EXPECT_LE(json["p99" + suffix], json["p99.9" + suffix]);
  }
  EXPECT_EQ(json["completed"], 40);
  EXPECT_EQ(json["configuration"]["max_num_seqs"], 16);
  EXPECT_EQ(json["percentile_method"],
            "linear interpolation between closest ranks (numpy's default)");
}

TEST_F(SimulateCommandTest, OnlyTheLatenciesThatWereAskedForAreReported) {
  const Outcome run =
      Simulate(absl::StrCat(kSmall, "--percentile-metrics ttft,e2el"));
  EXPECT_THAT(run.out, AllOf(HasSubstr("Mean TTFT"), HasSubstr("Mean E2EL"),
                             Not(HasSubstr("TPOT")), Not(HasSubstr("ITL"))));
}

TEST_F(SimulateCommandTest, QuietPrintsTheFiguresAlone) {
  const Outcome run = Simulate(absl::StrCat(kSmall, "--quiet"));
  EXPECT_EQ(run.out.find("="), 0u);
}

TEST_F(SimulateCommandTest,
       RequestsThatCanNotRunAreListedAndTheExitCodeSaysSo) {
  const Outcome run = Simulate(
      absl::StrCat(kSmall, "--declared-max-new-tokens 1990 --watermark 0"));
  EXPECT_EQ(run.exit_code, kExitNotAllCompleted);
  EXPECT_THAT(run.out, AllOf(HasSubstr("NOT ALL COMPLETED"),
                             ContainsRegex("refused: exceeds_model +[0-9]"),
                             HasSubstr("First refused: request "),
                             HasSubstr("raise max_model_len")));
}

TEST_F(SimulateCommandTest, NoCompletionAtAllIsNoSuccess) {
  const Outcome run = Simulate(absl::StrCat(kSmall, "--num-pages 2"));
  EXPECT_EQ(run.exit_code, kExitNotAllCompleted);
  EXPECT_THAT(run.out, AllOf(ContainsRegex("Successful requests: +0\n"),
                             ContainsRegex("Mean TTFT .ms.: +none\n"),
                             ContainsRegex("refused: exceeds_pool +40\n")));
}

TEST_F(SimulateCommandTest, PagesWinOverMemoryAndANoteSaysWhatTheyWouldNeed) {
  const Outcome run = Simulate(
      absl::StrCat(kSmall, "--num-pages 100000 --hbm-utilization 0.1"));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, AllOf(HasSubstr("99,999 pages of 64"),
                             HasSubstr("no such chip")));
}

TEST_F(SimulateCommandTest, ModelLengthIsLoweredToThePoolWithANote) {
  const Outcome run = Simulate(
      "--num-prompts 3 --input-len 50 --output-len 5 --hbm-utilization 0.53");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("max_model_len is lowered from the model's"));
}

TEST_F(SimulateCommandTest, ModelLengthPastTheModelsOwnIsAWarning) {
  const Outcome run = Simulate(
      "--model qwen3-0.6b --num-prompts 3 --input-len 50 --output-len 5 "
      "--max-model-len 200000 --max-num-seqs 8");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("past the model's own limit"));
}

TEST_F(SimulateCommandTest, ChunkAboveTheBudgetIsAWarning) {
  const Outcome run =
      Simulate(absl::StrCat(kSmall, "--max-prefill-chunk 5000"));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("max_prefill_chunk 5000 is above"));
}

TEST_F(SimulateCommandTest, PageTableThatScalarMemoryDoesNotHoldIsRefused) {
  const std::string flags =
      "--model qwen3-0.6b --num-prompts 3 --input-len 50 --output-len 5 "
      "--max-model-len 131072 --page-size 16 --max-num-seqs 64 ";
  const Outcome run = Simulate(flags);
  EXPECT_EQ(run.exit_code, kExitBadInput);
  EXPECT_THAT(run.err, AllOf(HasSubstr("scalar memory"),
                             HasSubstr("use a page_size of at least")));
  EXPECT_EQ(Simulate(absl::StrCat(flags, "--no-smem-limit")).exit_code, 0);
}

// Failure case I10: what a run exports, replayed, is the same run.
TEST_F(SimulateCommandTest, ExportedRequestsReplayToTheSameResults) {
  const std::string first = TempFile("first.csv");
  const std::string second = TempFile("second.csv");
  const std::string server =
      "--model qwen3-0.6b --num-pages 60 --page-size 64 --max-num-seqs 16 "
      "--max-model-len 2048 --max-num-batched-tokens 512 --per-request ";
  ASSERT_EQ(Simulate(absl::StrCat(server, first,
                                  " --num-prompts 100 --input-len 300 "
                                  "--output-len 60 --range-ratio 0.5 "
                                  "--request-rate 60 --burstiness 0.5"))
                .exit_code,
            0);
  ASSERT_EQ(
      Simulate(absl::StrCat(server, second, " --trace ", first)).exit_code, 0);
  const std::string exported = ReadFile(first);
  EXPECT_EQ(exported, ReadFile(second));
  EXPECT_THAT(exported, HasSubstr("\n99,"));
}

TEST_F(SimulateCommandTest, StepFileHasALineForEachStep) {
  const std::string steps = TempFile("steps.csv");
  const std::string result = TempFile("result.json");
  ASSERT_EQ(Simulate(absl::StrCat(kSmall, "--per-step ", steps,
                                  " --save-result ", result))
                .exit_code,
            0);
  const std::string text = ReadFile(steps);
  const std::vector<std::string> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  const nlohmann::json json = nlohmann::json::parse(ReadFile(result));
  ASSERT_EQ(lines.size(), 1 + json["steps"].get<size_t>());
  const size_t columns =
      std::vector<std::string>(absl::StrSplit(lines[0], ',')).size();
  for (const std::string& line : lines) {
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(line, ',')).size(),
              columns);
  }
}

// Failure case I14: the same seed in two processes, the same bytes.
TEST_F(SimulateCommandTest, TwoProcessesWithOneSeedWriteTheSameBytes) {
  std::vector<nlohmann::ordered_json> results;
  std::vector<std::string> requests;
  for (const char* run : {"a", "b"}) {
    const std::string result = TempFile(absl::StrCat(run, ".json"));
    const std::string csv = TempFile(absl::StrCat(run, ".csv"));
    const std::string command = absl::StrCat(
        TIDEWHEEL_BINARY_DIR "/tidewheel simulate ", kSmall,
        "--seed 11 --prefixes 3 --prefix-len 130 --session-turns 2 "
        "--quiet --save-result ",
        result, " --per-request ", csv, " > ", TempFile("out"));
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    results.push_back(nlohmann::ordered_json::parse(ReadFile(result)));
    requests.push_back(ReadFile(csv));
    EXPECT_GT(results.back()["prefix_cache_hits"], 0);
    results.back().erase("wall_seconds");
    results.back().erase("speedup_over_real_time");
  }
  EXPECT_EQ(results[0].dump(), results[1].dump());
  EXPECT_EQ(requests[0], requests[1]);
}

struct BadFlag {
  const char* flags;
  const char* error;
};

class BadFlagTest : public testing::TestWithParam<BadFlag> {};

TEST_P(BadFlagTest, IsRefusedWithValueAndRemedy) {
  const Outcome run = Simulate(GetParam().flags);
  EXPECT_EQ(run.exit_code, kExitBadInput) << run.out;
  EXPECT_THAT(run.err, AllOf(HasSubstr("tidewheel simulate: "),
                             HasSubstr(GetParam().error)));
  EXPECT_THAT(run.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFlagTest,
    testing::Values(
        BadFlag{"--model nonesuch", "nonesuch"}, BadFlag{"--chip v99", "v99"},
        BadFlag{"--chips 0", "chips 0"}, BadFlag{"--kv-dtype fp5", "fp5"},
        BadFlag{"--policy lifo", "policy \"lifo\" is unknown; choose"},
        BadFlag{"--admission maybe", "admission \"maybe\" is unknown"},
        BadFlag{"--watermark 1", "watermark 1 is outside [0, 1)"},
        BadFlag{"--watermark nan", "watermark nan is outside"},
        BadFlag{"--hbm-utilization 0", "utili"},
        BadFlag{"--hbm-utilization nan", "utili"},
        BadFlag{"--hbm-utilization 1.01", "utili"},
        BadFlag{"--page-size 0", "page_size 0"}, BadFlag{"--num-pages 0", "0"},
        BadFlag{"--num-pages 1", "1"}, BadFlag{"--num-pages -5", "-5"},
        BadFlag{"--max-num-seqs 0", "max_num_seqs 0"},
        BadFlag{"--max-num-seqs 8 --max-num-batched-tokens 4",
                "max_num_batched_tokens 4 is below max_num_seqs 8"},
        BadFlag{"--max-prefill-chunk 0", "--max-prefill-chunk 0 is below 1"},
        BadFlag{"--max-waiting 0", "--max-waiting 0 is below 1"},
        BadFlag{"--max-concurrency 0", "--max-concurrency 0 is below 1"},
        BadFlag{"--num-prompts 0", "num_prompts 0 is below 1"},
        BadFlag{"--request-rate 0", "0"}, BadFlag{"--request-rate -1", "-1"},
        BadFlag{"--request-rate nan", "nan"}, BadFlag{"--burstiness 0", "0"},
        BadFlag{"--burstiness nan", "nan"},
        BadFlag{"--time-scale 2", "give a request rate instead"},
        BadFlag{"--input-len 0 --output-len 5", "0"},
        BadFlag{"--input-len 5", "--input-len and --output-len go together"},
        BadFlag{"--range-ratio 0.5", "--range-ratio 0.5 varies --input-len"},
        BadFlag{"--trace none.csv --input-len 5 --output-len 5",
                "--input-len, --output-len shapes the built-in workload"},
        BadFlag{"--trace none.csv", "none.csv"},
        BadFlag{"--trace none.csv --burstiness 2", "needs a request rate"},
        BadFlag{"--trace-format word", "word"},
        BadFlag{"--declared-max-new-tokens x0.5", "\"x0.5\" is neither"},
        BadFlag{"--declared-max-new-tokens xinf", "\"xinf\" is neither"},
        BadFlag{"--declared-max-new-tokens 0", "\"0\" is neither"},
        BadFlag{"--declared-max-new-tokens many", "\"many\" is neither"},
        BadFlag{"--goodput ttft", "is not a name, a colon and a number"},
        BadFlag{"--goodput ttft:nan", "has no positive number"},
        BadFlag{"--goodput ttft:-1", "has no positive number"},
        BadFlag{"--goodput itl:5", "names no latency"},
        BadFlag{"--goodput ttft:5 ttft:6", "a second target"},
        BadFlag{"--percentile-metrics ttft,speed", "names \"speed\""},
        BadFlag{"--metric-percentiles 99,101", "holds \"101\""},
        BadFlag{"--metric-percentiles nan", "holds \"nan\""},
        BadFlag{"--cost-model none.json", "none.json"},
        BadFlag{"--save-result no/such/folder/x.json",
                "cannot write no/such/folder/x.json"}));

}  // namespace
}  // namespace tidewheel
