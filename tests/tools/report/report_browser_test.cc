// Pages in a real browser, by browser_check.py.
//
// TIDEWHEEL_CHROMIUM names a Chromium (Debian: /usr/bin/chromium); without it
// these tests are skipped, or fail where TIDEWHEEL_REQUIRE_REPORTS is 1.
// TIDEWHEEL_REPORT_SHOTS may name a folder for pictures of every view.

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/temporary_folder.h"
#include "tests/tools/report/required_tool.h"
#include "tests/tools/report/sample_reports.h"

namespace tidewheel {
namespace {

// With a word that is wider than a phone.
constexpr const char* kName =
    "a & \"b\" AzureLLMInferenceTrace_conversations_of_November_2023.csv";

void ExpectFaultless(const std::string& name, const std::string& page) {
  const std::string chromium = ToolFrom("TIDEWHEEL_CHROMIUM");
  if (chromium.empty()) {
    if (IsRequired("TIDEWHEEL_REQUIRE_REPORTS")) {
      FAIL() << "TIDEWHEEL_CHROMIUM names no browser, and "
                "TIDEWHEEL_REQUIRE_REPORTS=1 demands one";
    }
    GTEST_SKIP() << "set TIDEWHEEL_CHROMIUM to a Chromium";
  }
  const TemporaryFolder folder;
  const std::string path = folder.Write("page.html", page);
  std::string command =
      absl::StrCat("\"", TIDEWHEEL_PYTHON, "\" \"", TIDEWHEEL_SOURCE_DIR,
                   "/tests/tools/report/browser_check.py\" \"", chromium,
                   "\" \"", path, "\"");
  if (const char* shots = std::getenv("TIDEWHEEL_REPORT_SHOTS")) {
    absl::StrAppend(&command, " --shots \"", shots, "/", name, "\"");
  }
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(ReportBrowserTest, ASimulationsPageIsFaultless) {
  ExpectFaultless("simulate", MakeSampleRun(kName).page);
}

TEST(ReportBrowserTest, ATunePageIsFaultless) {
  const CurveRun curve = MakeSampleCurve(kName);
  ExpectFaultless("tune", TunePage(MakeSampleResult(kName), &curve));
}

TEST(ReportBrowserTest, ACurvesPageIsFaultless) {
  ExpectFaultless("curve", CurvePage(MakeSampleCurve(kName)));
}

}  // namespace
}  // namespace tidewheel
