#include "tools/tune/search_space.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/tune/tune_world.h"
#include "tools/config_check.h"
#include "tools/model_config.h"

namespace tidewheel {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

ServingOptions ServingFor(int32_t max_model_len) {
  ServingOptions serving;
  serving.plan.max_model_len = max_model_len;
  return serving;
}

TEST(SearchSpaceTest, WhatScalarMemoryRefusesIsLeftOutAndCounted) {
  SearchSpace space;
  space.page_size = {16, 64};
  space.max_num_seqs = {64, 1024};
  space.max_num_batched_tokens = {2048};
  // 1024 rows x 1024 pages of 16 tokens are 4 MiB of scalar memory, of 1 MiB.
  const absl::StatusOr<CandidateList> list =
      ListCandidates(space, ServingFor(16384), TuneObjective::kHighestRate);
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->candidates.size() + 2, 4U);
  ASSERT_EQ(list->exclusions.size(), 1U);
  EXPECT_EQ(list->exclusions[0].rule, "max-num-seqs-above-table-rows");
  EXPECT_EQ(list->exclusions[0].count, 2);
  EXPECT_THAT(list->exclusions[0].example, HasSubstr("rows"));
}

TEST(SearchSpaceTest, EveryCandidateOfTheDefaultSpacePassesTheCheck) {
  const Traffic traffic = TuneTraffic();
  const ServingOptions serving = ServingFor(traffic.longest_request_tokens());
  const absl::StatusOr<SearchSpace> space =
      DefaultSpace(serving, traffic, TuneObjective::kHighestRate);
  ASSERT_THAT(space, IsOk());
  const absl::StatusOr<CandidateList> list =
      ListCandidates(*space, serving, TuneObjective::kHighestRate);
  ASSERT_THAT(list, IsOk());
  EXPECT_GE(list->candidates.size(), 200U);
  const absl::StatusOr<ModelConfig> model = LoadModelConfig(serving.model);
  ASSERT_THAT(model, IsOk());
  for (const Candidate& candidate : list->candidates) {
    EXPECT_FALSE(RefusalOfCandidate(candidate, serving, *model).has_value())
        << CandidateText(candidate);
    EXPECT_EQ(
        std::count(list->candidates.begin(), list->candidates.end(), candidate),
        1);
  }
}

TEST(SearchSpaceTest, PagesThatTheChipHasNoMemoryForAreLeftOut) {
  SearchSpace space;
  space.page_size = {16};
  space.total_num_pages = {2000, 10'000'000};
  const absl::StatusOr<CandidateList> list =
      ListCandidates(space, ServingFor(1024), TuneObjective::kHighestRate);
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->candidates.size(), 1U);
  ASSERT_EQ(list->exclusions.size(), 1U);
  EXPECT_EQ(list->exclusions[0].rule, "oom_hbm");
}

TEST(SearchSpaceTest, NothingLeftNamesEveryRule) {
  SearchSpace space;
  space.page_size = {16};
  space.total_num_pages = {10, 10'000'000};
  EXPECT_THAT(
      ListCandidates(space, ServingFor(1024), TuneObjective::kHighestRate),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(HasSubstr("each of the 2 configurations"),
                                HasSubstr("1 by oom_hbm"),
                                HasSubstr("1 by cache-smaller-than-a-"
                                          "sequence"))));
}

TEST(SearchSpaceTest, ModelsWhoseHeadsDoNotDivideAreRefusedByName) {
  SearchSpace space;
  space.chips = {1, 3};
  space.page_size = {16};
  const absl::StatusOr<CandidateList> list =
      ListCandidates(space, ServingFor(1024), TuneObjective::kFewestChips);
  ASSERT_THAT(list, IsOk());
  EXPECT_THAT(list->exclusions,
              Contains(Field(&Exclusion::rule, "heads-not-divisible")));
  for (const Candidate& candidate : list->candidates) {
    EXPECT_EQ(candidate.chips, 1);
  }
}

TEST(SearchSpaceTest, AdmissionThatReservesHasNoWatermarkToVary) {
  SearchSpace space;
  space.page_size = {16};
  space.admission = {AdmissionPolicy::kOptimistic, AdmissionPolicy::kReserve};
  space.watermark = {0.01, 0.05, 0.1};
  const absl::StatusOr<CandidateList> list =
      ListCandidates(space, ServingFor(1024), TuneObjective::kHighestRate);
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->candidates.size(), 4U);
}

TEST(SearchSpaceTest, FewestPagesKeepsTheLargestPoolOnly) {
  SearchSpace space;
  space.page_size = {16, 32};
  space.total_num_pages = {500, 1000, 2000};
  const absl::StatusOr<CandidateList> list =
      ListCandidates(space, ServingFor(1024), TuneObjective::kFewestPages);
  ASSERT_THAT(list, IsOk());
  ASSERT_EQ(list->candidates.size(), 2U);
  for (const Candidate& candidate : list->candidates) {
    EXPECT_EQ(candidate.total_num_pages, 2000);
  }
}

TEST(CandidateTest, ASetupHasExactlyTheCandidatesValues) {
  for (const int32_t watermark : {0, 1, 7, 34, 35, 1999}) {
    Candidate candidate;
    candidate.page_size = 32;
    candidate.total_num_pages = 2001;
    candidate.max_num_seqs = 24;
    candidate.max_num_batched_tokens = 512;
    candidate.watermark_pages = watermark;
    const absl::StatusOr<ServingSetup> setup =
        PrepareServing(ServingOf(candidate, ServingFor(4096)));
    ASSERT_THAT(setup, IsOk());
    EXPECT_EQ(setup->scheduler.watermark_pages, watermark);
    EXPECT_EQ(setup->allocator.total_num_pages, 2001);
    EXPECT_EQ(setup->allocator.page_size, 32);
    EXPECT_EQ(setup->scheduler.max_num_seqs, 24);
    EXPECT_EQ(setup->scheduler.max_num_batched_tokens, 512);
  }
}

TEST(CandidateTest, CheaperIsAStrictOrder) {
  const Traffic traffic = TuneTraffic();
  const absl::StatusOr<CandidateList> list = ListCandidates(
      SmallSearch(traffic).space, ServingFor(traffic.longest_request_tokens()),
      TuneObjective::kHighestRate);
  ASSERT_THAT(list, IsOk());
  for (const Candidate& a : list->candidates) {
    for (const Candidate& b : list->candidates) {
      EXPECT_EQ(IsCheaper(a, b) + IsCheaper(b, a), a == b ? 0 : 1);
    }
  }
}

}  // namespace
}  // namespace tidewheel
