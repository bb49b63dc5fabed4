// Nothing allocates in a step, and nothing grows over a long life.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/model_runner.h"
#include "tests/allocation_counter.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

WorldOptions Unvalidated(int32_t num_pages) {
  WorldOptions options;
  options.num_pages = num_pages;
  // Checking takes memory.
  options.scheduler.validate_steps = false;
  return options;
}

std::unique_ptr<Scheduler> MakeScheduler(const WorldOptions& options) {
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(options.scheduler, MakePages(options));
  EXPECT_THAT(scheduler, IsOk());
  return *std::move(scheduler);
}

// Prompts of several lengths, some of which begin alike.
std::vector<int32_t> SomePrompt(int32_t i) {
  std::vector<int32_t> prompt(static_cast<size_t>(1 + i * 37 % 90));
  for (size_t k = 0; k < prompt.size(); ++k) {
    prompt[k] = static_cast<int32_t>(k) + 1000 * (i % 7);
  }
  return prompt;
}

// Everything that can happen in a step happens: hits, preemptions, bypasses,
// failures, missing tokens, cancels in flight, time limits, ends of all kinds.
TEST(SchedulerMemoryTest, NoStepAllocates) {
  for (const AdmissionPolicy admission :
       {AdmissionPolicy::kOptimistic, AdmissionPolicy::kReserve}) {
    WorldOptions options = Unvalidated(14);
    options.scheduler.admission = admission;
    options.scheduler.max_num_seqs = 6;
    options.scheduler.max_model_len = 200;
    options.scheduler.max_num_batched_tokens = 60;
    options.scheduler.max_queue_time_us = 300;
    options.scheduler.policy = OrderingPolicy::kPriority;
    const std::unique_ptr<Scheduler> scheduler = MakeScheduler(options);
    std::vector<int32_t> sampled(6);
    for (int32_t step = 0; step < 3000; ++step) {
      const std::vector<int32_t> prompt = SomePrompt(step);
      Request request;
      request.prompt = prompt;
      request.max_new_tokens = 1 + step % 50;
      request.end_token = 3;
      request.stop_tokens =
          std::span<const int32_t>(prompt).first(step % 3 == 0 ? 1 : 0);
      request.priority = step % 4;
      const absl::StatusOr<RequestId> id = scheduler->Submit(request, step);
      if (id.ok() && step % 17 == 0) {
        ExpectNoAllocation scope("a cancel while waiting");
        EXPECT_TRUE(scheduler->Cancel(*id).ok());
      }
      ExpectNoAllocation scope("a step");
      const StepPlan* plan = scheduler->Plan(step).step;
      if (plan == nullptr) continue;
      if (step % 9 == 0) {
        EXPECT_TRUE(scheduler->Cancel(plan->requests[0]).ok());
      }
      const size_t rows = static_cast<size_t>(plan->batch.num_seqs);
      for (size_t row = 0; row < rows; ++row) {
        sampled[row] = step % 11 == 5 ? kNoToken : step % 5 + 2;
      }
      const int64_t step_id = plan->step_id;
      const absl::Status status =
          step % 13 == 6
              ? scheduler->Fail(step_id)
              : scheduler->Commit(step_id, std::span(sampled).first(rows));
      EXPECT_TRUE(status.ok());
      scheduler->TakeFinished();
    }
    const SchedulerStats& stats = scheduler->stats();
    EXPECT_GT(stats.finished, 300);
    EXPECT_GT(stats.failed_steps, 30);
    EXPECT_GT(stats.prefix_cache_hits, 0);
    EXPECT_EQ(stats.preemptions > 0, admission == AdmissionPolicy::kOptimistic);
  }
}

// Case L1: lengths that are exact multiples of a page are among them.
TEST(SchedulerMemoryTest, AfterTwoThousandRequestsNoPageIsLost) {
  SchedulerWorld world(Unvalidated(60));
  for (int32_t i = 0; i < 2000; ++i) {
    world.Submit({.prompt = 1 + i % 64, .max_new = 1 + i * 7 % 33});
    if (i % 40 == 39) {
      world.RunAll();
      world.ExpectIdle();
    }
  }
  EXPECT_EQ(world.finish_order().size(), 2000u);
}

// Case L6.
TEST(SchedulerMemoryTest, AHundredThousandRequestsOfOneTokenAllocateNothing) {
  const std::unique_ptr<Scheduler> scheduler = MakeScheduler(Unvalidated(60));
  const std::vector<int32_t> token = {7};
  std::vector<int32_t> prompt(40);
  int64_t warm = 0;
  for (int32_t i = 0; i < 100'000; ++i) {
    if (i == 1000) warm = NumAllocations();
    prompt[0] = i;
    Request request;
    request.prompt = prompt;
    request.max_new_tokens = 1;
    ASSERT_TRUE(scheduler->Submit(request, i).ok());
    const StepPlan* plan = scheduler->Plan(i).step;
    ASSERT_NE(plan, nullptr);
    ASSERT_TRUE(scheduler->Commit(plan->step_id, token).ok());
    ASSERT_EQ(scheduler->TakeFinished().size(), 1u);
  }
  EXPECT_EQ(NumAllocations() - warm, 0);
  EXPECT_THAT(scheduler->CheckInvariants(), IsOk());
  EXPECT_EQ(scheduler->stats().finished, 100'000);
}

}  // namespace
}  // namespace tidewheel
