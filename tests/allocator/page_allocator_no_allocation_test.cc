// Nothing but AcquireIsolation takes memory after Create, and nothing owns
// pages through a chain that must be unwound.

#include <pthread.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocation_counter.h"
#include "tests/allocator/prompt.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

TEST(AllocationCounterTest, AllocationInAScopeIsCounted) {
  if (!kCountsAllocations) GTEST_SKIP() << "no counting under this sanitizer";
  const int64_t before = NumAllocations();
  // Called by name: a compiler may leave a new-expression out.
  ::operator delete(::operator new(1));
  ::operator delete[](::operator new[](1));
  EXPECT_EQ(NumAllocations() - before, 2);
}

TEST(PageAllocatorMemoryTest, NoCallAllocates) {
  const auto allocator = MakeAllocator(33, 4, 8);
  const Prompt shared = Prompt::Counting(*allocator, 0, 40);
  const Prompt other = Prompt::Counting(*allocator, 1000, 40);
  std::vector<uint64_t> hashes(10);
  for (int32_t round = 0; round < 50; ++round) {
    // Fills the pool with content that the calls below must evict.
    Prompt::Counting(*allocator, 10'000 * (round + 1), 132).Run(*allocator);
    ExpectNoAllocation scope("a call of PageAllocator");
    allocator->HashPages(other.tokens, IsolationRoots::kShared, 0, 10, hashes);
    const PageAllocator::PrefixMatch match =
        allocator->Match(shared.content(), {});
    PageAllocator::AdmitOptions admit;
    admit.match = match;
    admit.num_tokens = 40;
    admit.promised_tokens = 60;
    const std::optional<int32_t> row = allocator->TryAdmit(admit);
    TIDEWHEEL_CHECK(row.has_value());
    allocator->TryExtend(*row, 42);
    allocator->Publish(*row, shared.content(), 40);
    allocator->Match(shared.content(), match);
    admit.match = {};
    TIDEWHEEL_CHECK(allocator->TryAdmit(admit).has_value());
    allocator->Publish(1, round % 2 == 0 ? other.content() : shared.content(),
                       40);
    const std::optional<int32_t> fork = allocator->TryFork(0, 42, 0);
    TIDEWHEEL_CHECK(fork.has_value());
    TIDEWHEEL_CHECK(allocator->TryExtend(*fork, 48));
    allocator->CompleteCopies();
    allocator->Truncate(*fork, 21);
    TIDEWHEEL_CHECK(allocator->TryExtend(*fork, 23));
    allocator->CompleteCopies();
    allocator->SwapRows(0, 2);
    const absl::StatusOr<PageAllocator::Pin> pin =
        allocator->PinPrefix(shared.content());
    TIDEWHEEL_CHECK(pin.ok());
    // Refusals are normal, so they must not allocate either.
    TIDEWHEEL_CHECK(!allocator->TryExtend(1, 136));
    admit.num_tokens = 136;
    TIDEWHEEL_CHECK(!allocator->TryAdmit(admit).has_value());
    while (allocator->table().num_rows() > 0) allocator->Release(0);
    allocator->Unpin(pin->handle);
    allocator->ClearChanges();
    if (round % 10 == 9) {
      TIDEWHEEL_CHECK(
          allocator->ResetPrefixCache(PageAllocator::ResetMode::kForce).ok());
    }
  }
  EXPECT_GT(allocator->stats().pages_evicted, 0);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// Runs `body` on a thread with a stack of 256 KiB.
void RunOnASmallStack(std::function<void()> body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* argument) -> void* {
                  (*static_cast<std::function<void()>*>(argument))();
                  return nullptr;
                },
                &body),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// L4: pages do not own each other, so no chain is too long to take down.
TEST(PageAllocatorMemoryTest, ChainOfAMillionPagesIsFreedOnASmallStack) {
  RunOnASmallStack([] {
    constexpr int32_t kPages = 1'000'000;
    auto allocator = MakeAllocator(kPages, 1, 2);
    const Prompt prompt = Prompt::Counting(*allocator, 0, kPages);
    prompt.Run(*allocator);
    EXPECT_EQ(allocator->stats().cached_pages, kPages);
    EXPECT_EQ(prompt.MatchedPages(*allocator), kPages - 1);
    // All of it is evicted, page by page.
    ASSERT_TRUE(TryAdmitTokens(*allocator, kPages));
    EXPECT_EQ(allocator->stats().pages_evicted, kPages);
    allocator.reset();
  });
}

}  // namespace
}  // namespace tidewheel
