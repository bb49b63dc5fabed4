// PageAllocator: admitting, extending and promising pages.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/prompt.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// Peers' A behaviours: pages = ceil(tokens / page_size), lookahead included.
TEST(PageAllocatorAdmitTest, TokensAreRoundedUpToPages) {
  for (const auto& [tokens, pages] :
       {std::pair{1, 1}, {15, 1}, {16, 1}, {17, 2}, {32, 2}, {33, 3}}) {
    const auto allocator = MakeAllocator(4, 16);
    ASSERT_TRUE(TryAdmitTokens(*allocator, tokens).has_value());
    EXPECT_EQ(allocator->stats().lent_pages, pages) << tokens << " tokens";
  }
}

TEST(PageAllocatorAdmitTest, FreshPagesAreLentInOrder) {
  const auto allocator = MakeAllocator(4, 16);
  TryAdmitTokens(*allocator, 33);
  TryAdmitTokens(*allocator, 16);
  EXPECT_THAT(allocator->table().pages(0), ElementsAre(1, 2, 3));
  EXPECT_THAT(allocator->table().pages(1), ElementsAre(4));
}

TEST(PageAllocatorAdmitTest, RefusalChangesNothing) {
  const auto allocator = MakeAllocator(2, 16);
  EXPECT_EQ(TryAdmitTokens(*allocator, 33), std::nullopt);
  EXPECT_EQ(allocator->stats().free_pages, 2);
  EXPECT_EQ(allocator->table().num_rows(), 0);
  EXPECT_TRUE(TryAdmitTokens(*allocator, 32).has_value());
}

TEST(PageAllocatorAdmitTest, NoRowIsANormalRefusal) {
  const auto allocator = MakeAllocator(4, 16, /*max_num_seqs=*/1);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 1).has_value());
  EXPECT_EQ(TryAdmitTokens(*allocator, 1), std::nullopt);
  EXPECT_EQ(allocator->stats().free_pages, 3);
}

TEST(PageAllocatorAdmitTest, HeadroomMustStayFree) {
  const auto allocator = MakeAllocator(4, 16);
  EXPECT_EQ(TryAdmitTokens(*allocator, 33, 0, /*headroom_pages=*/2),
            std::nullopt);
  EXPECT_TRUE(
      TryAdmitTokens(*allocator, 33, 0, /*headroom_pages=*/1).has_value());
}

TEST(PageAllocatorAdmitTest, PromisedPagesAreNotLentToOthers) {
  const auto allocator = MakeAllocator(4, 16);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16, /*promised_tokens=*/48));
  EXPECT_EQ(allocator->num_unpromised(), 1);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16));
  EXPECT_EQ(TryAdmitTokens(*allocator, 1), std::nullopt);
  EXPECT_FALSE(allocator->TryExtend(1, 17));
  EXPECT_TRUE(allocator->TryExtend(0, 48));
  EXPECT_EQ(allocator->stats().promised_pages, 0);
  EXPECT_FALSE(allocator->TryExtend(0, 49));
}

TEST(PageAllocatorAdmitTest, PagesGivenBackArePromisedAgain) {
  const auto allocator = MakeAllocator(3, 16);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16, /*promised_tokens=*/48));
  ASSERT_TRUE(allocator->TryExtend(0, 48));
  allocator->Truncate(0, 16);
  EXPECT_EQ(allocator->stats().promised_pages, 2);
  EXPECT_EQ(TryAdmitTokens(*allocator, 1), std::nullopt);
  EXPECT_TRUE(allocator->TryExtend(0, 48));
}

TEST(PageAllocatorAdmitTest, ReleaseEndsAPromise) {
  const auto allocator = MakeAllocator(3, 16);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16, /*promised_tokens=*/48));
  allocator->Release(0);
  EXPECT_EQ(allocator->num_unpromised(), 3);
}

TEST(PageAllocatorAdmitTest, LastRowTakesTheNumberOfAReleasedOne) {
  const auto allocator = MakeAllocator(6, 16);
  for (const int32_t tokens : {16, 32, 48}) TryAdmitTokens(*allocator, tokens);
  allocator->ClearChanges();
  allocator->Release(0);
  EXPECT_EQ(allocator->table().num_rows(), 2);
  EXPECT_EQ(allocator->capacity(0), 48);
  EXPECT_EQ(allocator->capacity(1), 32);
  EXPECT_EQ(allocator->table().previous_row(0), 2);
}

// A10: a growth that fails leaves the row what it had.
TEST(PageAllocatorAdmitTest, FailedGrowthKeepsThePagesThatTheRowHeld) {
  const auto allocator = MakeAllocator(4, 16);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 64));
  EXPECT_FALSE(allocator->TryExtend(0, 65));
  EXPECT_THAT(allocator->table().pages(0), ElementsAre(1, 2, 3, 4));
  allocator->Release(0);
  EXPECT_EQ(allocator->stats().free_pages, 4);
}

// A10: fail, let another go, try again, release.
TEST(PageAllocatorAdmitTest, FailedGrowthCanBeRetried) {
  const auto allocator = MakeAllocator(4, 16);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 48));
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16));
  EXPECT_FALSE(allocator->TryExtend(0, 49));
  allocator->Release(1);
  EXPECT_TRUE(allocator->TryExtend(0, 49));
  allocator->Release(0);
  EXPECT_EQ(allocator->stats().free_pages, 4);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// D5: need is counted in pages of the row's length, not in tokens.
TEST(PageAllocatorAdmitTest, DecodesAtAPageEdgeNeedOnePageEach) {
  constexpr int32_t kRows = 148;
  for (const int32_t length : {63, 64, 65}) {
    const int32_t pages_each = length > 64 ? 2 : 1;
    const auto allocator = MakeAllocator(kRows * pages_each + 32, 64, kRows);
    for (int32_t row = 0; row < kRows; ++row) {
      ASSERT_TRUE(TryAdmitTokens(*allocator, length));
    }
    ASSERT_EQ(allocator->num_unpromised(), 32);
    int32_t extended = 0;
    for (int32_t row = 0; row < kRows; ++row) {
      extended += allocator->TryExtend(row, length + 1) ? 1 : 0;
    }
    EXPECT_EQ(extended, length == 64 ? 32 : kRows) << length << " tokens";
    EXPECT_EQ(allocator->stats().free_pages, length == 64 ? 0 : 32);
  }
}

// D5: 32 free pages serve 32 rows without eviction; the 33rd evicts one page.
TEST(PageAllocatorAdmitTest, OneRowMoreThanFreePagesEvictsOnePage) {
  constexpr int32_t kRows = 33;
  const auto allocator = MakeAllocator(kRows + 32 + 10, 64, kRows + 1);
  Prompt::Counting(*allocator, 0, 640).Run(*allocator);
  for (int32_t row = 0; row < kRows; ++row) {
    ASSERT_TRUE(TryAdmitTokens(*allocator, 64));
  }
  ASSERT_EQ(allocator->stats().free_pages, 32);
  ASSERT_EQ(allocator->stats().cached_pages, 10);
  for (int32_t row = 0; row < 32; ++row) {
    ASSERT_TRUE(allocator->TryExtend(row, 65));
  }
  EXPECT_EQ(allocator->stats().pages_evicted, 0);
  EXPECT_TRUE(allocator->TryExtend(32, 65));
  EXPECT_EQ(allocator->stats().pages_evicted, 1);
}

// D6: the first chunk comes on top of what the prefix hit covers.
TEST(PageAllocatorAdmitTest, FirstChunkIsCountedAfterThePrefixHit) {
  const auto allocator = MakeAllocator(16, 16);
  Prompt::Counting(*allocator, 0, 64).Run(*allocator);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 128);
  PageAllocator::AdmitOptions options;
  options.match = allocator->Match(prompt.content(), {});
  ASSERT_EQ(options.match.num_pages, 4);
  options.num_tokens = 64 + 24;
  EXPECT_EQ(allocator->PagesToAdmit(options), 2 + 4);
  ASSERT_TRUE(allocator->TryAdmit(options).has_value());
  EXPECT_GE(allocator->capacity(0), 88);
  EXPECT_EQ(allocator->table().num_pages(0), 6);
}

// F6: a promise as long as int32_t can say is refused, not wrapped.
TEST(PageAllocatorAdmitTest, LongestPromiseIsRefusedNotWrapped) {
  const auto allocator = MakeAllocator(4, 1);
  EXPECT_EQ(TryAdmitTokens(*allocator, 1, kInt32Max), std::nullopt);
  EXPECT_EQ(TryAdmitTokens(*allocator, 1, kInt32Max, /*headroom_pages=*/1),
            std::nullopt);
  EXPECT_EQ(TryAdmitTokens(*allocator, 1, 2, kInt32Max), std::nullopt);
  EXPECT_EQ(allocator->stats().promised_pages, 0);
}

// L1: after 2000 requests, lengths at page edges among them, no page is lent.
TEST(PageAllocatorAdmitTest, NoPageStaysLentAfterAThousandsOfRequests) {
  const auto allocator = MakeAllocator(64, 16);
  for (int32_t i = 0; i < 2000; ++i) {
    const int32_t length = 1 + (i * 7) % 96;
    const Prompt prompt = Prompt::Counting(*allocator, i % 50, length);
    const std::optional<int32_t> row = prompt.TryAdmit(*allocator);
    ASSERT_TRUE(row.has_value());
    ASSERT_TRUE(allocator->TryExtend(*row, length + 16 - length % 16));
    allocator->Publish(*row, prompt.content(), length);
    if (i % 3 == 0) allocator->Truncate(*row, length / 2);
    allocator->Release(*row);
    ASSERT_EQ(allocator->stats().lent_pages, 0) << "request " << i;
  }
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// L2: free + cached = total at idle for any page size, after rollbacks of rows
// whose length is no multiple of it.
TEST(PageAllocatorAdmitTest, AllPagesAreAccountedForAtIdle) {
  for (const int32_t page_size : {1, 3, 16, 64}) {
    const auto allocator = MakeAllocator(500, page_size, 256);
    for (int32_t round = 0; round < 3; ++round) {
      for (int32_t i = 0; i < 256; ++i) {
        const int32_t length = 1 + i % (2 * page_size + 1);
        const Prompt prompt = Prompt::Counting(*allocator, i, length);
        if (!prompt.TryAdmit(*allocator).has_value()) break;
        const int32_t row = allocator->table().num_rows() - 1;
        allocator->Publish(row, prompt.content(), length - i % 2);
      }
      while (allocator->table().num_rows() > 0) {
        const int32_t row = allocator->table().num_rows() / 2;
        allocator->Truncate(row, allocator->capacity(row) / 2);
        allocator->Release(row);
      }
      const PageAllocator::Stats stats = allocator->stats();
      EXPECT_EQ(stats.free_pages + stats.cached_pages, 500);
      EXPECT_EQ(stats.lent_pages, 0);
    }
  }
}

TEST(PageAllocatorAdmitDeathTest, MatchMustFitTheSlotsTaken) {
  const auto allocator = MakeAllocator(4, 4);
  Prompt::Counting(*allocator, 0, 8).Run(*allocator);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 12);
  PageAllocator::AdmitOptions options;
  options.match = allocator->Match(prompt.content(), {});
  ASSERT_EQ(options.match.num_pages, 2);
  options.num_tokens = 7;
  EXPECT_DEATH(allocator->TryAdmit(options), "num_tokens");
}

TEST(PageAllocatorAdmitDeathTest, RowIsNotWiderThanTheTable) {
  PageAllocator::Options options;
  options.total_num_pages = 8;
  options.page_size = 4;
  options.max_num_seqs = 2;
  options.pages_per_seq = 3;
  const auto allocator = MakeAllocator(options);
  EXPECT_DEATH(TryAdmitTokens(*allocator, 13), "pages_per_seq");
  TryAdmitTokens(*allocator, 4);
  EXPECT_DEATH(allocator->TryExtend(0, 13), "pages_per_seq");
}

TEST(PageAllocatorAdmitDeathTest, MatchMustStillBeCached) {
  const auto allocator = MakeAllocator(4, 4);
  Prompt::Counting(*allocator, 0, 4).Run(*allocator);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  PageAllocator::AdmitOptions options;
  options.match = allocator->Match(prompt.content(), {});
  options.num_tokens = 8;
  TryAdmitTokens(*allocator, 16);
  allocator->Release(0);
  EXPECT_DEATH(allocator->TryAdmit(options), "serial");
}

TEST(PageAllocatorAdmitDeathTest, OnlyRowsInUseAreReleased) {
  const auto allocator = MakeAllocator(2, 4);
  EXPECT_DEATH(allocator->Release(0), "CHECK failed");
  TryAdmitTokens(*allocator, 4);
  EXPECT_DEATH(allocator->Release(1), "CHECK failed");
}

}  // namespace
}  // namespace tidewheel
