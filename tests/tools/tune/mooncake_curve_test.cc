// The curve of public traces against full simulations of the production
// scheduler, as `tidewheel tune --curve --verify` runs them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tools/traces/trace_reader.h"
#include "tools/tune/curve_run.h"

namespace tidewheel {
namespace {

struct CurveCase {
  const char* trace;
  int32_t page_size;
  int32_t num_checks;
  int64_t ceiling_tokens;  // an independent count of the trace's block ids
};

void PrintTo(const CurveCase& curve_case, std::ostream* out) {
  *out << curve_case.trace << " in pages of " << curve_case.page_size;
}

std::string PathOf(const char* trace) {
  return std::string("traces/mooncake-fast25/") + trace;
}

CurveOptions OptionsFor(const CurveCase& curve_case) {
  CurveOptions options;
  options.serving.plan.page_size = curve_case.page_size;
  options.num_checks = curve_case.num_checks;
  // Every invariant after each of these steps would take hours.
  options.serving.scheduler.validate_steps = false;
  return options;
}

CurveRun CheckedCurve(const std::string& path, const CurveOptions& options) {
  absl::StatusOr<Trace> trace = ReadTrace(path, {});
  EXPECT_THAT(trace, IsOk());
  absl::StatusOr<CurveRun> run = MakeCurve(*std::move(trace), options);
  EXPECT_THAT(run, IsOk());
  EXPECT_THAT(CheckCurve(options, *run), IsOk());
  return *std::move(run);
}

class ExactMooncakeCurveTest : public testing::TestWithParam<CurveCase> {};

TEST_P(ExactMooncakeCurveTest, EqualsSimulationsToTheToken) {
  TIDEWHEEL_REQUIRE_SHARED(path, PathOf(GetParam().trace));
  const CurveRun run = CheckedCurve(path, OptionsFor(GetParam()));
  EXPECT_EQ(run.curve.Tokens(run.curve.ceiling().hit_pages),
            GetParam().ceiling_tokens);
  ASSERT_EQ(run.checks.size(), GetParam().num_checks);
  for (const CurveCheck& check : run.checks) {
    EXPECT_EQ(check.curve_hit_tokens, check.simulated_hit_tokens)
        << "total_num_pages " << check.total_num_pages;
  }
}

constexpr const char* kConversation = "conversation_trace.jsonl";
constexpr const char* kSynthetic = "synthetic_trace.jsonl";

INSTANTIATE_TEST_SUITE_P(
    Pages, ExactMooncakeCurveTest,
    testing::Values(CurveCase{kConversation, 512, 10, 54'063'104},
                    CurveCase{kConversation, 128, 3, 54'089'728},
                    CurveCase{kConversation, 16, 2, 54'097'440},
                    CurveCase{kSynthetic, 512, 10, 39'802'880},
                    CurveCase{kSynthetic, 128, 3, 39'839'104},
                    CurveCase{kSynthetic, 16, 2, 39'850'800}));

class TimedMooncakeCurveTest : public testing::TestWithParam<CurveCase> {};

TEST_P(TimedMooncakeCurveTest, IsWithinAPointOfSimulations) {
  TIDEWHEEL_REQUIRE_SHARED(path, PathOf(GetParam().trace));
  CurveOptions options = OptionsFor(GetParam());
  options.has_server = true;
  options.serving.plan.chips = 8;  // that keep up with the trace
  options.concurrency = Concurrency::kAsTheyCome;
  const CurveRun run = CheckedCurve(path, options);
  EXPECT_EQ(run.curve.Tokens(run.curve.ceiling().hit_pages),
            GetParam().ceiling_tokens);
  int64_t judged = 0;
  for (const CurveCheck& check : run.checks) {
    const double points = 100 * std::abs(check.deviation());
    const bool is_judged = check.total_num_pages >= run.rough_below;
    judged += is_judged ? 1 : 0;
    EXPECT_LT(points, is_judged ? 1 : 1.5)
        << "total_num_pages " << check.total_num_pages;
  }
  EXPECT_GE(judged, 10);
  EXPECT_TRUE(run.checks_hold());
  // Running requests are many enough to matter.
  EXPECT_GT(run.rough_below, 2 * run.curve.smallest());
}

// As many checks as it takes for ten in pools that hold all that runs. The
// ceilings are those of simulations without eviction: requests that the model
// is too short for are refused, and pages in the making are not found.
INSTANTIATE_TEST_SUITE_P(
    Pages, TimedMooncakeCurveTest,
    testing::Values(CurveCase{kConversation, 512, 15, 54'063'104},
                    CurveCase{kSynthetic, 512, 15, 38'275'072}));

}  // namespace
}  // namespace tidewheel
