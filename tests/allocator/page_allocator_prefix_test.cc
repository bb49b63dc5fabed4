// PageAllocator: what is found again, what is evicted, and what never is.

#include <algorithm>
#include <cstdint>
#include <map>
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

std::vector<PageId> Pages(const PageAllocator& allocator, int32_t row) {
  const std::span<const PageId> pages = allocator.table().pages(row);
  return {pages.begin(), pages.end()};
}

// A row that computes all of the prompt and publishes it.
int32_t AdmitAndPublish(PageAllocator& allocator, const Prompt& prompt) {
  const std::optional<int32_t> row = prompt.TryAdmit(allocator);
  TIDEWHEEL_CHECK(row.has_value());
  allocator.Publish(*row, prompt.content(), prompt.length());
  return *row;
}

TEST(PageAllocatorPrefixTest, OnlyFullPagesAreFound) {
  const auto allocator = MakeAllocator(8, 16);
  Prompt::Counting(*allocator, 0, 55).Run(*allocator);
  EXPECT_EQ(Prompt::Counting(*allocator, 0, 60).MatchedPages(*allocator), 3);
  EXPECT_EQ(allocator->stats().cached_pages, 3);
}

TEST(PageAllocatorPrefixTest, RunningRowsPagesAreFoundAndShared) {
  const auto allocator = MakeAllocator(8, 16);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 55);
  AdmitAndPublish(*allocator, prompt);
  ASSERT_TRUE(prompt.TryAdmit(*allocator));
  EXPECT_THAT(Pages(*allocator, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Pages(*allocator, 1), ElementsAre(1, 2, 3, 5));
}

// Peers' A behaviour (4.4, test_prefill): pages without reusable content are
// taken first, then tails before heads.
TEST(PageAllocatorPrefixTest, UnpublishedPagesAreReusedFirstThenTails) {
  const auto allocator = MakeAllocator(4, 16);
  Prompt::Counting(*allocator, 0, 55).Run(*allocator);  // pages 1 to 4
  ASSERT_TRUE(TryAdmitTokens(*allocator, 64));
  EXPECT_THAT(Pages(*allocator, 0), ElementsAre(4, 3, 2, 1));
}

// Peers' A behaviour (4.4, test_evict).
TEST(PageAllocatorPrefixTest, ContentReleasedFirstIsEvictedFirst) {
  const auto allocator = MakeAllocator(3, 4);
  const Prompt first = Prompt::Counting(*allocator, 0, 4);
  const Prompt second = Prompt::Counting(*allocator, 100, 4);
  const Prompt third = Prompt::Counting(*allocator, 200, 4);
  for (const Prompt* prompt : {&first, &second, &third}) {
    prompt->Run(*allocator);
  }
  // Used again, so that it is now the youngest.
  Prompt longer = first;
  longer.tokens.push_back(9);
  longer.Hash(*allocator);
  ASSERT_EQ(longer.MatchedPages(*allocator), 1);
  longer.Run(*allocator);  // takes the page of `second` for its last token
  const auto is_cached = [&](const Prompt& prompt) {
    Prompt asking = prompt;
    asking.tokens.push_back(9);
    asking.Hash(*allocator);
    return asking.MatchedPages(*allocator) == 1;
  };
  EXPECT_TRUE(is_cached(first));
  EXPECT_FALSE(is_cached(second));
  EXPECT_TRUE(is_cached(third));
}

// Peers' A behaviour (4.4, test_computed_blocks_not_evicted).
TEST(PageAllocatorPrefixTest, MatchedPagesAreNotTakenAsNewOnes) {
  const auto allocator = MakeAllocator(2, 16);
  Prompt::Counting(*allocator, 0, 16).Run(*allocator);
  Prompt::Counting(*allocator, 100, 16).Run(*allocator);
  // The match is the oldest page, which eviction would take first.
  const Prompt prompt = Prompt::Counting(*allocator, 0, 32);
  ASSERT_TRUE(prompt.TryAdmit(*allocator));
  EXPECT_THAT(Pages(*allocator, 0), ElementsAre(1, 2));
}

// Peers' A behaviour (4.4, test_basic_prefix_caching_disabled).
TEST(PageAllocatorPrefixTest, WithoutThePrefixCacheNothingIsFound) {
  PageAllocator::Options options;
  options.total_num_pages = 4;
  options.page_size = 4;
  options.max_num_seqs = 2;
  options.pages_per_seq = 4;
  options.enable_prefix_cache = false;
  const auto allocator = MakeAllocator(options);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 12);
  prompt.Run(*allocator);
  EXPECT_EQ(prompt.MatchedPages(*allocator), 0);
  EXPECT_EQ(allocator->stats().free_pages, 3);
  EXPECT_EQ(TryAdmitTokens(*allocator, 13), std::nullopt);
  EXPECT_THAT(allocator->PinPrefix(prompt.content()),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
}

// Peers' A behaviour (4.4, test_prefill_plp): a row that must not read the
// cache may still fill it; here it takes over the pages that are there.
TEST(PageAllocatorPrefixTest, RowThatSkippedTheCacheSharesItOncePublished) {
  const auto allocator = MakeAllocator(8, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));
  EXPECT_THAT(Pages(*allocator, 0), ElementsAre(3, 4));
  allocator->Publish(0, prompt.content(), 8);
  EXPECT_THAT(Pages(*allocator, 0), ElementsAre(1, 2));
  EXPECT_EQ(allocator->stats().free_pages, 6);
}

// C1: prompts that differ by a power of two in one token share nothing there.
TEST(PageAllocatorPrefixTest, TokensThatAgreeInTheirLowBitsAreDifferent) {
  const auto allocator = MakeAllocator(16, 2);
  Prompt(*allocator, {65, 23, 7}).Run(*allocator);
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{65 + 256, 23, 7},
        {65 + 65'536, 23, 7},
        {0x7fffffff, 23, 7},
        {65, 23 + 256, 7},
        {6, 523, 7}}) {
    EXPECT_EQ(Prompt(*allocator, tokens).MatchedPages(*allocator), 0)
        << tokens[0];
  }
  EXPECT_EQ(Prompt(*allocator, {65, 23, 8}).MatchedPages(*allocator), 1);
}

// C2: with one hash for everything, tokens and parent decide.
TEST(PageAllocatorPrefixTest, EqualHashesAreToldApartByTokensAndParent) {
  PageAllocator::Options options;
  options.total_num_pages = 16;
  options.page_size = 2;
  options.max_num_seqs = 4;
  options.pages_per_seq = 4;
  options.hash_mask = 0;
  const auto allocator = MakeAllocator(options);
  Prompt(*allocator, {1, 2, 3, 4, 0}).Run(*allocator);
  EXPECT_EQ(Prompt(*allocator, {1, 2, 3, 4, 0}).MatchedPages(*allocator), 2);
  EXPECT_EQ(Prompt(*allocator, {1, 2, 3, 5, 0}).MatchedPages(*allocator), 1);
  EXPECT_EQ(Prompt(*allocator, {3, 4, 0}).MatchedPages(*allocator), 0);
  EXPECT_EQ(Prompt(*allocator, {9, 9, 3, 4, 0}).MatchedPages(*allocator), 0);
}

// C3, and peers' multimodal behaviour: what is not a token counts as well.
TEST(PageAllocatorPrefixTest, IsolationKeysShareNothing) {
  const auto allocator = MakeAllocator(64, 2);
  const std::vector<IsolationKey::Content> cat = {{"cat", 1}};
  const std::vector<IsolationKey::Content> dog = {{"dog", 1}};
  const std::vector<IsolationKey> keys = {
      {{}, {}, {}},   {"X", {}, {}},  {{}, "X", {}}, {"", {}, {}}, {{}, "", {}},
      {"a", "b", {}}, {"b", "a", {}}, {{}, {}, cat}, {{}, {}, dog}};
  for (const IsolationKey& key : keys) {
    const std::optional<int32_t> slot = allocator->TryAcquireIsolation(key);
    ASSERT_TRUE(slot.has_value());
    const Prompt prompt(*allocator, {1, 2, 3}, *slot);
    EXPECT_EQ(prompt.MatchedPages(*allocator), 0) << key.Encode();
    prompt.Run(*allocator);
    EXPECT_EQ(prompt.MatchedPages(*allocator), 1) << key.Encode();
    allocator->ReleaseIsolation(*slot);
  }
}

// C3: even if all hashes collide.
TEST(PageAllocatorPrefixTest, IsolationDoesNotRestOnHashes) {
  PageAllocator::Options options;
  options.total_num_pages = 16;
  options.page_size = 2;
  options.max_num_seqs = 4;
  options.pages_per_seq = 4;
  options.hash_mask = 0;
  const auto allocator = MakeAllocator(options);
  IsolationKey key;
  key.salt = "a";
  const int32_t slot = *allocator->TryAcquireIsolation(key);
  Prompt(*allocator, {1, 2, 3}, slot).Run(*allocator);
  EXPECT_EQ(Prompt(*allocator, {1, 2, 3}).MatchedPages(*allocator), 0);
}

// C7: a page that was given new content is not found under the old one.
TEST(PageAllocatorPrefixTest, ReusedPageIsNotFoundUnderItsOldContent) {
  const auto allocator = MakeAllocator(2, 4);
  const Prompt a = Prompt::Counting(*allocator, 0, 8);
  const Prompt b = Prompt::Counting(*allocator, 100, 8);
  a.Run(*allocator);
  ASSERT_EQ(a.MatchedPages(*allocator), 1);
  const int32_t row = AdmitAndPublish(*allocator, b);
  EXPECT_EQ(a.MatchedPages(*allocator), 0);
  allocator->Release(row);
  EXPECT_EQ(a.MatchedPages(*allocator), 0);
  EXPECT_EQ(b.MatchedPages(*allocator), 1);
}

// C8: six pages are needed; two are matched, but these are two of the five
// that are available.
TEST(PageAllocatorPrefixTest, MatchedPagesThatNobodyHoldsCountAsTaken) {
  const auto allocator = MakeAllocator(5, 4);
  Prompt::Counting(*allocator, 0, 8).Run(*allocator);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 24);
  ASSERT_EQ(prompt.MatchedPages(*allocator), 2);
  EXPECT_EQ(prompt.TryAdmit(*allocator), std::nullopt);
  EXPECT_EQ(allocator->stats().free_pages, 3);
  EXPECT_EQ(allocator->stats().cached_pages, 2);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// C8 in the other direction: matched pages that a row holds cost nothing.
TEST(PageAllocatorPrefixTest, MatchedPagesThatARowHoldsCostNothing) {
  const auto allocator = MakeAllocator(6, 4);
  AdmitAndPublish(*allocator, Prompt::Counting(*allocator, 0, 8));
  ASSERT_EQ(allocator->num_unpromised(), 4);
  EXPECT_TRUE(Prompt::Counting(*allocator, 0, 24).TryAdmit(*allocator));
  EXPECT_EQ(allocator->num_unpromised(), 0);
}

// C8: what fails leaves the matched pages where they were in order of eviction.
TEST(PageAllocatorPrefixTest, FailedAdmissionDoesNotTouchTheOrderOfEviction) {
  const auto allocator = MakeAllocator(3, 4);
  Prompt::Counting(*allocator, 0, 4).Run(*allocator);
  Prompt::Counting(*allocator, 100, 4).Run(*allocator);
  EXPECT_EQ(Prompt::Counting(*allocator, 0, 16).TryAdmit(*allocator),
            std::nullopt);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));  // page 3, then the oldest
  EXPECT_EQ(Prompt::Counting(*allocator, 0, 5).MatchedPages(*allocator), 0);
  EXPECT_EQ(Prompt::Counting(*allocator, 100, 5).MatchedPages(*allocator), 1);
}

// C9: a prompt that is cached whole still computes at least one token.
TEST(PageAllocatorPrefixTest, FullHitLeavesAtLeastOneTokenToCompute) {
  for (const auto& [length, hit] :
       {std::pair{16, 0}, {17, 16}, {48, 32}, {49, 48}}) {
    const auto allocator = MakeAllocator(8, 16);
    const Prompt prompt = Prompt::Counting(*allocator, 0, length);
    std::vector<PageId> first_pages;
    for (int32_t round = 0; round < 3; ++round) {
      EXPECT_EQ(prompt.MatchedPages(*allocator) * 16, round == 0 ? 0 : hit)
          << length << " tokens, round " << round;
      const int32_t row = AdmitAndPublish(*allocator, prompt);
      std::vector<PageId> pages = Pages(*allocator, row);
      pages.resize(static_cast<size_t>(length / 16));
      // The last full page, computed again, is exchanged for the cached one:
      // the chain of the first run is the chain for ever.
      if (round == 0) first_pages = pages;
      EXPECT_EQ(pages, first_pages);
      allocator->Release(row);
    }
  }
}

// C12-like: pages that hold nothing reusable never flush a cached prompt.
TEST(PageAllocatorPrefixTest, UnpublishedPagesDoNotFlushCachedOnes) {
  const auto allocator = MakeAllocator(12, 16);
  const Prompt a = Prompt::Counting(*allocator, 0, 65);
  a.Run(*allocator);
  ASSERT_EQ(a.MatchedPages(*allocator), 4);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 16));
  for (int32_t slide = 0; slide < 20; ++slide) {
    ASSERT_TRUE(allocator->TryExtend(0, 7 * 16));
    allocator->Truncate(0, 16);
  }
  EXPECT_EQ(a.MatchedPages(*allocator), 4);
  EXPECT_EQ(allocator->stats().pages_evicted, 0);
}

// C14: two rows compute one prompt; no page is lent twice afterwards.
TEST(PageAllocatorPrefixTest, TwinsAreFreedOnce) {
  const auto allocator = MakeAllocator(8, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 13);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 13));
  ASSERT_TRUE(TryAdmitTokens(*allocator, 13));
  allocator->Publish(0, prompt.content(), 13);
  allocator->Publish(1, prompt.content(), 13);
  allocator->Release(1);
  allocator->Release(0);
  EXPECT_EQ(allocator->stats().lent_pages, 0);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 32));
  const std::vector<PageId> pages = Pages(*allocator, 0);
  EXPECT_EQ(std::set<PageId>(pages.begin(), pages.end()).size(), 8u);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// C15: eviction and reset take the cache's claim, not the row's.
TEST(PageAllocatorPrefixTest, CachedPageInUseOutlivesTheCache) {
  const auto allocator = MakeAllocator(6, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 9);
  prompt.Run(*allocator);
  ASSERT_TRUE(prompt.TryAdmit(*allocator));
  const std::vector<PageId> held = Pages(*allocator, 0);
  ASSERT_THAT(allocator->ResetPrefixCache(PageAllocator::ResetMode::kForce),
              IsOk());
  EXPECT_EQ(allocator->stats().free_pages, 3);
  EXPECT_EQ(allocator->stats().lent_pages, 3);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 12));
  for (const PageId page : Pages(*allocator, 1)) {
    EXPECT_EQ(std::count(held.begin(), held.end(), page), 0);
  }
  allocator->Release(0);
  EXPECT_EQ(allocator->stats().free_pages, 3);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// C15, where the row computed its pages itself while others were cached.
TEST(PageAllocatorPrefixTest, RecomputedPageIsFreedOnceAndTheCachedOneStays) {
  const auto allocator = MakeAllocator(6, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 9);
  prompt.Run(*allocator);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 9));
  allocator->Release(0);
  EXPECT_EQ(allocator->stats().free_pages, 4);
  EXPECT_EQ(prompt.MatchedPages(*allocator), 2);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

// C17: chunks are published once committed, and an aborted chunk never is.
// Pages are stamped with what was computed into them.
TEST(PageAllocatorPrefixTest, AbortedChunkIsNeverFound) {
  const auto allocator = MakeAllocator(8, 16);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 128);
  std::map<PageId, int32_t> stamp;  // the first token computed into the page
  PageAllocator::AdmitOptions options;
  options.num_tokens = 32;
  ASSERT_TRUE(allocator->TryAdmit(options));
  stamp[Pages(*allocator, 0)[0]] = 0;
  stamp[Pages(*allocator, 0)[1]] = 16;
  allocator->Publish(0, prompt.content(), 32);
  // The second chunk has its pages, and is aborted before it is committed.
  ASSERT_TRUE(allocator->TryExtend(0, 64));
  allocator->Release(0);
  EXPECT_EQ(prompt.MatchedPages(*allocator), 2);
  // Others take six of the eight pages: the committed chunk survives intact.
  ASSERT_TRUE(TryAdmitTokens(*allocator, 96));
  for (const PageId page : Pages(*allocator, 0)) stamp[page] = -1;
  ASSERT_EQ(prompt.MatchedPages(*allocator), 2);
  const Prompt again = Prompt::Counting(*allocator, 0, 33);
  allocator->Release(0);
  ASSERT_TRUE(again.TryAdmit(*allocator));
  EXPECT_EQ(stamp[Pages(*allocator, 0)[0]], 0);
  EXPECT_EQ(stamp[Pages(*allocator, 0)[1]], 16);
  allocator->Release(0);
  // And once others have taken all pages, nothing is found.
  ASSERT_TRUE(TryAdmitTokens(*allocator, 128));
  EXPECT_EQ(prompt.MatchedPages(*allocator), 0);
}

TEST(PageAllocatorPrefixTest, EvictedPrefixIsFoundUpToWhatIsLeft) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 16);
  prompt.Run(*allocator);
  for (int32_t taken = 1; taken <= 4; ++taken) {
    ASSERT_TRUE(TryAdmitTokens(*allocator, 4));
    EXPECT_EQ(prompt.MatchedPages(*allocator), std::min(3, 4 - taken));
    EXPECT_THAT(allocator->CheckInvariants(), IsOk());
  }
}

TEST(PageAllocatorPrefixTest, HintSavesNothingButTimeAndLosesNothing) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 13);
  const PageAllocator::PrefixMatch nothing =
      allocator->Match(prompt.content(), {});
  EXPECT_EQ(nothing.num_pages, 0);
  Prompt::Counting(*allocator, 0, 8).Run(*allocator);
  const PageAllocator::PrefixMatch two =
      allocator->Match(prompt.content(), nothing);
  EXPECT_EQ(two.num_pages, 2);
  prompt.Run(*allocator);
  const PageAllocator::PrefixMatch three =
      allocator->Match(prompt.content(), two);
  EXPECT_EQ(three.num_pages, 3);
  // The third and the second are evicted: a hint that is gone is dropped.
  ASSERT_TRUE(TryAdmitTokens(*allocator, 12));
  EXPECT_EQ(allocator->Match(prompt.content(), three).num_pages, 1);
}

// Peers' A behaviour (4.5): hashing page by page equals hashing at once.
TEST(PageAllocatorPrefixTest, HashesCanBeExtendedPageByPage) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 18);
  ASSERT_EQ(prompt.hashes.size(), 4u);
  std::vector<uint64_t> hashes(4, 0);
  for (int32_t page = 0; page < 4; ++page) {
    allocator->HashPages(prompt.tokens, IsolationRoots::kShared, page, page + 1,
                         hashes);
  }
  EXPECT_EQ(hashes, prompt.hashes);
}

TEST(PageAllocatorPrefixDeathTest, PublishedTokensMustHaveSlotsAndHashes) {
  const auto allocator = MakeAllocator(4, 4);
  Prompt prompt = Prompt::Counting(*allocator, 0, 12);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));
  EXPECT_DEATH(allocator->Publish(0, prompt.content(), 9), "capacity");
  prompt.hashes.resize(1);
  EXPECT_DEATH(allocator->Publish(0, prompt.content(), 8), "hashes");
  prompt.tokens.resize(7);
  EXPECT_DEATH(allocator->Publish(0, prompt.content(), 8), "tokens");
}

}  // namespace
}  // namespace tidewheel
