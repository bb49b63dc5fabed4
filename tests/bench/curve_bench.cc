// The hit curve of all pool sizes from one pass, as `tidewheel tune --curve`
// makes it after the trace is read: page paths, then the pass.
//
// The Mooncake conversation trace is taken from the shared folder (or
// TIDEWHEEL_SHARED) and left out where that is absent.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "allocator/check.h"
#include "tools/traces/trace_reader.h"
#include "tools/tune/page_paths.h"
#include "tools/tune/stack_pass.h"

namespace tidewheel {
namespace {

void BM_CurveOfMooncakeConversation(benchmark::State& state) {
  const char* root = std::getenv("TIDEWHEEL_SHARED");
  const std::string path =
      (std::filesystem::path(
           root != nullptr ? root : TIDEWHEEL_SOURCE_DIR "/../shared") /
       "traces/mooncake-fast25/conversation_trace.jsonl")
          .string();
  if (!std::filesystem::exists(path)) {
    state.SkipWithError("no shared folder with the trace");
    return;
  }
  const absl::StatusOr<Trace> trace = ReadTrace(path, {});
  TIDEWHEEL_CHECK(trace.ok());
  const PagePathOptions options = {.page_size =
                                       static_cast<int32_t>(state.range(0))};
  size_t pages = 0;
  size_t steps = 0;
  for (auto _ : state) {
    const absl::StatusOr<PagePaths> paths = BuildPagePaths(*trace, options);
    TIDEWHEEL_CHECK(paths.ok());
    const HitCurve curve = ComputeHitCurve(*paths);
    pages = paths->pages.size();
    steps = curve.points().size();
    benchmark::DoNotOptimize(steps);
  }
  using benchmark::Counter;
  state.counters["pages"] = static_cast<double>(pages);
  state.counters["curve_steps"] = static_cast<double>(steps);
  state.counters["per_page"] =
      Counter(static_cast<double>(pages),
              Counter::kIsIterationInvariantRate | Counter::kInvert);
}
BENCHMARK(BM_CurveOfMooncakeConversation)
    ->ArgName("page_size")
    ->Arg(512)
    ->Arg(128)
    ->Arg(16)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tidewheel
