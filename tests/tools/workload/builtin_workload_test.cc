#include "tools/workload/builtin_workload.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/traces/content_ids.h"
#include "tools/traces/trace_check.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

Trace Generate(const BuiltinWorkloadOptions& options) {
  auto trace = GenerateBuiltinWorkload(options);
  EXPECT_THAT(trace, IsOk());
  if (!trace.ok()) return Trace();
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  EXPECT_EQ(static_cast<int64_t>(trace->requests.size()), options.num_requests);
  return *std::move(trace);
}

bool SameRequest(const Trace& a, const Trace& b, size_t i) {
  const TraceRequest& x = a.requests[i];
  const TraceRequest& y = b.requests[i];
  const auto sx = a.segments_of(x);
  const auto sy = b.segments_of(y);
  if (x.prompt_tokens != y.prompt_tokens ||
      x.output_tokens != y.output_tokens ||
      x.output_content_id != y.output_content_id ||
      x.after_request != y.after_request || sx.size() != sy.size()) {
    return false;
  }
  for (size_t k = 0; k < sx.size(); ++k) {
    if (sx[k].content_id != sy[k].content_id || sx[k].offset != sy[k].offset ||
        sx[k].length != sy[k].length) {
      return false;
    }
  }
  return true;
}

TEST(BuiltinWorkloadTest, SameOptionsGiveTheSameTrace) {
  BuiltinWorkloadOptions options;
  options.shared_prefixes = {.count = 5, .tokens = 100};
  options.sessions.mean_turns = 3;
  const Trace a = Generate(options);
  const Trace b = Generate(options);
  options.seed = 1;
  const Trace other = Generate(options);
  size_t same_as_other = 0;
  for (size_t i = 0; i < a.requests.size(); ++i) {
    EXPECT_TRUE(SameRequest(a, b, i));
    EXPECT_EQ(a.requests[i].arrival_us, b.requests[i].arrival_us);
    same_as_other += SameRequest(a, other, i) ? 1 : 0;
  }
  EXPECT_LT(same_as_other, 10u);
}

// Fixes the sequence for every compiler and machine. A change here changes
// every result that users have from the built-in workload.
TEST(BuiltinWorkloadTest, TheFirstRequestsOfSeedZeroAreTheseOnes) {
  const Trace trace = Generate({.num_requests = 4});
  std::vector<std::string> rows;
  for (const TraceRequest& r : trace.requests) {
    rows.push_back(std::to_string(r.arrival_us) + " " +
                   std::to_string(r.prompt_tokens) + " " +
                   std::to_string(r.output_tokens));
  }
  EXPECT_THAT(rows, testing::ElementsAre("0 346 129", "79093 709 116",
                                         "144160 8424 255", "542495 924 584"));
}

TEST(BuiltinWorkloadTest, RateAndBurstinessChangeArrivalsOnly) {
  BuiltinWorkloadOptions options;
  options.sessions.mean_turns = 2;
  const Trace base = Generate(options);
  options.request_rate = 500;
  options.burstiness = 4;
  const Trace faster = Generate(options);
  for (size_t i = 0; i < base.requests.size(); ++i) {
    ASSERT_TRUE(SameRequest(base, faster, i)) << i;
    if (base.requests[i].after_request != -1) {
      EXPECT_EQ(base.requests[i].arrival_us, faster.requests[i].arrival_us);
    } else if (i > 0) {
      EXPECT_GT(base.requests[i].arrival_us, faster.requests[i].arrival_us);
    }
  }
}

TEST(BuiltinWorkloadTest, MoreRequestsLeaveTheFirstAsTheyWere) {
  BuiltinWorkloadOptions options;
  options.sessions.mean_turns = 2.5;
  options.shared_prefixes = {.count = 3, .tokens = 64};
  const Trace few = Generate(options);
  options.num_requests = 3000;
  const Trace many = Generate(options);
  for (size_t i = 0; i < few.requests.size(); ++i) {
    ASSERT_TRUE(SameRequest(few, many, i)) << i;
  }
}

TEST(BuiltinWorkloadTest, DefaultHasTheLoadOfTheAzureConversationTrace) {
  const Trace trace = Generate({.num_requests = 50'000});
  double prompt = 0;
  double output = 0;
  for (const TraceRequest& r : trace.requests) {
    prompt += r.prompt_tokens;
    output += r.output_tokens;
    EXPECT_EQ(r.after_request, -1);
    EXPECT_EQ(r.num_segments, 1u);
  }
  EXPECT_NEAR(prompt / 50'000, 1154.70, 20);
  EXPECT_NEAR(output / 50'000, 211.13, 3);
  EXPECT_NEAR(49'999e6 / static_cast<double>(trace.requests.back().arrival_us),
              5.530, 1e-4);
}

TEST(BuiltinWorkloadTest, InfiniteRateStartsAllSessionsAtOnce) {
  BuiltinWorkloadOptions options;
  options.request_rate = kInf;
  options.sessions.mean_turns = 2;
  for (const TraceRequest& r : Generate(options).requests) {
    if (r.after_request == -1) {
      EXPECT_EQ(r.arrival_us, 0);
    }
  }
}

TEST(BuiltinWorkloadTest, FixedLengthsStayInTheirRange) {
  BuiltinWorkloadOptions options;
  options.fixed_lengths =
      FixedLengths{.input_tokens = 1000, .output_tokens = 100};
  for (const TraceRequest& r : Generate(options).requests) {
    EXPECT_EQ(r.prompt_tokens, 1000);
    EXPECT_EQ(r.output_tokens, 100);
  }
  options.fixed_lengths->range_ratio = 0.5;
  int32_t shortest = 1000;
  int32_t longest = 1000;
  for (const TraceRequest& r : Generate(options).requests) {
    shortest = std::min(shortest, r.prompt_tokens);
    longest = std::max(longest, r.prompt_tokens);
    EXPECT_GE(r.output_tokens, 50);
    EXPECT_LE(r.output_tokens, 150);
  }
  EXPECT_GE(shortest, 500);
  EXPECT_LT(shortest, 520);
  EXPECT_LE(longest, 1500);
  EXPECT_GT(longest, 1480);
}

TEST(BuiltinWorkloadTest, SharedPrefixesAreChosenByZipfsLaw) {
  BuiltinWorkloadOptions options;
  options.num_requests = 22'000;
  options.shared_prefixes = {.count = 3, .tokens = 77, .zipf_exponent = 1};
  const Trace trace = Generate(options);
  std::map<uint64_t, int> chosen;
  for (const TraceRequest& r : trace.requests) {
    const auto segments = trace.segments_of(r);
    ASSERT_EQ(segments.size(), 2u);
    EXPECT_EQ(segments[0].length, 77);
    EXPECT_EQ(SpaceOf(segments[0].content_id), ContentSpace::kPrefix);
    ++chosen[segments[0].content_id];
  }
  // Weights 1, 1/2, 1/3 of 11/6: 12,000, 6,000 and 4,000.
  EXPECT_EQ(chosen.size(), 3u);
  EXPECT_NEAR(chosen[ContentId(ContentSpace::kPrefix, 0)], 12'000, 300);
  EXPECT_NEAR(chosen[ContentId(ContentSpace::kPrefix, 1)], 6'000, 300);
  EXPECT_NEAR(chosen[ContentId(ContentSpace::kPrefix, 2)], 4'000, 300);
}

TEST(BuiltinWorkloadTest, ZipfExponentOfZeroIsUniform) {
  BuiltinWorkloadOptions options;
  options.num_requests = 10'000;
  options.shared_prefixes = {.count = 10, .tokens = 1, .zipf_exponent = 0};
  const Trace trace = Generate(options);
  std::map<uint64_t, int> chosen;
  for (const TraceRequest& r : trace.requests) {
    ++chosen[trace.segments_of(r)[0].content_id];
  }
  EXPECT_EQ(chosen.size(), 10u);
  for (const auto& [id, count] : chosen) EXPECT_NEAR(count, 1000, 150) << id;
}

TEST(BuiltinWorkloadTest, ALaterTurnHoldsAllThatWasSaidBefore) {
  BuiltinWorkloadOptions options;
  options.num_requests = 5000;
  options.sessions = {.mean_turns = 4,
                      .max_turns = 9,
                      .mean_think_time_s = 12,
                      .mean_turn_tokens = 50};
  options.shared_prefixes = {.count = 2, .tokens = 33};
  const Trace trace = Generate(options);
  int sessions = 0;
  int64_t think_us = 0;
  int64_t turn_tokens = 0;
  int32_t turn = 0;
  int32_t most_turns = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& r = trace.requests[i];
    const auto segments = trace.segments_of(r);
    if (r.after_request == -1) {
      ++sessions;
      turn = 1;
      ASSERT_EQ(segments.size(), 2u);
      continue;
    }
    most_turns = std::max(most_turns, ++turn);
    ASSERT_EQ(r.after_request, static_cast<int32_t>(i) - 1);
    const TraceRequest& previous = trace.requests[i - 1];
    const auto before = trace.segments_of(previous);
    ASSERT_EQ(segments.size(), before.size() + 2);
    for (size_t k = 0; k < before.size(); ++k) {
      EXPECT_EQ(segments[k].content_id, before[k].content_id);
      EXPECT_EQ(segments[k].length, before[k].length);
    }
    const ContentSegment& output = segments[before.size()];
    EXPECT_EQ(output.content_id, previous.output_content_id);
    EXPECT_EQ(output.offset, 0);
    EXPECT_EQ(output.length, previous.output_tokens);
    EXPECT_EQ(SpaceOf(segments.back().content_id), ContentSpace::kPrompt);
    think_us += r.arrival_us;
    turn_tokens += segments.back().length;
  }
  // A geometric number of turns, cut at 9: (1 - 0.75^9) * 4 = 3.70 on average.
  EXPECT_NEAR(5000.0 / sessions, 3.70, 0.25);
  EXPECT_EQ(most_turns, 9);
  const double later_turns = 5000 - sessions;
  EXPECT_NEAR(static_cast<double>(think_us) / later_turns, 12e6, 0.8e6);
  EXPECT_NEAR(static_cast<double>(turn_tokens) / later_turns, 50, 3);
}

TEST(BuiltinWorkloadTest, TheRateOfSessionsMakesTheRateOfAllRequests) {
  BuiltinWorkloadOptions options;
  options.num_requests = 10'000;
  options.request_rate = 20;
  options.sessions.mean_turns = 4;
  const Trace trace = Generate(options);
  int64_t sessions = 0;
  int64_t last_us = 0;
  for (const TraceRequest& r : trace.requests) {
    if (r.after_request != -1) continue;
    ++sessions;
    last_us = r.arrival_us;
  }
  const double session_rate =
      static_cast<double>(sessions - 1) / static_cast<double>(last_us) * 1e6;
  EXPECT_NEAR(session_rate * 10'000 / static_cast<double>(sessions), 20, 1e-3);
}

struct OptionCase {
  const char* name;
  void (*set)(BuiltinWorkloadOptions&);
  const char* part;
};

class BuiltinOptionsTest : public testing::TestWithParam<OptionCase> {};

TEST_P(BuiltinOptionsTest, OutOfRangeIsAnErrorThatNamesValueLimitAndRemedy) {
  BuiltinWorkloadOptions options;
  GetParam().set(options);
  EXPECT_THAT(GenerateBuiltinWorkload(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(GetParam().part), HasSubstr("; "))));
}

using Options = BuiltinWorkloadOptions;

INSTANTIATE_TEST_SUITE_P(
    Options, BuiltinOptionsTest,
    testing::Values(
        OptionCase{"NoRequests", [](Options& o) { o.num_requests = 0; },
                   "number of requests 0 is not in [1, 5e+07]"},
        OptionCase{"NegativeRequests", [](Options& o) { o.num_requests = -3; },
                   "number of requests -3"},
        OptionCase{"TooManyRequests",
                   [](Options& o) { o.num_requests = int64_t{1} << 60; },
                   "number of requests 1.15292e+18"},
        OptionCase{"ZeroRate", [](Options& o) { o.request_rate = 0; },
                   "request rate 0 is not"},
        OptionCase{"NaNRate", [](Options& o) { o.request_rate = NAN; },
                   "request rate nan is not"},
        OptionCase{"TinyRate", [](Options& o) { o.request_rate = 1e-300; },
                   "raise the rate"},
        OptionCase{"ZeroBurstiness", [](Options& o) { o.burstiness = 0; },
                   "burstiness 0 is not"},
        OptionCase{"NaNBurstinessAtInfiniteRate",
                   [](Options& o) {
                     o.request_rate = kInf;
                     o.burstiness = NAN;
                   },
                   "burstiness nan is not"},
        OptionCase{"ZeroInput",
                   [](Options& o) {
                     o.fixed_lengths = FixedLengths{0, 1, 0};
                   },
                   "input length 0 is not in [1, "},
        OptionCase{"NegativeOutput",
                   [](Options& o) {
                     o.fixed_lengths = FixedLengths{1, -1, 0};
                   },
                   "output length -1 is not in [1, "},
        OptionCase{"RatioOfOne",
                   [](Options& o) {
                     o.fixed_lengths = FixedLengths{9, 9, 1};
                   },
                   "range ratio 1 is not in [0, 1)"},
        OptionCase{"NaNRatio",
                   [](Options& o) {
                     o.fixed_lengths = FixedLengths{9, 9, NAN};
                   },
                   "range ratio nan"},
        OptionCase{"NegativePrefixes",
                   [](Options& o) { o.shared_prefixes.count = -1; },
                   "number of shared prefixes -1"},
        OptionCase{"EmptyPrefixes",
                   [](Options& o) { o.shared_prefixes.count = 1; },
                   "length of shared prefixes 0"},
        OptionCase{"NegativeZipf",
                   [](Options& o) {
                     o.shared_prefixes = {1, 1, -1};
                   },
                   "Zipf exponent of shared prefixes -1"},
        OptionCase{"NaNZipf",
                   [](Options& o) {
                     o.shared_prefixes = {1, 1, NAN};
                   },
                   "Zipf exponent of shared prefixes nan"},
        OptionCase{"NoTurns", [](Options& o) { o.sessions.mean_turns = 0; },
                   "mean number of turns 0 is not in [1, 20]"},
        OptionCase{"MoreTurnsThanTheLimit",
                   [](Options& o) { o.sessions.mean_turns = 21; },
                   "mean number of turns 21 is not in [1, 20]"},
        OptionCase{"NoLimitOnTurns",
                   [](Options& o) { o.sessions.max_turns = 0; },
                   "limit on turns 0 is not in [1, 1000]"},
        OptionCase{"NegativeThinkTime",
                   [](Options& o) { o.sessions.mean_think_time_s = -1; },
                   "mean think time (s) -1"},
        OptionCase{"InfiniteThinkTime",
                   [](Options& o) { o.sessions.mean_think_time_s = kInf; },
                   "mean think time (s) inf"},
        OptionCase{"NoTurnTokens",
                   [](Options& o) { o.sessions.mean_turn_tokens = 0; },
                   "mean tokens of a later turn 0"},
        OptionCase{"TooLongInAll",
                   [](Options& o) {
                     o.sessions = {.mean_turns = 2, .max_turns = 5};
                     o.fixed_lengths = FixedLengths{1, 500'000'000, 0};
                   },
                   "a request of 5 turns could reach 2500000513 tokens, which "
                   "exceeds 2147483647"},
        OptionCase{
            "TooLongWithPrefix",
            [](Options& o) {
              o.shared_prefixes = {1, 536'870'912, 1};
              o.fixed_lengths = FixedLengths{536'870'912, 536'870'912, 0.99};
            },
            "tokens, which exceeds 2147483647"}),
    [](const auto& test) { return test.param.name; });

TEST(BuiltinOptionsTest, TheLongestThatFitsIsGenerated) {
  BuiltinWorkloadOptions options;
  options.num_requests = 2;
  options.fixed_lengths = FixedLengths{.input_tokens = 536'870'912,
                                       .output_tokens = 536'870'912,
                                       .range_ratio = 0.99};
  Generate(options);
}

}  // namespace
}  // namespace tidewheel
