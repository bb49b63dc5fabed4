#include "tools/workload/azure_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tools/traces/trace_reader.h"

namespace tidewheel {
namespace {

struct Moments {
  double mean = 0;
  double sd = 0;
};

template <typename T>
Moments MomentsOf(const std::vector<T>& values) {
  double sum = 0;
  double squares = 0;
  for (const T value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n - sum / n * (sum / n))};
}

std::vector<int32_t> DrawLengths(const LognormalLengths& fit) {
  const LengthDistribution lengths(fit);
  RandomEngine engine = RandomStream(1, RandomUse::kPromptLengths);
  std::vector<int32_t> drawn(1'000'000);
  for (int32_t& length : drawn) length = lengths.Draw(engine);
  return drawn;
}

void ExpectFit(const LognormalLengths& fit, const std::vector<int32_t>& trace) {
  const Moments drawn = MomentsOf(DrawLengths(fit));
  const Moments measured = MomentsOf(trace);
  // Four standard errors of a million draws are 0.4 % of the mean, and the sd
  // of a heavy tail strays more.
  EXPECT_NEAR(drawn.mean / measured.mean, 1, 0.005);
  EXPECT_NEAR(drawn.sd / measured.sd, 1, 0.01);
  EXPECT_EQ(fit.min_tokens, *std::min_element(trace.begin(), trace.end()));
  EXPECT_EQ(fit.max_tokens, *std::max_element(trace.begin(), trace.end()));
}

TEST(AzureFitTest, LengthsAndGapsHaveTheTracesMeansAndDeviations) {
  TIDEWHEEL_REQUIRE_SHARED(
      path, "traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv");
  const auto trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  std::vector<int32_t> prompts;
  std::vector<int32_t> outputs;
  std::vector<int64_t> gaps;
  int64_t last_us = 0;
  for (const TraceRequest& request : trace->requests) {
    if (!prompts.empty()) gaps.push_back(request.arrival_us - last_us);
    last_us = request.arrival_us;
    prompts.push_back(request.prompt_tokens);
    outputs.push_back(request.output_tokens);
  }
  ExpectFit(kAzurePromptLengths, prompts);
  ExpectFit(kAzureOutputLengths, outputs);
  const Moments gap = MomentsOf(gaps);
  EXPECT_NEAR(1e6 / gap.mean, kAzureRequestRate, 0.001);
  EXPECT_NEAR(gap.mean * gap.mean / (gap.sd * gap.sd), kAzureBurstiness, 1e-4);
}

}  // namespace
}  // namespace tidewheel
