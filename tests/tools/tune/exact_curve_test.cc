// The one pass against pools of every size: a naive one, and the production
// scheduler and allocator.

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/simulated_world.h"
#include "tests/tools/tune/naive_hits.h"
#include "tests/tools/tune/random_trace.h"
#include "tools/tune/page_paths.h"
#include "tools/tune/stack_pass.h"

namespace tidewheel {
namespace {

PagePaths PathsOf(const Trace& trace, int32_t page_size) {
  absl::StatusOr<PagePaths> paths =
      BuildPagePaths(trace, {.page_size = page_size});
  EXPECT_THAT(paths, IsOk());
  return *std::move(paths);
}

// The exact answer for any size: of the curve of those requests that fit.
int64_t CurveHitPages(const PagePaths& paths, int64_t total_num_pages) {
  const int32_t usable = static_cast<int32_t>(total_num_pages - 1);
  const bool any_fits =
      std::any_of(paths.requests.begin(), paths.requests.end(),
                  [&](const auto& r) { return r.num_taken <= usable; });
  if (!any_fits) return 0;
  return ComputeHitCurve(paths, usable).HitPages(total_num_pages);
}

TEST(ExactCurveTest, EqualsANaivePoolOfEverySize) {
  int64_t hits = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const int32_t page_size = 1 + static_cast<int32_t>(seed % 5);
    const Trace trace = RandomReuseTrace(seed, page_size);
    const PagePaths paths = PathsOf(trace, page_size);
    const HitCurve curve = ComputeHitCurve(paths);
    for (int64_t size = 2; size < curve.ceiling().total_num_pages + 3; ++size) {
      const int64_t naive = NaiveHitPages(trace, page_size, size);
      ASSERT_EQ(CurveHitPages(paths, size), naive)
          << "seed " << seed << ", total_num_pages " << size;
      if (size >= curve.smallest()) {
        ASSERT_EQ(curve.HitPages(size), naive);
      }
      hits += naive;
    }
  }
  EXPECT_GT(hits, 100'000);
}

TEST(ExactCurveTest, EqualsTheProductionAllocatorAtEverySize) {
  for (uint64_t seed = 1000; seed < 1150; ++seed) {
    const int32_t page_size = 2 + static_cast<int32_t>(seed % 4);
    const Trace trace = RandomReuseTrace(seed, page_size);
    const PagePaths paths = PathsOf(trace, page_size);
    const int64_t end = ComputeHitCurve(paths).ceiling().total_num_pages + 2;
    for (int64_t size = 2; size < end; ++size) {
      WorldOptions world;
      world.page_size = page_size;
      world.usable_pages = static_cast<int32_t>(size - 1);
      world.scheduler.max_num_seqs = 1;
      world.scheduler.max_num_batched_tokens =
          1 + static_cast<int32_t>(seed % 7);
      const SimulationResult result =
          RunInWorld(world, trace, {.max_concurrency = 1});
      ASSERT_EQ(CurveHitPages(paths, size) * page_size,
                result.scheduler.prefix_cache_hits)
          << "seed " << seed << ", total_num_pages " << size;
    }
  }
}

}  // namespace
}  // namespace tidewheel
