#include "allocator/page_pool.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using Afterlife = PagePool::Afterlife;

std::vector<PageId> AcquireAll(PagePool& pool) {
  std::vector<PageId> pages;
  while (pool.num_free() > 0) pages.push_back(pool.Acquire());
  return pages;
}

std::vector<PageId> Cached(const PagePool& pool) {
  std::vector<PageId> pages;
  for (PageId page = pool.OldestCached(); page != kNullPage;
       page = pool.NextCached(page)) {
    pages.push_back(page);
  }
  return pages;
}

TEST(PagePoolTest, AllPagesButTheNullPageAreLentOnce) {
  PagePool pool(5);
  EXPECT_EQ(AcquireAll(pool), (std::vector<PageId>{1, 2, 3, 4}));
  EXPECT_EQ(pool.num_lent(), 4);
  EXPECT_THAT(pool.CheckInvariants(), IsOk());
}

TEST(PagePoolTest, APoolOfTheNullPageAloneLendsNothing) {
  const PagePool pool(1);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.num_lent(), 0);
  EXPECT_EQ(pool.OldestCached(), kNullPage);
  EXPECT_THAT(pool.CheckInvariants(), IsOk());
}

TEST(PagePoolTest, ReleasedPageIsHandedOutAgain) {
  PagePool pool(4);
  AcquireAll(pool);
  EXPECT_TRUE(pool.DropReference(2, Afterlife::kFree));
  EXPECT_TRUE(pool.DropReference(1, Afterlife::kFree));
  EXPECT_EQ(pool.Acquire(), 1);
  EXPECT_EQ(pool.Acquire(), 2);
}

TEST(PagePoolTest, PageStaysLentUntilItsLastHolderLeaves) {
  PagePool pool(2);
  const PageId page = pool.Acquire();
  pool.AddReference(page);
  EXPECT_FALSE(pool.DropReference(page, Afterlife::kFree));
  EXPECT_EQ(pool.num_lent(), 1);
  EXPECT_TRUE(pool.DropReference(page, Afterlife::kFree));
  EXPECT_TRUE(pool.is_free(page));
  EXPECT_EQ(pool.num_lent(), 0);
}

TEST(PagePoolTest, CachedPagesAreListedInOrderOfRelease) {
  PagePool pool(5);
  AcquireAll(pool);
  for (const PageId page : {3, 1, 4}) {
    pool.DropReference(page, Afterlife::kCached);
  }
  EXPECT_EQ(Cached(pool), (std::vector<PageId>{3, 1, 4}));
  EXPECT_EQ(pool.num_cached(), 3);
  EXPECT_EQ(pool.num_free(), 0);
}

// The block-queue behaviours of peers (A, 4.5): removal from the front, the
// middle and the end of the list keeps the order of the others.
TEST(PagePoolTest, LendingACachedPageKeepsTheOrderOfTheOthers) {
  for (const PageId removed : {1, 2, 3}) {
    PagePool pool(4);
    AcquireAll(pool);
    for (const PageId page : {1, 2, 3}) {
      pool.DropReference(page, Afterlife::kCached);
    }
    pool.AddReference(removed);
    std::vector<PageId> expected = {1, 2, 3};
    expected.erase(std::find(expected.begin(), expected.end(), removed));
    EXPECT_EQ(Cached(pool), expected);
    EXPECT_EQ(pool.reference_count(removed), 1);
    EXPECT_FALSE(pool.is_cached(removed));
    pool.DropReference(removed, Afterlife::kCached);
    expected.push_back(removed);
    EXPECT_EQ(Cached(pool), expected);
    EXPECT_THAT(pool.CheckInvariants(), IsOk());
  }
}

TEST(PagePoolTest, DiscardedPageIsFree) {
  PagePool pool(3);
  AcquireAll(pool);
  pool.DropReference(1, Afterlife::kCached);
  pool.DropReference(2, Afterlife::kCached);
  pool.Discard(1);
  EXPECT_TRUE(pool.is_free(1));
  EXPECT_EQ(Cached(pool), std::vector<PageId>{2});
  EXPECT_EQ(pool.Acquire(), 1);
}

TEST(PagePoolTest, TheNullPageIsInNoState) {
  PagePool pool(3);
  EXPECT_FALSE(pool.is_free(kNullPage));
  EXPECT_FALSE(pool.is_cached(kNullPage));
  EXPECT_EQ(pool.reference_count(kNullPage), 0);
}

// J1: the counts never leave [0, total], whatever the order of calls.
TEST(PagePoolTest, CountsStayWithinTheTotalInARandomRun) {
  constexpr int32_t kPages = 9;
  PagePool pool(kPages);
  std::mt19937 random(1);
  for (int32_t i = 0; i < 100'000; ++i) {
    const PageId page = 1 + static_cast<PageId>(random() % (kPages - 1));
    if (pool.is_free(page)) {
      pool.Acquire();
    } else if (random() % 3 == 0) {
      pool.AddReference(page);
    } else if (pool.is_cached(page)) {
      pool.Discard(page);
    } else {
      pool.DropReference(
          page, random() % 2 == 0 ? Afterlife::kCached : Afterlife::kFree);
    }
    ASSERT_GE(pool.num_free(), 0);
    ASSERT_GE(pool.num_cached(), 0);
    ASSERT_GE(pool.num_lent(), 0);
    ASSERT_EQ(pool.num_free() + pool.num_cached() + pool.num_lent(),
              kPages - 1);
    if (i % 16 != 0) continue;
    ASSERT_THAT(pool.CheckInvariants(), IsOk());
  }
}

TEST(PagePoolDeathTest, ThereIsNoPoolWithoutTheNullPage) {
  EXPECT_DEATH(PagePool(0), "total_num_pages >= 1");
}

TEST(PagePoolDeathTest, AcquireNeedsAFreePage) {
  PagePool pool(2);
  pool.Acquire();
  EXPECT_DEATH(pool.Acquire(), "num_free_ > 0");
}

TEST(PagePoolDeathTest, FreePageCanNotBeReferenced) {
  PagePool pool(2);
  EXPECT_DEATH(pool.AddReference(1), "is_cached");
}

TEST(PagePoolDeathTest, TheNullPageCanNotBeReferenced) {
  PagePool pool(2);
  EXPECT_DEATH(pool.AddReference(kNullPage), "is_cached");
}

// C14, C15: a page that is free already can not be freed again.
TEST(PagePoolDeathTest, FreePageCanNotBeReleased) {
  PagePool pool(2);
  const PageId page = pool.Acquire();
  pool.DropReference(page, Afterlife::kFree);
  EXPECT_DEATH(pool.DropReference(page, Afterlife::kFree), "> 0");
}

TEST(PagePoolDeathTest, CachedPageCanNotBeReleased) {
  PagePool pool(2);
  const PageId page = pool.Acquire();
  pool.DropReference(page, Afterlife::kCached);
  EXPECT_DEATH(pool.DropReference(page, Afterlife::kFree), "> 0");
}

TEST(PagePoolDeathTest, LentPageCanNotBeDiscarded) {
  PagePool pool(2);
  const PageId page = pool.Acquire();
  EXPECT_DEATH(pool.Discard(page), "is_cached");
}

TEST(PagePoolDeathTest, LentPageHasNoNextCached) {
  PagePool pool(2);
  const PageId page = pool.Acquire();
  EXPECT_DEATH(pool.NextCached(page), "is_cached");
}

}  // namespace
}  // namespace tidewheel
