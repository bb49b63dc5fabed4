#include "tools/tune/traffic.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/tune/tune_world.h"

namespace tidewheel {
namespace {

using ::testing::HasSubstr;

// A Vidur trace of 40 requests, `gap` seconds apart in pairs.
class TrafficFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = folder_.File("trace.csv");
    std::FILE* file = std::fopen(path_.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs("arrived_at,num_prefill_tokens,num_decode_tokens\n", file);
    for (int i = 0; i < 40; ++i) {
      std::fprintf(file, "%d,%d,%d\n", i / 2, 100 + i, 10 + i % 3);
    }
    std::fclose(file);
  }

  WorkloadChoice Choice() const {
    WorkloadChoice choice;
    choice.trace_file = path_;
    return choice;
  }

  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(TrafficFileTest, IsStretchedToTheRate) {
  const absl::StatusOr<Traffic> traffic = Traffic::Create(Choice(), 5);
  ASSERT_THAT(traffic, IsOk());
  EXPECT_EQ(traffic->replications(), 1);
  EXPECT_DOUBLE_EQ(*traffic->own_rate(), 40.0 / 19);
  const absl::StatusOr<Trace> twice =
      traffic->Make({.request_rate = 2 * *traffic->own_rate()});
  ASSERT_THAT(twice, IsOk());
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(2 * twice->requests[i].arrival_us,
              traffic->trace().requests[i].arrival_us);
    EXPECT_EQ(twice->requests[i].prompt_tokens,
              traffic->trace().requests[i].prompt_tokens);
  }
}

TEST_F(TrafficFileTest, WithABurstinessIsDrawnInReplications) {
  WorkloadChoice choice = Choice();
  choice.burstiness = 1;
  const absl::StatusOr<Traffic> traffic = Traffic::Create(choice, 3);
  ASSERT_THAT(traffic, IsOk());
  EXPECT_EQ(traffic->replications(), 3);
  const absl::StatusOr<Trace> first = traffic->Make({.request_rate = 10});
  const absl::StatusOr<Trace> second =
      traffic->Make({.request_rate = 10, .replication = 1});
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_NE(first->requests[20].arrival_us, second->requests[20].arrival_us);
  EXPECT_EQ(first->requests[39].arrival_us, 3'900'000);
  EXPECT_EQ(second->requests[39].arrival_us, 3'900'000);
}

TEST(TrafficTest, TheLongestRequestIsThatOfAllReplications) {
  const Traffic traffic = TuneTraffic({.requests = 40, .replications = 6});
  int32_t longest = 0;
  int32_t of_the_first = 0;
  for (int32_t k = 0; k < 6; ++k) {
    const absl::StatusOr<Trace> trace =
        traffic.Make({.request_rate = 3, .replication = k});
    ASSERT_THAT(trace, IsOk());
    for (const TraceRequest& request : trace->requests) {
      longest =
          std::max(longest, request.prompt_tokens + request.output_tokens);
    }
    if (k == 0) of_the_first = longest;
  }
  ASSERT_GT(longest, of_the_first);
  EXPECT_EQ(traffic.longest_request_tokens(), longest);
}

TEST_F(TrafficFileTest, AFrontKeepsItsTimes) {
  const absl::StatusOr<Traffic> traffic = Traffic::Create(Choice(), 1);
  ASSERT_THAT(traffic, IsOk());
  const absl::StatusOr<Trace> front =
      traffic->Make({.request_rate = *traffic->own_rate(), .requests = 10});
  ASSERT_THAT(front, IsOk());
  ASSERT_EQ(front->requests.size(), 10U);
  EXPECT_EQ(front->requests[9].arrival_us, 4'000'000);
}

TEST_F(TrafficFileTest, TooFewRequestsAreRefused) {
  WorkloadChoice choice = Choice();
  choice.num_prompts = 19;
  EXPECT_THAT(Traffic::Create(choice, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("19 requests says nothing of a rate")));
}

TEST_F(TrafficFileTest, ArrivalsAllAtOnceNeedABurstiness) {
  WorkloadChoice choice = Choice();
  choice.time_scale = 1e-9;
  EXPECT_THAT(Traffic::Create(choice, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("give a --burstiness")));
  choice.burstiness = 1;
  choice.time_scale = 1;
  EXPECT_THAT(Traffic::Create(choice, 1), IsOk());
}

TEST(TrafficTest, AnotherRateScalesTheGapsAndNothingElse) {
  const Traffic traffic = TuneTraffic();
  const absl::StatusOr<Trace> slow = traffic.Make({.request_rate = 2});
  const absl::StatusOr<Trace> fast = traffic.Make({.request_rate = 8});
  ASSERT_THAT(slow, IsOk());
  ASSERT_THAT(fast, IsOk());
  for (size_t i = 0; i < slow->requests.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(slow->requests[i].arrival_us),
                4.0 * static_cast<double>(fast->requests[i].arrival_us), 4);
    EXPECT_EQ(slow->requests[i].prompt_tokens, fast->requests[i].prompt_tokens);
    EXPECT_EQ(slow->requests[i].output_tokens, fast->requests[i].output_tokens);
  }
}

TEST(TrafficTest, ScaledPromptsShareAScaledPrefix) {
  Trace trace;
  trace.segments = {{1, 0, 105}, {2, 0, 33}, {1, 0, 105}, {3, 0, 7}};
  trace.requests = {{.arrival_us = 0,
                     .prompt_tokens = 138,
                     .output_tokens = 10,
                     .output_content_id = 0,
                     .after_request = -1,
                     .first_segment = 0,
                     .num_segments = 2},
                    {.arrival_us = 5,
                     .prompt_tokens = 112,
                     .output_tokens = 1,
                     .output_content_id = 0,
                     .after_request = -1,
                     .first_segment = 2,
                     .num_segments = 2}};
  ScaleLengths(1.1, 0.9, trace);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 152);  // 151.8
  EXPECT_EQ(trace.requests[1].prompt_tokens, 123);  // 123.2
  EXPECT_EQ(trace.requests[0].output_tokens, 9);
  EXPECT_EQ(trace.requests[1].output_tokens, 1);
  EXPECT_EQ(trace.segments_of(trace.requests[0])[0].length, 116);  // 115.5
  EXPECT_EQ(trace.segments_of(trace.requests[1])[0].length, 116);
  for (const TraceRequest& request : trace.requests) {
    int32_t sum = 0;
    for (const ContentSegment& segment : trace.segments_of(request)) {
      sum += segment.length;
    }
    EXPECT_EQ(sum, request.prompt_tokens);
  }
}

TEST(TrafficTest, NoLengthIsScaledToNothing) {
  Trace trace;
  trace.segments = {{1, 0, 1}, {2, 0, 1}};
  trace.requests = {{.arrival_us = 0,
                     .prompt_tokens = 2,
                     .output_tokens = 1,
                     .output_content_id = 0,
                     .after_request = -1,
                     .first_segment = 0,
                     .num_segments = 2}};
  ScaleLengths(0.01, 0.01, trace);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 1);
  EXPECT_EQ(trace.requests[0].output_tokens, 1);
  EXPECT_EQ(trace.requests[0].num_segments, 1U);
}

}  // namespace
}  // namespace tidewheel
