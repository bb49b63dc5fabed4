// Random operations on PageAllocator, compared with NaiveAllocator and with
// simulated KV after each one.

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/allocator_operations.h"
#include "tests/allocator/allocator_world.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

// What random runs have reached, so that a test can see that it tests.
struct Coverage {
  int64_t matched_pages = 0;
  int64_t copies = 0;
  int64_t evicted = 0;
};

// Performs `count` operations; on the first difference, the failure prints
// code that leads to one.
void RunRandomly(uint64_t seed, int32_t count,
                 const std::function<void(PageAllocator::Options&)>& adjust,
                 Coverage& coverage) {
  std::mt19937_64 random(seed);
  const std::function<uint8_t()> next = [&random] {
    return static_cast<uint8_t>(random() >> 56);
  };
  PageAllocator::Options options = DrawOptions(next);
  adjust(options);
  AllocatorWorld world(options);
  std::vector<Operation> operations;
  for (int32_t i = 0; i < count; ++i) {
    operations.push_back(DrawOperation(next));
    Perform(operations.back(), world);
    if (world.Check().ok()) continue;
    const std::vector<Operation> fewer = Shrink(options, operations);
    FAIL() << world.Check().ToString() << "\nseed " << seed << ", page_size "
           << options.page_size << ", total_num_pages "
           << options.total_num_pages << ", max_num_seqs "
           << options.max_num_seqs << ", pages_per_seq "
           << options.pages_per_seq << ", operations:\n"
           << ToString(fewer) << "\nwhich ends with "
           << Replay(options, fewer).ToString();
  }
  coverage.matched_pages += world.num_matched_pages();
  coverage.copies += world.num_copies_done();
  coverage.evicted += world.allocator().stats().pages_evicted;
}

// J1 (usage stays within 0 and 1) and L2 (free + cached + lent = total, at any
// page size, after forks, rollbacks and failures) are among what is compared.
TEST(PageAllocatorModelTest, AgreesWithTheNaiveModel) {
  Coverage coverage;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    RunRandomly(
        seed, 1000, [](PageAllocator::Options&) {}, coverage);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(coverage.matched_pages, 1000);
  EXPECT_GT(coverage.copies, 500);
  EXPECT_GT(coverage.evicted, 1000);
}

// C2: everything collides, so only tokens and parents can tell pages apart.
TEST(PageAllocatorModelTest, AgreesWithTheNaiveModelWhenAllHashesCollide) {
  Coverage coverage;
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    RunRandomly(
        seed, 1000,
        [](PageAllocator::Options& options) {
          options.hash_mask = 0;
          options.enable_prefix_cache = true;
        },
        coverage);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(coverage.matched_pages, 500);
}

TEST(PageAllocatorModelTest, AgreesWithTheNaiveModelInALongCrowdedRun) {
  Coverage coverage;
  RunRandomly(
      7, 30'000,
      [](PageAllocator::Options& options) {
        options.page_size = 2;
        options.total_num_pages = 24;
        options.max_num_seqs = 6;
        options.pages_per_seq = 6;
        options.enable_prefix_cache = true;
        options.max_isolation_keys = 2;
        options.max_pins = 2;
      },
      coverage);
  EXPECT_GT(coverage.evicted, 200);
}

// The canary: if a spoilt page went unseen, the tests above would prove little.
TEST(PageAllocatorModelTest, ASpoiltPageIsSeen) {
  PageAllocator::Options options;
  options.page_size = 2;
  options.total_num_pages = 4;
  options.max_num_seqs = 2;
  options.pages_per_seq = 3;
  AllocatorWorld world(options);
  Submit{0, 3, 3}.Perform(world);
  Admit{0, 3, 0, 0}.Perform(world);
  Write{}.Perform(world);
  ASSERT_THAT(world.Check(), IsOk());
  world.SpoilKv(world.allocator().table().pages(0)[0]);
  EXPECT_THAT(world.Check(), StatusIs(absl::StatusCode::kInternal,
                                      HasSubstr("finds another's")));
}

}  // namespace
}  // namespace tidewheel
