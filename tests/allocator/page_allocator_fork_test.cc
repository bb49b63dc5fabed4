// PageAllocator: forks, rollbacks and the copies that keep them apart.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/prompt.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PageAllocatorForkTest, ForkSharesAllPages) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_EQ(allocator->TryFork(0, 6, 0), 1);
  EXPECT_THAT(allocator->table().pages(1), ElementsAre(1, 2));
  EXPECT_EQ(allocator->stats().lent_pages, 2);
}

TEST(PageAllocatorForkTest, WritingToASharedLastPageCopiesItsValidSlots) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  EXPECT_EQ(allocator->PagesToExtend(1, 7), 1);
  ASSERT_TRUE(allocator->TryExtend(1, 7));
  ASSERT_EQ(allocator->pending_copies().size(), 1u);
  EXPECT_EQ(allocator->pending_copies()[0].source, 2);
  EXPECT_EQ(allocator->pending_copies()[0].target, 3);
  EXPECT_EQ(allocator->pending_copies()[0].num_tokens, 2);
  EXPECT_THAT(allocator->table().pages(0), ElementsAre(1, 2));
  EXPECT_THAT(allocator->table().pages(1), ElementsAre(1, 3));
}

TEST(PageAllocatorForkTest, ForkAtAPageEdgeCopiesNothing) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 8);
  ASSERT_TRUE(allocator->TryFork(0, 8, 0));
  ASSERT_TRUE(allocator->TryExtend(1, 9));
  EXPECT_THAT(allocator->pending_copies(), IsEmpty());
  EXPECT_THAT(allocator->table().pages(1), ElementsAre(1, 2, 3));
}

TEST(PageAllocatorForkTest, LastHolderWritesWithoutACopy) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  allocator->Release(0);
  EXPECT_EQ(allocator->PagesToExtend(0, 7), 0);
  ASSERT_TRUE(allocator->TryExtend(0, 7));
  EXPECT_THAT(allocator->pending_copies(), IsEmpty());
}

TEST(PageAllocatorForkTest, CopySourceIsHeldUntilTheCopyIsDone) {
  const auto allocator = MakeAllocator(3, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  ASSERT_TRUE(allocator->TryExtend(1, 7));
  allocator->Release(0);
  EXPECT_EQ(allocator->stats().free_pages, 0);
  EXPECT_EQ(TryAdmitTokens(*allocator, 1), std::nullopt);
  allocator->CompleteCopies();
  EXPECT_EQ(allocator->stats().free_pages, 1);
}

TEST(PageAllocatorForkTest, CopyToAPageThatWasGivenBackIsForgotten) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  ASSERT_TRUE(allocator->TryExtend(1, 7));
  allocator->Release(1);
  EXPECT_THAT(allocator->pending_copies(), IsEmpty());
  EXPECT_EQ(allocator->stats().free_pages, 2);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// A copy of a copy: both are listed, in the order that makes them right, and
// both are forgotten when nobody is left to read them.
TEST(PageAllocatorForkTest, CopiesOfACopyAreListedInOrder) {
  const auto allocator = MakeAllocator(6, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  ASSERT_TRUE(allocator->TryExtend(1, 6));  // 2 is copied to 3
  ASSERT_TRUE(allocator->TryFork(1, 6, 0));
  ASSERT_TRUE(allocator->TryExtend(2, 7));  // 3 is copied to 4
  ASSERT_EQ(allocator->pending_copies().size(), 2u);
  EXPECT_EQ(allocator->pending_copies()[1].source, 3);
  EXPECT_EQ(allocator->pending_copies()[1].target, 4);
  allocator->Release(1);  // its number goes to the grandchild
  EXPECT_EQ(allocator->pending_copies().size(), 2u);
  allocator->Release(1);
  EXPECT_THAT(allocator->pending_copies(), IsEmpty());
  EXPECT_EQ(allocator->stats().lent_pages, 2);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

TEST(PageAllocatorForkTest, ForkWithoutPagesForItsPromiseIsRefused) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  // 12 tokens are one page more, and the last page may have to be copied.
  EXPECT_EQ(allocator->TryFork(0, 6, 16), std::nullopt);
  ASSERT_TRUE(allocator->TryFork(0, 6, 12));
  EXPECT_EQ(allocator->stats().promised_pages, 2);
  EXPECT_EQ(TryAdmitTokens(*allocator, 1), std::nullopt);
  ASSERT_TRUE(allocator->TryExtend(1, 12));
  EXPECT_EQ(allocator->stats().promised_pages, 0);
}

TEST(PageAllocatorForkTest, ForkNeedsARow) {
  const auto allocator = MakeAllocator(4, 4, /*max_num_seqs=*/1);
  TryAdmitTokens(*allocator, 6);
  EXPECT_EQ(allocator->TryFork(0, 6, 0), std::nullopt);
  EXPECT_EQ(allocator->table().num_rows(), 1);
}

TEST(PageAllocatorForkTest, PublishedPageIsCopiedBeforeItIsWrittenAgain) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  ASSERT_TRUE(prompt.TryAdmit(*allocator));
  allocator->Publish(0, prompt.content(), 8);
  allocator->Truncate(0, 7);
  ASSERT_TRUE(allocator->TryExtend(0, 8));
  ASSERT_EQ(allocator->pending_copies().size(), 1u);
  EXPECT_EQ(allocator->pending_copies()[0].num_tokens, 3);
  allocator->CompleteCopies();
  // The published page is nobody's now, and still found.
  EXPECT_EQ(allocator->stats().cached_pages, 1);
  EXPECT_EQ(Prompt::Counting(*allocator, 0, 9).MatchedPages(*allocator), 2);
}

// C5: a page that was completed by token 28 and then by 11 is found under what
// it holds: 15 times 10, then 11.
TEST(PageAllocatorForkTest, ReplacedTokenIsNotFoundUnderTheOldOne) {
  const auto allocator = MakeAllocator(8, 16);
  std::vector<int32_t> tokens(15, 10);
  const auto with = [&](int32_t token) {
    std::vector<int32_t> longer = tokens;
    longer.push_back(token);
    return Prompt(*allocator, longer);
  };
  const auto is_found = [&](int32_t token) {
    Prompt asking = with(token);
    asking.tokens.push_back(1);
    asking.Hash(*allocator);
    return asking.MatchedPages(*allocator) == 1;
  };
  ASSERT_TRUE(TryAdmitTokens(*allocator, 15));
  ASSERT_TRUE(allocator->TryExtend(0, 16));
  // The 28 is replaced before its KV was published.
  allocator->Truncate(0, 15);
  ASSERT_TRUE(allocator->TryExtend(0, 16));
  allocator->Publish(0, with(11).content(), 16);
  EXPECT_TRUE(is_found(11));
  EXPECT_FALSE(is_found(28));
}

// C5 with the page published in between: both contents exist, each in a page
// of its own.
TEST(PageAllocatorForkTest, TokenReplacedAfterPublishingGetsAPageOfItsOwn) {
  const auto allocator = MakeAllocator(8, 16);
  std::vector<int32_t> tokens(15, 10);
  const auto with = [&](int32_t token) {
    std::vector<int32_t> longer = tokens;
    longer.push_back(token);
    return Prompt(*allocator, longer);
  };
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16));
  allocator->Publish(0, with(28).content(), 16);
  const PageId page_of_28 = allocator->table().pages(0)[0];
  allocator->Truncate(0, 15);
  ASSERT_TRUE(allocator->TryExtend(0, 16));
  allocator->CompleteCopies();
  allocator->Publish(0, with(11).content(), 16);
  const PageId page_of_11 = allocator->table().pages(0)[0];
  EXPECT_NE(page_of_11, page_of_28);
  const auto matched = [&](int32_t token) {
    Prompt asking = with(token);
    asking.tokens.push_back(1);
    asking.Hash(*allocator);
    return allocator->Match(asking.content(), {}).last.page;
  };
  EXPECT_EQ(matched(28), page_of_28);
  EXPECT_EQ(matched(11), page_of_11);
}

// C5 for drafts: pages taken for rejected drafts go back unpublished.
TEST(PageAllocatorForkTest, RejectedDraftsLeaveNothingToFind) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt drafted = Prompt::Counting(*allocator, 0, 9);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 3));
  ASSERT_TRUE(allocator->TryExtend(0, 9));
  allocator->Truncate(0, 5);
  allocator->Publish(0, drafted.content(), 5);
  EXPECT_EQ(drafted.MatchedPages(*allocator), 1);
  EXPECT_EQ(allocator->stats().free_pages, 2);
}

TEST(PageAllocatorForkTest, TwinThatAForkSharesIsExchangedOnceTheForkIsGone) {
  const auto allocator = MakeAllocator(8, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));  // pages 1, 2
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));  // pages 3, 4
  allocator->Publish(0, prompt.content(), 8);
  ASSERT_TRUE(allocator->TryFork(1, 8, 0));
  allocator->Publish(1, prompt.content(), 8);
  EXPECT_THAT(allocator->table().pages(1), ElementsAre(3, 4));
  allocator->Release(2);
  allocator->Publish(1, prompt.content(), 8);
  EXPECT_THAT(allocator->table().pages(1), ElementsAre(1, 2));
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// More copies than the list has room for: refused, and all is as before.
TEST(PageAllocatorForkTest, CopyThatTheListHasNoRoomForIsRefused) {
  const auto allocator = MakeAllocator(16, 4, /*max_num_seqs=*/2);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  for (int32_t i = 0; i < 2; ++i) {
    // The child takes a copy, then its parent forks anew from it.
    ASSERT_TRUE(allocator->TryExtend(1, 7)) << i;
    allocator->Release(0);
    ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  }
  ASSERT_EQ(allocator->pending_copies().size(), 2u);
  const int32_t free_pages = allocator->stats().free_pages;
  EXPECT_FALSE(allocator->TryExtend(1, 7));
  EXPECT_EQ(allocator->stats().free_pages, free_pages);
  allocator->CompleteCopies();
  EXPECT_TRUE(allocator->TryExtend(1, 7));
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

TEST(PageAllocatorForkTest, PageThatACopyHoldsIsNotFreedByReleasingOthers) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  EXPECT_FALSE(allocator->OthersHoldPages(0));
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  ASSERT_TRUE(allocator->TryExtend(1, 7));  // page 2 is copied to 3
  EXPECT_FALSE(allocator->OthersHoldPages(1));
  allocator->CompleteCopies();
  EXPECT_TRUE(allocator->OthersHoldPages(1));
}

TEST(PageAllocatorForkTest, GivingUnwrittenSlotsBackNeedsNoCopyLater) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  // The parent's step failed: it goes on in the shared page, in place.
  ASSERT_TRUE(allocator->TryExtend(0, 9));
  allocator->GiveBack(0, 6);
  EXPECT_EQ(allocator->PagesToExtend(0, 7), 0);
  EXPECT_EQ(allocator->PagesToExtend(1, 7), 1);
  EXPECT_EQ(allocator->stats().lent_pages, 2);
}

TEST(PageAllocatorForkDeathTest, ForkAndTruncateStayWithinTheRow) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 6);
  EXPECT_DEATH(allocator->TryFork(0, 9, 0), "capacity");
  EXPECT_DEATH(allocator->Truncate(0, 9), "capacity");
  EXPECT_DEATH(allocator->Truncate(0, -1), "length >= 0");
}

TEST(PageAllocatorForkDeathTest, NothingIsPublishedBeforeItsCopyIsDone) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  TryAdmitTokens(*allocator, 6);
  ASSERT_TRUE(allocator->TryFork(0, 6, 0));
  ASSERT_TRUE(allocator->TryExtend(1, 8));
  EXPECT_DEATH(allocator->Publish(1, prompt.content(), 8), "copy.target");
}

TEST(PageAllocatorForkDeathTest, OnlyRowsInUseAreForkedExtendedOrTruncated) {
  const auto allocator = MakeAllocator(4, 4);
  TryAdmitTokens(*allocator, 4);
  for (const int32_t row : {1, -1}) {
    EXPECT_DEATH(allocator->TryFork(row, 0, 0), "num_rows");
    EXPECT_DEATH(allocator->TryExtend(row, 0), "num_rows");
    EXPECT_DEATH(allocator->Truncate(row, 0), "num_rows");
    EXPECT_DEATH(allocator->GiveBack(row, 0), "num_rows");
    EXPECT_DEATH(allocator->Publish(row, {}, 0), "num_rows");
    EXPECT_DEATH(allocator->Release(row), "num_rows");
    EXPECT_DEATH(allocator->SwapRows(row, 0), "num_rows");
    EXPECT_DEATH(allocator->SwapRows(0, row), "num_rows");
  }
  EXPECT_DEATH(allocator->TryFork(0, -1, 0), "num_tokens >= 0");
}

}  // namespace
}  // namespace tidewheel
