// The whole simulation, as `tidewheel simulate` runs it: client, scheduler,
// allocator, cost model and records, on one core.
//
// Reads `real_time_x` beside DESIGN.md 9: simulated seconds a second of wall
// time. The Azure trace is taken from the shared folder (or TIDEWHEEL_SHARED)
// and left out where that is absent.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "allocator/check.h"
#include "tools/report/serving_metrics.h"
#include "tools/serving_setup.h"
#include "tools/simulation.h"
#include "tools/traces/trace_reader.h"
#include "tools/workload/builtin_workload.h"

namespace tidewheel {
namespace {

void Simulate(benchmark::State& state, const Trace& trace) {
  ServingOptions serving;
  serving.scheduler.max_waiting = static_cast<int32_t>(trace.requests.size());
  const absl::StatusOr<ServingSetup> setup = PrepareServing(serving);
  TIDEWHEEL_CHECK(setup.ok());
  int64_t steps = 0;
  int64_t rows = 0;
  double simulated_s = 0;
  for (auto _ : state) {
    state.PauseTiming();
    absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
        setup->MakeScheduler();
    TIDEWHEEL_CHECK(scheduler.ok());
    SimulatedRunner runner = setup->MakeRunner();
    state.ResumeTiming();
    const absl::StatusOr<SimulationResult> result =
        RunSimulation(trace, {}, **scheduler, runner);
    TIDEWHEEL_CHECK(result.ok());
    const ServingMetrics metrics = ComputeMetrics(*result, {});
    TIDEWHEEL_CHECK_EQ(metrics.not_completed, 0);
    state.PauseTiming();
    simulated_s += metrics.duration_s;
    steps += result->scheduler.steps;
    rows += result->scheduler.generated_tokens;
    scheduler->reset();
    state.ResumeTiming();
  }
  using benchmark::Counter;
  state.counters["real_time_x"] = Counter(simulated_s, Counter::kIsRate);
  state.counters["steps"] =
      Counter(static_cast<double>(steps), Counter::kAvgIterations);
  state.counters["per_step"] =
      Counter(static_cast<double>(steps), Counter::kIsRate | Counter::kInvert);
  state.counters["per_token"] =
      Counter(static_cast<double>(rows), Counter::kIsRate | Counter::kInvert);
}

void BM_SimulateBuiltIn(benchmark::State& state) {
  BuiltinWorkloadOptions options;
  options.num_requests = state.range(0);
  const absl::StatusOr<Trace> trace = GenerateBuiltinWorkload(options);
  TIDEWHEEL_CHECK(trace.ok());
  Simulate(state, *trace);
}
BENCHMARK(BM_SimulateBuiltIn)
    ->Arg(2'000)
    ->Arg(20'000)
    ->Unit(benchmark::kMillisecond);

void BM_SimulateAzureConversation(benchmark::State& state) {
  const char* root = std::getenv("TIDEWHEEL_SHARED");
  const std::string path =
      (std::filesystem::path(
           root != nullptr ? root : TIDEWHEEL_SOURCE_DIR "/../shared") /
       "traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv")
          .string();
  if (!std::filesystem::exists(path)) {
    state.SkipWithError("no shared folder with the trace");
    return;
  }
  const absl::StatusOr<Trace> trace = ReadTrace(path, {});
  TIDEWHEEL_CHECK(trace.ok());
  Simulate(state, *trace);
}
BENCHMARK(BM_SimulateAzureConversation)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tidewheel
