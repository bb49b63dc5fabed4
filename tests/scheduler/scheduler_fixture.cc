#include "tests/scheduler/scheduler_fixture.h"

#include <utility>

#include "allocator/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {

std::unique_ptr<PageAllocator> MakePages(const WorldOptions& options) {
  PageAllocator::Options pages;
  pages.total_num_pages = options.num_pages + 1;
  pages.page_size = options.page_size;
  pages.max_num_seqs = options.scheduler.max_num_seqs;
  pages.pages_per_seq =
      (options.scheduler.max_model_len + options.page_size - 1) /
      options.page_size;
  pages.enable_prefix_cache = options.prefix_cache;
  pages.max_isolation_keys = options.max_isolation_keys;
  pages.hash_seed = options.hash_seed;
  absl::StatusOr<std::unique_ptr<PageAllocator>> allocator =
      PageAllocator::Create(pages);
  TIDEWHEEL_CHECK(allocator.ok());
  return *std::move(allocator);
}

SchedulerWorld::SchedulerWorld(const WorldOptions& options) {
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(options.scheduler, MakePages(options));
  EXPECT_THAT(scheduler, IsOk());
  TIDEWHEEL_CHECK(scheduler.ok());
  scheduler_ = *std::move(scheduler);
}

absl::StatusOr<RequestId> SchedulerWorld::TrySubmit(
    const TestRequest& request) {
  constexpr int32_t kTokensOfAContent = 10'000;
  const int32_t content = request.content.value_or(1000 + submitted_++);
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < request.prompt; ++i) {
    prompt.push_back(content * kTokensOfAContent + i);
  }
  Request submission;
  submission.prompt = prompt;
  submission.max_new_tokens = request.max_new;
  submission.min_new_tokens = request.min_new;
  submission.end_token = request.end_token;
  submission.stop_tokens = request.stop_tokens;
  submission.priority = request.priority;
  submission.isolation.salt = request.salt;
  absl::StatusOr<RequestId> id = scheduler_->Submit(submission, now_us);
  if (id.ok()) requests_[id->value] = request;
  Check();
  return id;
}

RequestId SchedulerWorld::Submit(const TestRequest& request) {
  const absl::StatusOr<RequestId> id = TrySubmit(request);
  EXPECT_THAT(id, IsOk());
  return id.value_or(RequestId{});
}

void SchedulerWorld::Cancel(RequestId id) {
  EXPECT_THAT(scheduler_->Cancel(id), IsOk());
  Check();
  Collect();
}

RequestId SchedulerWorld::Fork(RequestId id) {
  const absl::StatusOr<RequestId> fork = scheduler_->Fork(id, now_us);
  EXPECT_THAT(fork, IsOk());
  if (fork.ok()) requests_[fork->value] = requests_.at(id.value);
  Check();
  return fork.value_or(RequestId{});
}

const StepPlan* SchedulerWorld::Plan() {
  plan_ = scheduler_->Plan(now_us).step;
  Check();
  if (plan_ == nullptr) Collect();
  return plan_;
}

std::vector<int32_t> SchedulerWorld::Sample(const StepPlan& plan) const {
  std::vector<int32_t> sampled(static_cast<size_t>(plan.batch.num_seqs), 7);
  for (size_t row = 0; row < sampled.size(); ++row) {
    if (plan.wants_logits[row] == 0) continue;
    const TestRequest& request = requests_.at(plan.requests[row].value);
    const int32_t index = plan.batch.kv_lens[row] - request.prompt;
    sampled[row] = static_cast<size_t>(index) < request.script.size()
                       ? request.script[static_cast<size_t>(index)]
                       : kFirstAnswer + index;
  }
  return sampled;
}

void SchedulerWorld::CommitTokens(const std::vector<int32_t>& sampled) {
  CommitTokens(*plan_, sampled);
}

void SchedulerWorld::CommitTokens(const StepPlan& plan,
                                  const std::vector<int32_t>& sampled) {
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    computed_[plan.requests[row].value] += plan.batch.q_len(row);
  }
  if (plan_ == &plan) plan_ = nullptr;
  EXPECT_THAT(scheduler_->Commit(plan.step_id, sampled), IsOk());
  Check();
  Collect();
}

void SchedulerWorld::CommitWithout(RequestId id) {
  std::vector<int32_t> sampled = Sample();
  sampled[static_cast<size_t>(row(id))] = -1;
  CommitTokens(sampled);
}

void SchedulerWorld::Fail() { Fail(*plan_); }

void SchedulerWorld::Fail(const StepPlan& plan) {
  plan_ = nullptr;
  EXPECT_THAT(scheduler_->Fail(plan.step_id), IsOk());
  Check();
  Collect();
}

bool SchedulerWorld::Step() {
  if (Plan() == nullptr) return false;
  Commit();
  return true;
}

int32_t SchedulerWorld::RunAll(int32_t max_steps) {
  for (int32_t steps = 0; steps < max_steps; ++steps) {
    if (!scheduler_->has_unfinished()) return steps;
    if (!Step() && scheduler_->has_unfinished()) {
      ADD_FAILURE() << "nothing runs after " << steps << " steps";
      return steps;
    }
  }
  ADD_FAILURE() << "not all requests ended within " << max_steps << " steps";
  return max_steps;
}

int32_t SchedulerWorld::row(RequestId id) const {
  if (plan_ == nullptr) return -1;
  for (int32_t row = 0; row < plan_->batch.num_seqs; ++row) {
    if (plan_->requests[row] == id) return row;
  }
  return -1;
}

int32_t SchedulerWorld::q_len(RequestId id) const {
  const int32_t at = row(id);
  return at < 0 ? 0 : plan_->batch.q_len(at);
}

void SchedulerWorld::ExpectIdle() {
  EXPECT_EQ(scheduler_->num_running(), 0);
  EXPECT_EQ(scheduler_->num_waiting(), 0);
  EXPECT_EQ(pages().lent_pages, 0);
  EXPECT_EQ(pages().promised_pages, 0);
  EXPECT_EQ(pages().free_pages + pages().cached_pages, pages().total_pages);
  EXPECT_EQ(stats().accepted, stats().finished);
}

void SchedulerWorld::Check() {
  EXPECT_THAT(scheduler_->CheckInvariants(), IsOk());
}

void SchedulerWorld::Collect() {
  for (const FinishedRequest& finished : scheduler_->TakeFinished()) {
    EXPECT_TRUE(finished_.emplace(finished.id.value, finished).second)
        << "request " << finished.id.value << " was reported twice";
    const std::span<const int32_t> tokens = scheduler_->Tokens(finished.id);
    EXPECT_EQ(tokens.size(),
              static_cast<size_t>(finished.prompt_tokens) +
                  static_cast<size_t>(finished.generated_tokens));
    answers_[finished.id.value] = std::vector<int32_t>(
        tokens.begin() + finished.prompt_tokens, tokens.end());
    order_.push_back(finished.id);
  }
}

}  // namespace tidewheel
