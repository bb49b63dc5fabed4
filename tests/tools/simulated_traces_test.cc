// Public traces through the whole of it, against what is known of them.

#include <cstdint>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tools/report/serving_metrics.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/traces/trace_reader.h"

namespace tidewheel {
namespace {

SimulationResult Simulate(const Trace& trace, ServingOptions serving,
                          const SimulationOptions& simulation) {
  // Every invariant after each of these steps would take hours.
  serving.scheduler.validate_steps = false;
  serving.scheduler.max_waiting = static_cast<int32_t>(trace.requests.size());
  const absl::StatusOr<ServingSetup> setup = PrepareServing(serving);
  EXPECT_THAT(setup, IsOk());
  const absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      setup->MakeScheduler();
  EXPECT_THAT(scheduler, IsOk());
  SimulatedRunner runner = setup->MakeRunner();
  absl::StatusOr<SimulationResult> result =
      RunSimulation(trace, simulation, **scheduler, runner);
  EXPECT_THAT(result, IsOk());
  EXPECT_THAT((*scheduler)->CheckInvariants(), IsOk());
  return *std::move(result);
}

TEST(SimulatedTracesTest, AzureConversationTraceCompletes) {
  TIDEWHEEL_REQUIRE_SHARED(
      path, "traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv");
  const absl::StatusOr<Trace> trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  const ServingMetrics metrics =
      ComputeMetrics(Simulate(*trace, ServingOptions(), {}), {});
  EXPECT_EQ(metrics.completed, 19'366);
  EXPECT_EQ(metrics.input_tokens, 22'361'870);
  EXPECT_EQ(metrics.output_tokens, 4'088'665);
  // The load is a third of what the chip can do: it keeps up with arrivals.
  EXPECT_GT(metrics.duration_s, 3501);
  EXPECT_LT(metrics.duration_s, 3550);
  EXPECT_LT(metrics.ttft_ms.median, 200);
}

struct ExpectedHits {
  const char* trace;
  int32_t page_size;
  int64_t prompt_tokens;
  int64_t hits;
};

class MooncakeHitsTest : public testing::TestWithParam<ExpectedHits> {};

// One request at a time and a pool that never evicts: what is found is what an
// independent count of the trace's block ids says.
TEST_P(MooncakeHitsTest, AreThoseOfAnIndependentCount) {
  const ExpectedHits& expected = GetParam();
  TIDEWHEEL_REQUIRE_SHARED(
      path, std::string("traces/mooncake-fast25/") + expected.trace);
  absl::StatusOr<Trace> trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  // Hits do not depend on what is generated, which nobody else's prompt holds.
  for (TraceRequest& request : trace->requests) {
    request.output_tokens = std::min(request.output_tokens, 2);
  }
  ServingOptions serving;
  serving.plan.page_size = expected.page_size;
  serving.plan.total_num_pages =
      expected.prompt_tokens / expected.page_size + 20'000;
  serving.plan.max_num_seqs = 1;
  serving.plan.max_model_len = 200'000;
  serving.plan.max_num_batched_tokens = 16'384;
  const SimulationResult result =
      Simulate(*trace, serving, {.max_concurrency = 1});
  EXPECT_EQ(result.pages_evicted, 0);
  EXPECT_EQ(result.scheduler.prefix_cache_queries, expected.prompt_tokens);
  EXPECT_EQ(result.scheduler.prefix_cache_hits, expected.hits);
}

INSTANTIATE_TEST_SUITE_P(
    Conversation, MooncakeHitsTest,
    testing::Values(
        ExpectedHits{"conversation_trace.jsonl", 512, 144'793'823, 54'063'104},
        ExpectedHits{"conversation_trace.jsonl", 128, 144'793'823, 54'089'728},
        ExpectedHits{"conversation_trace.jsonl", 16, 144'793'823, 54'097'440}));

INSTANTIATE_TEST_SUITE_P(
    Synthetic, MooncakeHitsTest,
    testing::Values(
        ExpectedHits{"synthetic_trace.jsonl", 512, 61'194'628, 39'802'880},
        ExpectedHits{"synthetic_trace.jsonl", 128, 61'194'628, 39'839'104},
        ExpectedHits{"synthetic_trace.jsonl", 16, 61'194'628, 39'850'800}));

}  // namespace
}  // namespace tidewheel
