#include "tools/workload/trace_retiming.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/traces/trace_check.h"
#include "tools/traces/trace_reader.h"
#include "tools/workload/builtin_workload.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Trace SmallTrace() {
  const auto trace = ParseTrace("t.csv",
                                "arrived_at,num_prefill_tokens,"
                                "num_decode_tokens\n0,5,1\n1,6,2\n4,7,3\n",
                                {});
  EXPECT_THAT(trace, IsOk());
  return *trace;
}

std::vector<int64_t> TimesOf(const Trace& trace) {
  std::vector<int64_t> times;
  for (const TraceRequest& r : trace.requests) times.push_back(r.arrival_us);
  return times;
}

TEST(TraceRetimingTest, NothingAskedForChangesNothing) {
  Trace trace = SmallTrace();
  EXPECT_THAT(RetimeTrace({}, trace), IsOk());
  EXPECT_THAT(TimesOf(trace), ElementsAre(0, 1'000'000, 4'000'000));
}

TEST(TraceRetimingTest, ARateDrawsNewArrivalsAndKeepsTheRequests) {
  Trace trace = SmallTrace();
  EXPECT_THAT(RetimeTrace({.request_rate = 10, .burstiness = kInf}, trace),
              IsOk());
  EXPECT_THAT(TimesOf(trace), ElementsAre(0, 100'000, 200'000));
  EXPECT_EQ(trace.requests[2].prompt_tokens, 7);
  EXPECT_EQ(trace.requests[2].output_tokens, 3);
  EXPECT_THAT(RetimeTrace({.request_rate = kInf}, trace), IsOk());
  EXPECT_THAT(TimesOf(trace), ElementsAre(0, 0, 0));
}

TEST(TraceRetimingTest, AScaleStretchesTheArrivals) {
  Trace trace = SmallTrace();
  EXPECT_THAT(RetimeTrace({.time_scale = 0.25}, trace), IsOk());
  EXPECT_THAT(TimesOf(trace), ElementsAre(0, 250'000, 1'000'000));
}

TEST(TraceRetimingTest, ThinkTimesOfSessionsStay) {
  BuiltinWorkloadOptions options;
  options.sessions.mean_turns = 3;
  const auto before = GenerateBuiltinWorkload(options);
  ASSERT_THAT(before, IsOk());
  for (const RetimeOptions& retime :
       {RetimeOptions{.request_rate = 100}, RetimeOptions{.time_scale = 3}}) {
    Trace after = *before;
    EXPECT_THAT(RetimeTrace(retime, after), IsOk());
    EXPECT_THAT(CheckTrace(after), IsOk());
    EXPECT_NE(TimesOf(after), TimesOf(*before));
    for (size_t i = 0; i < after.requests.size(); ++i) {
      if (after.requests[i].after_request == -1) continue;
      EXPECT_EQ(after.requests[i].arrival_us, before->requests[i].arrival_us);
    }
  }
}

TEST(TraceRetimingTest, RatesOfABuiltInWorkloadAreTheOnesItWouldHaveHad) {
  BuiltinWorkloadOptions options;
  options.sessions.mean_turns = 3;
  auto slow = GenerateBuiltinWorkload(options);
  options.request_rate = 77;
  options.burstiness = 2;
  const auto fast = GenerateBuiltinWorkload(options);
  ASSERT_THAT(slow, IsOk());
  ASSERT_THAT(fast, IsOk());
  EXPECT_THAT(RetimeTrace({.request_rate = 77, .burstiness = 2}, *slow),
              IsOk());
  EXPECT_EQ(TimesOf(*slow), TimesOf(*fast));
}

TEST(TraceRetimingTest, BadOptionsAreErrorsAndChangeNothing) {
  Trace trace = SmallTrace();
  for (const double scale : {0.0, -1.0, kInf, -kInf, std::nan("")}) {
    EXPECT_THAT(RetimeTrace({.time_scale = scale}, trace),
                StatusIs(kInvalid, HasSubstr("time scale ")));
  }
  for (const double rate : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(RetimeTrace({.request_rate = rate}, trace),
                StatusIs(kInvalid, HasSubstr("request rate ")));
  }
  EXPECT_THAT(RetimeTrace({.request_rate = 1, .burstiness = 0}, trace),
              StatusIs(kInvalid, HasSubstr("burstiness 0 ")));
  EXPECT_THAT(RetimeTrace({.request_rate = 1, .time_scale = 2}, trace),
              StatusIs(kInvalid, HasSubstr("give only one")));
  EXPECT_THAT(RetimeTrace({.time_scale = 1e300}, trace),
              StatusIs(kInvalid, HasSubstr("lower it")));
  EXPECT_THAT(RetimeTrace({.request_rate = 1e-300}, trace),
              StatusIs(kInvalid, HasSubstr("raise the rate")));
  EXPECT_THAT(TimesOf(trace), ElementsAre(0, 1'000'000, 4'000'000));
}

TEST(TraceRetimingTest, ATraceOfOneTimeCanBeStretchedByAnything) {
  Trace trace = SmallTrace();
  EXPECT_THAT(RetimeTrace({.request_rate = kInf}, trace), IsOk());
  EXPECT_THAT(RetimeTrace({.time_scale = 1e300}, trace), IsOk());
  EXPECT_THAT(TimesOf(trace), ElementsAre(0, 0, 0));
}

TEST(TraceRetimingTest, ATraceWithoutRequestsIsLeftAlone) {
  Trace trace;
  EXPECT_THAT(RetimeTrace({.request_rate = 5}, trace), IsOk());
  EXPECT_THAT(RetimeTrace({.time_scale = 2}, trace), IsOk());
}

}  // namespace
}  // namespace tidewheel
