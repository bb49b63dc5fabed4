#include "tools/tune/tune_run.h"

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tests/tools/tune/tune_world.h"
#include "tools/server_config_file.h"
#include "tools/simulate_command.h"
#include "tools/tune/interrupt.h"
#include "tools/tune_command.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kWorkload =
    " --num-prompts 150 --replications 2 --input-len 400 --output-len 60 "
    "--range-ratio 0.5 --burstiness 1 --percentile 95 --threads 2 ";
constexpr const char* kPromise = " --goodput ttft:400 tpot:25 ";

class TuneRunTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("space.json",
                  R"({"page_size": 32, "total_num_pages": [80, 300],
               "max_num_seqs": [8, 32], "max_num_batched_tokens": [256, 1024],
               "admission": ["optimistic", "reserve"], "watermark": 0.02})");
  }

  std::string TempFile(const std::string& name) const {
    return folder_.File(name);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(TuneRunTest, TheReportHasEverySectionInEightyColumns) {
  const Outcome outcome = RunTidewheel(absl::StrCat(
      "tune", kWorkload, "--space ", TempFile("space.json"), kPromise));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  for (const char* part :
       {"95 % of requests: TTFT at most 400 ms, TPOT at most 25 ms",
        "16 combinations", "requests/s  (",
        "max_num_seqs = ", "Pareto front: requests/s for KV cache, GiB",
        "R recommended", "the edge", "Sensitivity: strain after",
        "request rate", "--num-gpu-blocks-override", "no flag for admission",
        "MSER-5", "Student's t", "Mann-Kendall"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST_F(TuneRunTest, SimulateReadsWhatTuneRecommends) {
  const std::string config = TempFile("tidewheel.json");
  const std::string result = TempFile("result.json");
  ASSERT_EQ(
      RunTidewheel(absl::StrCat("tune --quiet --output ", config,
                                " --save-result ", result, kWorkload,
                                "--space ", TempFile("space.json"), kPromise))
          .exit_code,
      0);
  const nlohmann::json found = nlohmann::json::parse(ReadFile(result));
  const double rate = found["found"]["outcome"]["request_rate"];
  EXPECT_EQ(found["found"]["configuration"],
            nlohmann::json::parse(ReadFile(config)));
  // The same requests on the same server keep the promise there too: replay
  // the first seed with the recommended file.
  const std::string simulated = TempFile("simulated.json");
  const Outcome outcome = RunTidewheel(absl::StrCat(
      "simulate --config ", config,
      " --num-prompts 150 --input-len 400 --output-len 60 --range-ratio 0.5 "
      "--burstiness 1 --request-rate ",
      rate, " --save-result ", simulated));
  EXPECT_EQ(outcome.exit_code, 0);
  const nlohmann::json run = nlohmann::json::parse(ReadFile(simulated));
  const nlohmann::json& server = run["configuration"];
  const nlohmann::json chosen = nlohmann::json::parse(ReadFile(config));
  for (const char* key : {"page_size", "max_num_seqs", "max_model_len",
                          "max_num_batched_tokens", "admission"}) {
    EXPECT_EQ(server[key], chosen[key]) << key;
  }
  // A flag beside the file wins.
  EXPECT_THAT(
      RunTidewheel(absl::StrCat("simulate --num-prompts 5 --max-num-seqs 3 "
                                "--config ",
                                config))
          .out,
      HasSubstr("3 sequences"));
}

TEST_F(TuneRunTest, AnUnattainablePromiseIsExitCodeOneWithTheResource) {
  const Outcome outcome =
      RunTidewheel(absl::StrCat("tune", kWorkload, "--space ",
                                TempFile("space.json"), " --goodput tpot:3"));
  EXPECT_EQ(outcome.exit_code, kExitPromiseNotKept);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("The promise can not be kept"),
                                 HasSubstr("memory bandwidth")));
}

TEST_F(TuneRunTest, AStoppedSearchPrintsTheBestSoFar) {
  const Traffic traffic = TuneTraffic();
  int64_t asked = 0;
  CommandContext context{.out = std::tmpfile(), .err = std::tmpfile()};
  ResolvedTuneFlags flags;
  flags.workload = TuneWorkload({});
  flags.replications = 2;
  flags.options = SmallSearch(traffic);
  flags.has_space = true;
  const int exit_code =
      RunTune(flags,
              {.result_file = {},
               .report_file = {},
               .config_file = {},
               .quiet = false,
               .should_stop = [&asked] { return ++asked > 200; }},
              context);
  EXPECT_EQ(exit_code, kExitInterrupted);
  std::fclose(context.err);
  EXPECT_THAT(TakeText(context.out),
              AllOf(HasSubstr("best so far"), HasSubstr("max_num_seqs = ")));
}

TEST_F(TuneRunTest, TheFirstInterruptIsAWishAndLeavesTheHandlerAsItWas) {
  struct sigaction before = {};
  sigaction(SIGINT, nullptr, &before);
  {
    const InterruptWatch watch;
    EXPECT_FALSE(InterruptWatch::requested());
    std::raise(SIGINT);
    EXPECT_TRUE(InterruptWatch::requested());
  }
  struct sigaction after = {};
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST_F(TuneRunTest, ASecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        const InterruptWatch watch;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

struct BadInput {
  const char* arguments;
  const char* message;
};

class TuneBadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(TuneBadInputTest, IsExitCodeTwoWithTheRemedy) {
  const Outcome outcome =
      RunTidewheel(absl::StrCat("tune ", GetParam().arguments));
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().message));
  EXPECT_THAT(outcome.out, Not(HasSubstr("Answer")));
}

INSTANTIATE_TEST_SUITE_P(
    Flags, TuneBadInputTest,
    testing::Values(
        BadInput{"", "no promise to keep; give --goodput"},
        BadInput{"--goodput ttft", "--goodput \"ttft\""},
        BadInput{"--goodput ttft:500 --percentile 100", "outside (0, 100)"},
        BadInput{"--goodput ttft:500 --percentile nan", "outside (0, 100)"},
        BadInput{"--goodput ttft:500 --minimize money",
                 "choose pages or chips"},
        BadInput{"--goodput ttft:500 --request-rate 4", "add --minimize pages"},
        BadInput{"--goodput ttft:500 --minimize pages --request-rate inf",
                 "a promise needs a finite rate"},
        BadInput{"--goodput ttft:500 --threads 0", "--threads 0 is outside"},
        BadInput{"--goodput ttft:500 --replications 1", "has no interval"},
        BadInput{"--goodput ttft:500 --space no/such.json", "can not be read"},
        BadInput{"--goodput ttft:500 --verify 3", "--verify is for the curve"},
        BadInput{"--goodput ttft:500 --curve", "--goodput is for the search"},
        BadInput{"--goodput ttft:500 --num-prompts 5",
                 "5 requests says nothing of a rate"},
        BadInput{"--goodput ttft:500 --num-prompts 50 --num-pages 3",
                 "cache-smaller-than-a-sequence"}));

TEST_F(TuneRunTest, AKnobInFileAndFlagIsAContradiction) {
  const Outcome outcome = RunTidewheel(absl::StrCat(
      "tune --max-num-seqs 8 --space ", TempFile("space.json"), kPromise));
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("both give max_num_seqs; keep one"));
}

TEST_F(TuneRunTest, WritesAPageOfASearchAndOfACurve) {
  const std::string page = TempFile("page.html");
  const std::string shared = " --prefixes 3 --prefix-len 200 ";
  const Outcome search = RunTidewheel(absl::StrCat(
      "tune --quiet --page-size 32 --num-pages 300 --max-num-seqs 32 "
      "--max-num-batched-tokens 1024 --report ",
      page, shared, kWorkload, kPromise));
  ASSERT_EQ(search.exit_code, 0) << search.err;
  const std::string found = ReadFile(page);
  for (const char* part :
       {"<!DOCTYPE html>", "What can be had for what", "Sensitivity",
        "Prefix hits by pool size", "How it was found", "</html>"}) {
    EXPECT_NE(found.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(RunTidewheel(absl::StrCat("tune --curve --quiet --num-prompts 150 "
                                      "--input-len 400 --output-len 60 "
                                      "--report ",
                                      page, shared))
                .exit_code,
            0);
  EXPECT_THAT(ReadFile(page), HasSubstr("Prefix hits of"));
}

TEST_F(TuneRunTest, AReportThatCanNotBeWrittenIsAnErrorBeforeTheSearch) {
  const Outcome outcome = RunTidewheel(
      absl::StrCat("tune --quiet --report ",
                   TempFile("no_such_folder/page.html"), kWorkload, kPromise));
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("no_such_folder/page.html"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(TuneRunTest, AGivenFlagIsAPinnedKnobOfTheDefaultSpace) {
  const std::string result = TempFile("result.json");
  const Outcome outcome = RunTidewheel(absl::StrCat(
      "tune --quiet --max-num-seqs 24 --page-size 32 --max-num-batched-tokens "
      "512 --save-result ",
      result, kWorkload, kPromise));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json found = nlohmann::json::parse(ReadFile(result));
  EXPECT_GT(found["candidates"].size(), 2U);
  for (const nlohmann::json& candidate : found["candidates"]) {
    EXPECT_EQ(candidate["configuration"]["max_num_seqs"], 24);
    EXPECT_EQ(candidate["configuration"]["page_size"], 32);
  }
}

}  // namespace
}  // namespace tidewheel
