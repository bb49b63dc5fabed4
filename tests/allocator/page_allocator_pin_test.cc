// PageAllocator: pins, and the reset of the prefix cache.

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/prompt.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;
using ResetMode = PageAllocator::ResetMode;

TEST(PageAllocatorPinTest, PinnedPrefixIsNotEvicted) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  const absl::StatusOr<PageAllocator::Pin> pin =
      allocator->PinPrefix(prompt.content());
  ASSERT_THAT(pin, IsOk());
  EXPECT_EQ(pin->num_tokens, 8);
  EXPECT_EQ(TryAdmitTokens(*allocator, 12), std::nullopt);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));
  EXPECT_EQ(Prompt::Counting(*allocator, 0, 9).MatchedPages(*allocator), 2);
  allocator->Unpin(pin->handle);
  EXPECT_EQ(allocator->stats().cached_pages, 2);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));
}

TEST(PageAllocatorPinTest, PinsOfOnePrefixAreCounted) {
  const auto allocator = MakeAllocator(2, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  const int32_t first = allocator->PinPrefix(prompt.content())->handle;
  const int32_t second = allocator->PinPrefix(prompt.content())->handle;
  EXPECT_NE(first, second);
  allocator->Unpin(first);
  EXPECT_EQ(allocator->stats().lent_pages, 2);
  allocator->Unpin(second);
  EXPECT_EQ(allocator->stats().lent_pages, 0);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

TEST(PageAllocatorPinTest, NothingCachedIsNotFound) {
  const auto allocator = MakeAllocator(2, 4);
  EXPECT_THAT(
      allocator->PinPrefix(Prompt::Counting(*allocator, 0, 8).content()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("8 tokens")));
}

TEST(PageAllocatorPinTest, HashesPastTheTokensAreNotLookedAt) {
  const auto allocator = MakeAllocator(4, 4);
  Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  // A caller that keeps room for hashes to come.
  prompt.hashes.resize(64, prompt.hashes.back());
  prompt.tokens.shrink_to_fit();
  const absl::StatusOr<PageAllocator::Pin> pin =
      allocator->PinPrefix(prompt.content());
  ASSERT_THAT(pin, IsOk());
  EXPECT_EQ(pin->num_tokens, 8);
}

TEST(PageAllocatorPinTest, MorePinsThanThereAreHandlesAreRefused) {
  PageAllocator::Options options;
  options.total_num_pages = 3;
  options.page_size = 4;
  options.max_num_seqs = 1;
  options.pages_per_seq = 2;
  options.max_pins = 1;
  const auto allocator = MakeAllocator(options);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  ASSERT_THAT(allocator->PinPrefix(prompt.content()), IsOk());
  EXPECT_THAT(allocator->PinPrefix(prompt.content()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("all 1 pins are held")));
}

TEST(PageAllocatorPinTest, PagesPromisedToRowsAreNotPinned) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 4, /*promised_tokens=*/12));
  EXPECT_THAT(allocator->PinPrefix(prompt.content()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("takes 2 cached pages but only 1")));
  EXPECT_TRUE(allocator->TryExtend(0, 12));
}

// Peers' A behaviour (4.4, test_reset_prefix_cache).
TEST(PageAllocatorResetTest, ResetIsRefusedWhileARowHoldsPublishedPages) {
  const auto allocator = MakeAllocator(4, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 9);
  prompt.Run(*allocator);
  ASSERT_TRUE(prompt.TryAdmit(*allocator));
  EXPECT_THAT(
      allocator->ResetPrefixCache(ResetMode::kRefuseWhileInUse),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("2 of its")));
  EXPECT_EQ(prompt.MatchedPages(*allocator), 2);
  allocator->Release(0);
  EXPECT_THAT(allocator->ResetPrefixCache(ResetMode::kRefuseWhileInUse),
              IsOk());
  EXPECT_EQ(prompt.MatchedPages(*allocator), 0);
  EXPECT_EQ(allocator->stats().free_pages, 4);
}

TEST(PageAllocatorResetTest, ResetIsNotRefusedForUnpublishedPages) {
  const auto allocator = MakeAllocator(4, 4);
  ASSERT_TRUE(TryAdmitTokens(*allocator, 8));
  EXPECT_THAT(allocator->ResetPrefixCache(ResetMode::kRefuseWhileInUse),
              IsOk());
  EXPECT_EQ(allocator->stats().lent_pages, 2);
}

TEST(PageAllocatorResetTest, RowsGoOnAfterAForcedResetAndPublishAgain) {
  const auto allocator = MakeAllocator(6, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 9);
  ASSERT_TRUE(prompt.TryAdmit(*allocator));
  allocator->Publish(0, prompt.content(), 9);
  ASSERT_THAT(allocator->ResetPrefixCache(ResetMode::kForce), IsOk());
  EXPECT_EQ(prompt.MatchedPages(*allocator), 0);
  ASSERT_TRUE(allocator->TryExtend(0, 12));
  allocator->Publish(0, prompt.content(), 9);
  EXPECT_EQ(prompt.MatchedPages(*allocator), 2);
  EXPECT_THAT(allocator->CheckInvariants(), IsOk());
}

TEST(PageAllocatorResetTest, PinStaysAHandleAfterAForcedReset) {
  const auto allocator = MakeAllocator(2, 4);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 8);
  prompt.Run(*allocator);
  const int32_t handle = allocator->PinPrefix(prompt.content())->handle;
  EXPECT_THAT(allocator->ResetPrefixCache(ResetMode::kRefuseWhileInUse),
              StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
  ASSERT_THAT(allocator->ResetPrefixCache(ResetMode::kForce), IsOk());
  EXPECT_EQ(allocator->stats().free_pages, 2);
  allocator->Unpin(handle);
  EXPECT_EQ(allocator->stats().free_pages, 2);
}

TEST(PageAllocatorResetTest, MatchMadeBeforeAResetFindsNothingAfterIt) {
  const auto allocator = MakeAllocator(4, 4);
  Prompt::Counting(*allocator, 0, 8).Run(*allocator);
  const Prompt prompt = Prompt::Counting(*allocator, 0, 9);
  const PageAllocator::PrefixMatch hint =
      allocator->Match(prompt.content(), {});
  ASSERT_EQ(hint.num_pages, 2);
  ASSERT_THAT(allocator->ResetPrefixCache(ResetMode::kForce), IsOk());
  EXPECT_EQ(allocator->Match(prompt.content(), hint).num_pages, 0);
}

TEST(PageAllocatorPinDeathTest, OnlyHeldHandlesAreUnpinned) {
  const auto allocator = MakeAllocator(2, 4);
  EXPECT_DEATH(allocator->Unpin(-1), "handle >= 0");
  EXPECT_DEATH(allocator->Unpin(64), "handle < options_.max_pins");
  EXPECT_DEATH(allocator->Unpin(0), "in_use");
}

}  // namespace
}  // namespace tidewheel
