#include "allocator/capacity_plan.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

KvCacheShape Llama8b(int32_t chips = 1) {
  return *KvCacheShape::Create({.num_layers = 32,
                                .num_kv_heads = 8,
                                .head_dim = 128,
                                .tensor_parallel = chips});
}

// Llama-3.1-8B in bf16 on one v6e.
CapacityOptions V6e() {
  return {.hbm_bytes = 34'400'000'000,
          .hbm_utilization = 0.9,
          .weight_bytes = 16'060'522'496,
          .reserve_bytes = 0,
          .page_size = 16,
          .total_num_pages = std::nullopt};
}

TEST(CapacityPlanTest, EveryIntermediateValueIsInThePlan) {
  const auto plan = PlanCapacity(Llama8b(), V6e());
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->budget_bytes, 30'960'000'000);
  EXPECT_EQ(plan->kv_budget_bytes, 14'899'477'504);
  EXPECT_EQ(plan->bytes_per_token, 131'072);
  EXPECT_EQ(plan->bytes_per_page, 2'097'152);
  EXPECT_EQ(plan->total_num_pages, 7104);
  EXPECT_EQ(plan->usable_num_pages, 7103);
  EXPECT_EQ(plan->usable_tokens, 7103 * 16);
  EXPECT_EQ(plan->kv_bytes + plan->unused_bytes, plan->kv_budget_bytes);
  EXPECT_GE(plan->unused_bytes, 0);
  EXPECT_LT(plan->unused_bytes, plan->bytes_per_page);
}

// H1: 1000 x 0.2 - 500 was a negative page count elsewhere.
TEST(CapacityPlanTest, ANegativeBudgetNamesItsNumbers) {
  CapacityOptions options = V6e();
  options.hbm_bytes = 1000;
  options.hbm_utilization = 0.2;
  options.weight_bytes = 500;
  EXPECT_THAT(
      PlanCapacity(Llama8b(), options),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("HBM 1000 B"), HasSubstr("utilisation 0.2"),
                     HasSubstr("weights 500 B"), HasSubstr("= -300 B"))));
  options.weight_bytes = 0;
  options.reserve_bytes = 201;
  EXPECT_THAT(PlanCapacity(Llama8b(), options),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("reserve 201 B"), HasSubstr("-1 B"))));
}

TEST(CapacityPlanTest, UtilisationOutsideZeroToOneIsRefused) {
  for (const double bad : {0.0, -0.5, 1.01, 90.0, std::nan(""),
                           std::numeric_limits<double>::infinity(), -0.0}) {
    CapacityOptions options = V6e();
    options.hbm_utilization = bad;
    EXPECT_THAT(PlanCapacity(Llama8b(), options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("hbm_utilization")))
        << bad;
  }
  CapacityOptions options = V6e();
  options.hbm_utilization = 1;
  const auto plan = PlanCapacity(Llama8b(), options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->budget_bytes, options.hbm_bytes);
}

// H8: a pool that can lend nothing is an error, one page is a pool.
TEST(CapacityPlanTest, TheSmallestPoolHasTheNullPageAndOneMore) {
  CapacityOptions options = V6e();
  options.hbm_utilization = 1;
  options.weight_bytes = 0;
  const int64_t page = *Llama8b().BytesPerPage(16);
  for (const int64_t bytes : {int64_t{1}, page - 1, page, 2 * page - 1}) {
    options.hbm_bytes = bytes;
    EXPECT_THAT(PlanCapacity(Llama8b(), options),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr(absl::StrCat(bytes, " B")),
                               HasSubstr("2 x 2097152 B"))));
  }
  options.hbm_bytes = 2 * page;
  const auto plan = PlanCapacity(Llama8b(), options);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->usable_num_pages, 1);
  EXPECT_EQ(plan->usable_tokens, 16);
  EXPECT_EQ(plan->unused_bytes, 0);
}

TEST(CapacityPlanTest, AnExplicitPageCountIsNeverResized) {
  for (const int64_t pages : {2, 3, 1000, 7104}) {
    CapacityOptions options = V6e();
    options.total_num_pages = pages;
    const auto plan = PlanCapacity(Llama8b(), options);
    ASSERT_THAT(plan, IsOk());
    EXPECT_EQ(plan->total_num_pages, pages);
    EXPECT_EQ(plan->usable_num_pages, pages - 1);
  }
}

TEST(CapacityPlanTest, AnExplicitPageCountThatDoesNotFitNamesTheLargest) {
  CapacityOptions options = V6e();
  for (const int64_t pages :
       {int64_t{7105}, std::numeric_limits<int64_t>::max()}) {
    options.total_num_pages = pages;
    EXPECT_THAT(
        PlanCapacity(Llama8b(), options),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 AllOf(HasSubstr(absl::StrCat("total_num_pages ", pages)),
                       HasSubstr("at most 7104"))));
  }
  for (const int64_t pages : {int64_t{1}, int64_t{0}, int64_t{-1},
                              std::numeric_limits<int64_t>::min()}) {
    options.total_num_pages = pages;
    EXPECT_THAT(
        PlanCapacity(Llama8b(), options),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("null page")));
  }
}

// H6: a pool that shrinks as utilisation grows hides a deadlock.
TEST(CapacityPlanTest, MoreUtilisationNeverGivesFewerPages) {
  int32_t previous = 0;
  for (int step = 5400; step <= 10000; ++step) {
    CapacityOptions options = V6e();
    options.hbm_utilization = step / 10000.0;
    const auto plan = PlanCapacity(Llama8b(), options);
    ASSERT_THAT(plan, IsOk());
    EXPECT_GE(plan->total_num_pages, previous) << options.hbm_utilization;
    previous = plan->total_num_pages;
  }
  EXPECT_EQ(previous, 8744);
}

// H3: the memory of a group divided by the page bytes of one chip gave TP
// times too many pages elsewhere.
TEST(CapacityPlanTest, PagesGrowAtMostWithTheChipsThatShareAHead) {
  CapacityOptions options = V6e();
  options.weight_bytes = 0;
  const int32_t one = PlanCapacity(Llama8b(1), options)->total_num_pages;
  for (const int32_t chips : {2, 4, 8}) {
    const int32_t pages =
        PlanCapacity(Llama8b(chips), options)->total_num_pages;
    EXPECT_GE(pages, one * chips);
    EXPECT_LT(pages, (one + 1) * chips);
  }
  EXPECT_EQ(PlanCapacity(Llama8b(16), options)->total_num_pages,
            PlanCapacity(Llama8b(8), options)->total_num_pages);
}

TEST(CapacityPlanTest, MorePagesThanPageIdsIsAnError) {
  const auto tiny = KvCacheShape::Create(
      {.num_layers = 1, .num_kv_heads = 1, .head_dim = 128});
  ASSERT_THAT(tiny, IsOk());
  CapacityOptions options = V6e();
  options.page_size = 1;
  options.weight_bytes = 0;
  options.hbm_utilization = 1;
  options.hbm_bytes = int64_t{1} << 50;
  EXPECT_THAT(PlanCapacity(*tiny, options),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr(absl::StrCat((int64_t{1} << 50) / 512)),
                             HasSubstr("larger page_size"))));
}

TEST(CapacityPlanTest, BytesWithoutMeaningAreRefusedByName) {
  for (const int64_t bad :
       {std::numeric_limits<int64_t>::min(), int64_t{-1},
        (int64_t{1} << 50) + 1, std::numeric_limits<int64_t>::max()}) {
    CapacityOptions options = V6e();
    options.hbm_bytes = bad;
    EXPECT_THAT(
        PlanCapacity(Llama8b(), options),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hbm_bytes")));
    options = V6e();
    options.weight_bytes = bad;
    EXPECT_THAT(PlanCapacity(Llama8b(), options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("weight_bytes")));
    options = V6e();
    options.reserve_bytes = bad;
    EXPECT_THAT(PlanCapacity(Llama8b(), options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("reserve_bytes")));
  }
  CapacityOptions options = V6e();
  options.hbm_bytes = 0;
  EXPECT_THAT(
      PlanCapacity(Llama8b(), options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hbm_bytes 0")));
  options = V6e();
  options.page_size = 0;
  EXPECT_THAT(
      PlanCapacity(Llama8b(), options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size 0")));
}

}  // namespace
}  // namespace tidewheel
