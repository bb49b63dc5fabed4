#include "tools/report/serving_metrics.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr int64_t kMs = 1000;

RequestRecord Completed(int64_t sent_ms, int64_t ttft_ms, int64_t e2el_ms,
                        int32_t output) {
  RequestRecord record;
  record.state = RequestRecord::State::kEnded;
  record.finish_reason = FinishReason::kMaxNewTokens;
  record.arrival_us = record.sent_us = sent_ms * kMs;
  record.admitted_us = (sent_ms + 2) * kMs;
  record.first_token_us = (sent_ms + ttft_ms) * kMs;
  record.ended_us = (sent_ms + e2el_ms) * kMs;
  record.prompt_tokens = 100;
  record.generated_tokens = output;
  return record;
}

SimulationResult ResultOf(std::vector<RequestRecord> requests) {
  SimulationResult result;
  for (const RequestRecord& record : requests) {
    result.end_us = std::max(result.end_us, record.ended_us);
  }
  result.requests = std::move(requests);
  return result;
}

TEST(ServingMetricsTest, LatenciesAreThoseOfVllmsBenchmark) {
  const ServingMetrics m = ComputeMetrics(
      ResultOf({Completed(0, 100, 1000, 10), Completed(500, 200, 1500, 14)}),
      {.percentiles = {99}});
  EXPECT_EQ(m.completed, 2);
  EXPECT_DOUBLE_EQ(m.ttft_ms.mean, 150);
  EXPECT_DOUBLE_EQ(m.e2el_ms.mean, 1250);
  // (1000 - 100) / 9 and (1500 - 200) / 13.
  EXPECT_DOUBLE_EQ(m.tpot_ms.mean, 100);
  EXPECT_DOUBLE_EQ(m.queue_ms.mean, 2);
  EXPECT_DOUBLE_EQ(m.duration_s, 2);
  EXPECT_DOUBLE_EQ(m.request_throughput, 1);
  EXPECT_DOUBLE_EQ(m.output_throughput, 12);
  EXPECT_DOUBLE_EQ(m.total_token_throughput, 112);
  EXPECT_FALSE(m.request_goodput.has_value());
}

TEST(ServingMetricsTest, RequestOfOneTokenHasNoTimePerOutputToken) {
  const ServingMetrics m =
      ComputeMetrics(ResultOf({Completed(0, 100, 100, 1)}), {});
  EXPECT_EQ(m.ttft_ms.count, 1);
  EXPECT_EQ(m.tpot_ms.count, 0);
}

TEST(ServingMetricsTest, GoodRequestKeepsEveryTarget) {
  const SimulationResult result = ResultOf({
      Completed(0, 100, 1000, 10),  // TPOT 100
      Completed(0, 600, 1500, 10),  // TPOT 100, TTFT late
      Completed(0, 100, 2000, 10),  // TPOT 211, slow
      Completed(0, 500, 500, 1),    // TTFT just in time
  });
  const auto good = [&result](GoodputTargets targets) {
    const ServingMetrics m = ComputeMetrics(result, {.goodput = targets});
    return *m.request_goodput * m.duration_s;
  };
  EXPECT_DOUBLE_EQ(good({.ttft_ms = 500}), 3);
  EXPECT_DOUBLE_EQ(good({.ttft_ms = 500, .tpot_ms = 150}), 2);
  EXPECT_DOUBLE_EQ(good({.e2el_ms = 1500}), 3);
  EXPECT_DOUBLE_EQ(good({.ttft_ms = 1}), 0);
}

TEST(ServingMetricsTest, WhatDidNotCompleteIsCountedByReasonAlone) {
  std::vector<RequestRecord> requests(6);
  requests[0] = Completed(0, 100, 1000, 10);
  requests[1].state = RequestRecord::State::kRefused;
  requests[1].refusal = Refusal::kExceedsPool;
  requests[2] = requests[1];
  requests[3] = Completed(0, 1, 2, 50);
  requests[3].finish_reason = FinishReason::kQueueTimeout;
  requests[4].state = RequestRecord::State::kUnfinished;
  const ServingMetrics m =
      ComputeMetrics(ResultOf(requests), {.goodput = {.ttft_ms = 1000}});
  EXPECT_EQ(m.completed, 1);
  EXPECT_EQ(m.refused, 2);
  EXPECT_EQ(m.not_completed, 5);
  EXPECT_EQ(m.output_tokens, 10);
  EXPECT_EQ(m.input_tokens, 100);
  EXPECT_EQ(m.ttft_ms.count, 1);
  EXPECT_DOUBLE_EQ(*m.request_goodput * m.duration_s, 1);
  EXPECT_THAT(
      m.not_completed_by_reason,
      ElementsAre(Pair("ended: queue_timeout", 1), Pair("not sent", 1),
                  Pair("refused: exceeds_pool", 2), Pair("unfinished", 1)));
}

TEST(ServingMetricsTest, NothingCompletedIsNoDivisionByZero) {
  const ServingMetrics m =
      ComputeMetrics(ResultOf(std::vector<RequestRecord>(3)), {});
  EXPECT_EQ(m.completed, 0);
  EXPECT_EQ(m.request_throughput, 0);
  EXPECT_EQ(m.ttft_ms.count, 0);
}

}  // namespace
}  // namespace tidewheel
