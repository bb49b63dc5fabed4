// Two requests with one long prompt in one step: neither reads what the other
// writes, and the pages are shared from the next step on.

#include "tests/sim/same_step_hazard.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "attention/reference_attention.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "tests/sim/tiny_transformer.h"
#include "tests/sim/tiny_transformer_runner.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

constexpr int32_t kPromptTokens = 30;

std::vector<int32_t> Prompt() {
  std::vector<int32_t> prompt(kPromptTokens);
  std::iota(prompt.begin(), prompt.end(), 5);
  return prompt;
}

class SameStepHazardTest : public testing::TestWithParam<int32_t> {
 protected:
  static constexpr int32_t kTotalNumPages = 256;

  int32_t page_size() const { return GetParam(); }
  // Full pages of the prompt that leave a token to compute.
  int32_t cached_tokens() const {
    return (kPromptTokens - 1) / page_size() * page_size();
  }

  void Create(int32_t max_num_batched_tokens) {
    PageAllocator::Options pages;
    pages.total_num_pages = kTotalNumPages;
    pages.page_size = page_size();
    pages.max_num_seqs = 4;
    pages.pages_per_seq = (64 + page_size() - 1) / page_size();
    SchedulerOptions options;
    options.max_num_seqs = 4;
    options.max_model_len = 64;
    options.max_num_batched_tokens = max_num_batched_tokens;
    scheduler_ = *Scheduler::Create(options, *PageAllocator::Create(pages));
  }

  RequestId Submit() {
    const std::vector<int32_t> prompt = Prompt();
    Request request;
    request.prompt = prompt;
    request.max_new_tokens = 6;
    return *scheduler_->Submit(request, 0);
  }

  const StepPlan& Plan() {
    const StepPlan* plan = scheduler_->Plan(0).step;
    EXPECT_NE(plan, nullptr);
    EXPECT_THAT(CheckNoRowReadsWhatAnotherWrites(plan->batch), IsOk());
    return *plan;
  }

  void RunAndCommit(const StepPlan& plan) {
    std::vector<int32_t> sampled(plan.requests.size(), kNoToken);
    ASSERT_THAT(runner_.Run(plan, sampled), IsOk());
    ASSERT_THAT(scheduler_->Commit(plan.step_id, sampled), IsOk());
  }

  // Runs until all have ended; every answer is the plain one.
  void Finish(int32_t num_requests, int32_t num_cached) {
    int32_t ended = 0;
    int32_t found = 0;
    while (scheduler_->has_unfinished()) {
      RunAndCommit(Plan());
      for (const FinishedRequest& finished : scheduler_->TakeFinished()) {
        ++ended;
        if (finished.cached_tokens == cached_tokens()) ++found;
        const auto tokens = scheduler_->Tokens(finished.id);
        const std::vector<int32_t> next = model_.GreedyNext(tokens);
        ASSERT_EQ(tokens.size(), kPromptTokens + 6);
        for (size_t i = kPromptTokens; i < tokens.size(); ++i) {
          EXPECT_EQ(tokens[i], next[i - 1]);
        }
      }
    }
    EXPECT_EQ(ended, num_requests);
    EXPECT_EQ(found, num_cached);
  }

  TinyTransformer model_{11, ScalarType::kFloat32};
  ReferenceAttention backend_;
  TinyTransformerRunner runner_{&model_,
                                &backend_,
                                {kTotalNumPages, GetParam(),
                                 TinyTransformerRunner::KvWrites::kByBackend}};
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_P(SameStepHazardTest, EqualPromptsOfOneStepAreEachComputed) {
  Create(2 * kPromptTokens);
  Submit();
  Submit();
  const StepPlan& plan = Plan();
  ASSERT_EQ(plan.batch.num_seqs, 2);
  EXPECT_EQ(plan.batch.q_len(0), kPromptTokens);
  EXPECT_EQ(plan.batch.q_len(1), kPromptTokens);
  RunAndCommit(plan);
  Finish(2, 0);
}

TEST_P(SameStepHazardTest, EqualPromptFindsThePagesOnceTheirStepIsCommitted) {
  Create(kPromptTokens);
  Submit();
  Submit();
  const StepPlan& first = Plan();
  ASSERT_EQ(first.batch.num_seqs, 1);
  RunAndCommit(first);
  // A decode of the first request, and what is left of the second's prompt.
  const StepPlan& second = Plan();
  ASSERT_EQ(second.batch.num_seqs, 2);
  EXPECT_EQ(second.batch.total_q_tokens(), 1 + kPromptTokens - cached_tokens());
  RunAndCommit(second);
  Finish(2, 1);
}

// While the first prompt is written in chunks, the second may take the chunks
// that are committed, and computes the rest of it anew.
TEST_P(SameStepHazardTest,
       EqualPromptThatComesBetweenChunksSharesNoneInFlight) {
  Create(20);
  const RequestId first = Submit();
  RunAndCommit(Plan());
  Submit();
  const StepPlan& plan = Plan();
  ASSERT_EQ(plan.batch.num_seqs, 2);
  const int32_t committed = 20 / page_size() * page_size();
  for (int32_t row = 0; row < 2; ++row) {
    const int32_t begin = plan.batch.kv_lens[row] - plan.batch.q_len(row);
    EXPECT_EQ(begin, plan.requests[row] == first ? 20 : committed);
  }
  RunAndCommit(plan);
  // Where what is left of the prompt fills no page, that was all to be found.
  Finish(2, cached_tokens() == committed ? 1 : 0);
}

TEST_P(SameStepHazardTest, FailedStepLeavesNothingToFind) {
  Create(kPromptTokens);
  Submit();
  Submit();
  const StepPlan& plan = Plan();
  EXPECT_THAT(runner_.RunAndFail(plan, 2 * kPromptTokens),
              StatusIs(absl::StatusCode::kUnavailable, "the device was lost"));
  ASSERT_THAT(scheduler_->Fail(plan.step_id), IsOk());
  const StepPlan& again = Plan();
  EXPECT_EQ(again.batch.num_seqs, 1);
  EXPECT_EQ(again.batch.q_len(0), kPromptTokens);
  RunAndCommit(again);
  Finish(2, 1);
}

// The canary: plans as if a prefix were published in the step that writes it.
class PublishedTooEarlyTest : public SameStepHazardTest {
 protected:
  void SetUp() override {
    Create(2 * kPromptTokens);
    Submit();
    Submit();
    plan_ = Plan();
    ASSERT_EQ(plan_.batch.num_seqs, 2);
    // The second row names the first one's full pages and computes the rest.
    pages_.assign(plan_.batch.page_indices.begin(),
                  plan_.batch.page_indices.end());
    std::copy_n(pages_.begin(), cached_tokens() / page_size(),
                pages_.begin() + plan_.batch.pages_per_seq);
    plan_.batch.page_indices = pages_;
    token_ids_.assign(plan_.token_ids.begin(), plan_.token_ids.end());
    token_ids_.erase(token_ids_.begin() + kPromptTokens,
                     token_ids_.end() - rest());
    plan_.token_ids = token_ids_;
    positions_.assign(plan_.positions.begin(), plan_.positions.end());
    positions_.erase(positions_.begin() + kPromptTokens,
                     positions_.end() - rest());
    plan_.positions = positions_;
    const int32_t end = kPromptTokens + rest();
    cu_q_lens_ = {0, kPromptTokens, end, end, end};
    plan_.batch.cu_q_lens = cu_q_lens_;
  }

  // Tokens that the second row computes.
  int32_t rest() const { return kPromptTokens - cached_tokens(); }

  // The second row of plan_ as a step of its own.
  StepPlan SecondRow() {
    StepPlan row = plan_;
    row.batch.num_seqs = 1;
    row.batch.max_num_seqs = 3;
    row.batch.kv_lens = plan_.batch.kv_lens.subspan(1);
    row.batch.page_indices = plan_.batch.page_indices.subspan(
        static_cast<size_t>(plan_.batch.pages_per_seq));
    row_cu_q_lens_ = {0, rest(), rest(), rest()};
    row.batch.cu_q_lens = row_cu_q_lens_;
    row.token_ids = plan_.token_ids.subspan(kPromptTokens);
    row.positions = plan_.positions.subspan(kPromptTokens);
    row.requests = plan_.requests.subspan(1);
    row.wants_logits = plan_.wants_logits.subspan(1);
    return row;
  }

  StepPlan plan_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> cu_q_lens_;
  std::vector<int32_t> row_cu_q_lens_;
};

TEST_P(PublishedTooEarlyTest, PlanIsCaughtByTheCheckAndByTheBackend) {
  EXPECT_THAT(
      CheckNoRowReadsWhatAnotherWrites(plan_.batch),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("row 1 reads page")));
  std::vector<int32_t> sampled(2, kNoToken);
  EXPECT_THAT(runner_.Run(plan_, sampled),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page")));
}

TEST_P(PublishedTooEarlyTest, DeviceThatTakesTheSecondRowFirstReadsNaN) {
  std::vector<int32_t> sampled(1, kNoToken);
  EXPECT_THAT(runner_.Run(SecondRow(), sampled),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("NaN")));
}

// So it is the order alone that is wrong with such a plan.
TEST_P(PublishedTooEarlyTest, DeviceThatRanTheFirstRowBeforeIsRight) {
  StepPlan first = plan_;
  first.batch.num_seqs = 1;
  first.requests = plan_.requests.first(1);
  first.token_ids = plan_.token_ids.first(kPromptTokens);
  std::vector<int32_t> sampled(1, kNoToken);
  ASSERT_THAT(runner_.Run(first, sampled), IsOk());
  ASSERT_THAT(runner_.Run(SecondRow(), sampled), IsOk());
  EXPECT_EQ(sampled[0], model_.GreedyNext(Prompt()).back());
}

INSTANTIATE_TEST_SUITE_P(PageSizes, PublishedTooEarlyTest,
                         testing::Values(1, 2, 3, 4, 8, 16));

INSTANTIATE_TEST_SUITE_P(PageSizes, SameStepHazardTest,
                         testing::Values(1, 2, 3, 4, 8, 16));

}  // namespace
}  // namespace tidewheel
