// Prompts that begin alike, what is counted of them, pins, and the reset.

#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using ResetMode = PageAllocator::ResetMode;

// The tokens that a prompt of this content has.
std::vector<int32_t> Prompt(int32_t content, int32_t length) {
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  std::iota(tokens.begin(), tokens.end(), content * 10'000);
  return tokens;
}

int32_t CachedTokens(SchedulerWorld& world, int32_t prompt) {
  const RequestId id =
      world.Submit({.prompt = prompt, .max_new = 1, .content = 1});
  world.RunAll();
  EXPECT_EQ(world.computed_tokens(id), prompt - world.result(id).cached_tokens);
  return world.result(id).cached_tokens;
}

// Case C9: at least one token is computed, and the chain stays the same.
TEST(SchedulerPrefixTest, AFullHitLeavesOnePageToCompute) {
  SchedulerWorld world;
  EXPECT_EQ(CachedTokens(world, 48), 0);
  EXPECT_EQ(CachedTokens(world, 48), 32);
  EXPECT_EQ(CachedTokens(world, 48), 32);
  EXPECT_EQ(CachedTokens(world, 16), 0);
  EXPECT_EQ(CachedTokens(world, 17), 16);
  EXPECT_EQ(CachedTokens(world, 49), 48);
}

TEST(SchedulerPrefixTest, GeneratedTokensAreFoundByWhoContinuesThem) {
  SchedulerWorld world;
  const std::vector<int32_t> whole = Prompt(1, 40);
  const RequestId first =
      world.Submit({.prompt = 16,
                    .max_new = 17,
                    .content = 1,
                    .script = {whole.begin() + 16, whole.end()}});
  world.RunAll();
  EXPECT_EQ(world.result(first).generated_tokens, 17);
  EXPECT_EQ(CachedTokens(world, 40), 32);
}

TEST(SchedulerPrefixTest, TenantsDoNotFindEachOthersPages) {
  SchedulerWorld world;
  world.Submit({.prompt = 48, .content = 1, .salt = "a"});
  world.RunAll();
  const RequestId other =
      world.Submit({.prompt = 48, .content = 1, .salt = "b"});
  const RequestId same =
      world.Submit({.prompt = 48, .content = 1, .salt = "a"});
  world.RunAll();
  EXPECT_EQ(world.result(other).cached_tokens, 0);
  EXPECT_EQ(world.result(same).cached_tokens, 32);
  EXPECT_EQ(CachedTokens(world, 48), 0);
}

// Two of one content in one step both compute; afterwards they share.
TEST(SchedulerPrefixTest, TwinsOfOneStepShareTheirPagesAfterIt) {
  SchedulerWorld world;
  world.Submit({.prompt = 33, .max_new = 9, .content = 1});
  world.Submit({.prompt = 33, .max_new = 9, .content = 1});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_EQ(world.pages().lent_pages, 6);
  world.Commit();
  EXPECT_EQ(world.pages().lent_pages, 4);
  world.RunAll();
  world.ExpectIdle();
}

// vLLM's test_prefix_cache_stats_counted_once_for_retried_then_scheduled_
// request.
TEST(SchedulerPrefixTest, ALookUpThatIsRepeatedWhileWaitingIsCountedOnce) {
  WorldOptions options;
  options.num_pages = 8;
  SchedulerWorld world(options);
  world.Submit({.prompt = 48, .max_new = 1, .content = 1});
  world.RunAll();
  world.Submit({.prompt = 80, .max_new = 10});
  world.Step();
  const RequestId waits =
      world.Submit({.prompt = 60, .max_new = 1, .content = 1});
  for (int32_t i = 0; i < 3; ++i) world.Step();
  EXPECT_EQ(world.state(waits), Explanation::State::kWaiting);
  EXPECT_EQ(world.stats().prefix_cache_queries, 48 + 80);
  world.RunAll();
  EXPECT_EQ(world.stats().prefix_cache_queries, 48 + 80 + 60);
  EXPECT_EQ(world.stats().prefix_cache_hits, world.result(waits).cached_tokens);
}

// vLLM's test_prefix_cache_stats_not_recorded_when_caching_disabled.
TEST(SchedulerPrefixTest, WithoutTheCacheNothingIsLookedUpOrFound) {
  WorldOptions options;
  options.prefix_cache = false;
  SchedulerWorld world(options);
  EXPECT_EQ(CachedTokens(world, 48), 0);
  EXPECT_EQ(CachedTokens(world, 48), 0);
  EXPECT_EQ(world.stats().prefix_cache_queries, 0);
  EXPECT_EQ(world.pages().cached_pages, 0);
}

// vLLM's test_preemption_re_records_prefix_cache_query.
TEST(SchedulerPrefixTest, AResumedRequestCountsInItsOwnBucket) {
  WorldOptions options;
  options.num_pages = 7;
  SchedulerWorld world(options);
  world.Submit({.prompt = 64, .max_new = 8});
  world.Submit({.prompt = 48, .max_new = 8});
  world.RunAll();
  EXPECT_EQ(world.stats().preemptions, 1);
  EXPECT_EQ(world.stats().prefix_cache_queries, 64 + 48);
  EXPECT_EQ(world.stats().preempted_prefix_cache_queries, 49);
  EXPECT_EQ(world.stats().recomputed_tokens +
                world.stats().preempted_prefix_cache_hits,
            48);
}

// vLLM's test_scheduler_reset_prefix_cache.
TEST(SchedulerPrefixTest, ResetIsRefusedWhilePagesAreInUseAndWorksAfter) {
  SchedulerWorld world;
  const RequestId id = world.Submit({.prompt = 48, .max_new = 2, .content = 1});
  world.Step();
  EXPECT_THAT(
      world.scheduler().ResetPrefixCache(ResetMode::kRefuseWhileInUse),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("3 of its pages")));
  world.RunAll();
  EXPECT_TRUE(world.finished(id));
  EXPECT_THAT(world.scheduler().ResetPrefixCache(ResetMode::kRefuseWhileInUse),
              IsOk());
  EXPECT_EQ(world.pages().cached_pages, 0);
  EXPECT_EQ(CachedTokens(world, 48), 0);
}

TEST(SchedulerPrefixTest, ForcedResetLeavesRunningSequencesAlone) {
  SchedulerWorld world;
  const RequestId id =
      world.Submit({.prompt = 48, .max_new = 20, .content = 1});
  world.Step();
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_THAT(world.scheduler().ResetPrefixCache(ResetMode::kForce), IsOk());
  world.Commit();
  const RequestId other =
      world.Submit({.prompt = 48, .max_new = 1, .content = 1});
  world.RunAll();
  EXPECT_EQ(world.result(other).cached_tokens, 0);
  EXPECT_EQ(world.result(id).generated_tokens, 20);
  // Full again at 64 tokens, it was published anew.
  EXPECT_EQ(CachedTokens(world, 48), 32);
}

TEST(SchedulerPrefixTest, APinnedPrefixOutlivesWhatWouldEvictIt) {
  WorldOptions options;
  options.num_pages = 8;
  SchedulerWorld world(options);
  CachedTokens(world, 48);
  const absl::StatusOr<PageAllocator::Pin> pin =
      world.scheduler().PinPrefix(Prompt(1, 48), {});
  ASSERT_THAT(pin, IsOk());
  EXPECT_EQ(pin->num_tokens, 48);
  world.Submit({.prompt = 80, .max_new = 1});
  world.RunAll();
  EXPECT_EQ(CachedTokens(world, 48), 32);
  world.scheduler().Unpin(pin->handle);
  world.ExpectIdle();
}

TEST(SchedulerPrefixTest, PinningWhatNobodyHasComputedIsNotFound) {
  SchedulerWorld world;
  EXPECT_THAT(world.scheduler().PinPrefix(Prompt(1, 48), {}),
              StatusIs(StatusCode::kNotFound, HasSubstr("48 tokens")));
}

TEST(SchedulerPrefixTest, PinsThatLeaveTooLittleAreATypedReasonNotAHang) {
  WorldOptions options;
  options.num_pages = 8;
  SchedulerWorld world(options);
  CachedTokens(world, 48);
  const absl::StatusOr<PageAllocator::Pin> pin =
      world.scheduler().PinPrefix(Prompt(1, 48), {});
  ASSERT_THAT(pin, IsOk());
  const RequestId id = world.Submit({.prompt = 100, .max_new = 1});
  const Scheduler::PlanResult result = world.scheduler().Plan(0);
  EXPECT_EQ(result.step, nullptr);
  EXPECT_EQ(result.blocked, id);
  EXPECT_EQ(result.reason, WaitReason::kPages);
  EXPECT_THAT(world.why(id), HasSubstr("7 pages and 5 of 8"));
  world.scheduler().Unpin(pin->handle);
  world.RunAll();
  EXPECT_TRUE(world.finished(id));
}

// A running sequence that pins leave no page for goes on when they are gone.
TEST(SchedulerPrefixTest, ARunningSequenceThatPinsBlockIsReportedAndGoesOn) {
  WorldOptions options;
  options.num_pages = 4;
  SchedulerWorld world(options);
  CachedTokens(world, 33);
  const absl::StatusOr<PageAllocator::Pin> pin =
      world.scheduler().PinPrefix(Prompt(1, 33), {});
  ASSERT_THAT(pin, IsOk());
  const RequestId id = world.Submit({.prompt = 32, .max_new = 9});
  ASSERT_TRUE(world.Step());
  const Scheduler::PlanResult result = world.scheduler().Plan(0);
  EXPECT_EQ(result.step, nullptr);
  EXPECT_EQ(result.blocked, id);
  EXPECT_EQ(result.reason, WaitReason::kPages);
  world.scheduler().Unpin(pin->handle);
  world.RunAll();
  EXPECT_EQ(world.result(id).generated_tokens, 9);
  EXPECT_EQ(world.result(id).preemptions, 0);
}

}  // namespace
}  // namespace tidewheel
