// StepPipeline, against a device that runs on a thread of its own.

#include "scheduler/step_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::HasSubstr;

// Runs launches in order. The token after a token t at position p is a function
// of both, so one that is filled in wrongly shows in all that follow.
class ThreadedDevice final : public PipelinedRunner {
 public:
  ThreadedDevice() : thread_([this] { Work(); }) {}
  ~ThreadedDevice() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  static int32_t Next(int32_t token, int32_t position) {
    return (token * 7 + position * 3 + 11) % 1000;
  }

  // The steps of these numbers, from 0, fail at launch or while they run.
  void FailAtLaunch(int32_t number) { fails_at_launch_.push_back(number); }
  void FailLater(int32_t number) { fails_later_.push_back(number); }

  absl::Status Launch(const StepPlan& plan) override {
    const int32_t number = num_launches_++;
    if (Contains(fails_at_launch_, number)) {
      return absl::UnavailableError("the queue is full");
    }
    Job job;
    job.step_id = plan.step_id;
    job.fails = Contains(fails_later_, number);
    for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
      const int32_t last = plan.batch.cu_q_lens[row + 1] - 1;
      job.tokens.push_back(plan.token_ids[last]);
      job.positions.push_back(plan.positions[last]);
      job.sources.push_back(plan.sampled_from.empty() ? -1
                                                      : plan.sampled_from[row]);
    }
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      most_in_flight_ = std::max(most_in_flight_, ++num_in_flight_);
    }
    changed_.notify_all();
    return absl::OkStatus();
  }

  absl::Status Await(int64_t step_id, std::span<int32_t> sampled) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.contains(step_id); });
    --num_in_flight_;
    const Result result = std::move(results_[step_id]);
    results_.erase(step_id);
    if (result.failed) return absl::UnavailableError("the device was lost");
    std::copy(result.sampled.begin(), result.sampled.end(), sampled.begin());
    return absl::OkStatus();
  }

  void Drop(int64_t step_id) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_.contains(step_id); });
    results_.erase(step_id);
    --num_in_flight_;
    ++num_dropped_;
  }

  int32_t most_in_flight() const { return most_in_flight_; }
  int32_t num_dropped() const { return num_dropped_; }

 private:
  struct Job {
    int64_t step_id = 0;
    bool fails = false;
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;
    std::vector<int32_t> sources;
  };
  struct Result {
    bool failed = false;
    std::vector<int32_t> sampled;
  };

  static bool Contains(const std::vector<int32_t>& numbers, int32_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  }

  void Work() {
    std::vector<int32_t> last;
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stops_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::vector<int32_t> sampled;
      for (size_t row = 0; row < job.tokens.size(); ++row) {
        const int32_t token = job.sources[row] >= 0
                                  ? last[static_cast<size_t>(job.sources[row])]
                                  : job.tokens[row];
        sampled.push_back(Next(token, job.positions[row]));
      }
      last = sampled;
      lock.lock();
      results_[job.step_id] = {job.fails, std::move(sampled)};
      lock.unlock();
      changed_.notify_all();
    }
  }

  std::vector<int32_t> fails_at_launch_;
  std::vector<int32_t> fails_later_;
  int32_t num_launches_ = 0;
  int32_t num_dropped_ = 0;
  int32_t num_in_flight_ = 0;
  int32_t most_in_flight_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::deque<Job> jobs_;
  std::map<int64_t, Result> results_;
  std::thread thread_;  // last: it uses all the others
};

struct Outcome {
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, FinishReason> reasons;
};

class StepPipelineTest : public testing::TestWithParam<int32_t> {
 protected:
  StepPipelineTest() {
    WorldOptions options;
    options.num_pages = 24;
    options.scheduler.max_num_seqs = 6;
    options.scheduler.max_steps_in_flight = GetParam();
    scheduler_ = *Scheduler::Create(options.scheduler, MakePages(options));
    for (int32_t i = 0; i < 20; ++i) {
      std::vector<int32_t> prompt(static_cast<size_t>(3 + 7 * i % 50), i);
      Request request;
      request.prompt = prompt;
      request.max_new_tokens = 1 + 11 * i % 40;
      prompts_[scheduler_->Submit(request, 0)->value] = {
          prompt, *request.max_new_tokens};
    }
  }

  Outcome Run() {
    StepPipeline pipeline(scheduler_.get(), &device_);
    Outcome outcome;
    for (int32_t turn = 0; turn < 10'000 && scheduler_->has_unfinished();
         ++turn) {
      pipeline.Turn(turn);
      for (const FinishedRequest& finished : scheduler_->TakeFinished()) {
        const std::span<const int32_t> tokens = scheduler_->Tokens(finished.id);
        outcome.tokens[finished.id.value] = {tokens.begin(), tokens.end()};
        outcome.reasons[finished.id.value] = finished.reason;
      }
    }
    EXPECT_FALSE(pipeline.Turn(10'001));
    last_error_ = pipeline.last_error();
    return outcome;
  }

  void ExpectAllRight(const Outcome& outcome) {
    ASSERT_EQ(outcome.tokens.size(), prompts_.size());
    for (const auto& [id, tokens] : outcome.tokens) {
      EXPECT_EQ(outcome.reasons.at(id), FinishReason::kMaxNewTokens);
      const auto& [prompt, max_new] = prompts_.at(id);
      std::vector<int32_t> expected = prompt;
      for (int32_t i = 0; i < max_new; ++i) {
        expected.push_back(ThreadedDevice::Next(
            expected.back(), static_cast<int32_t>(expected.size()) - 1));
      }
      EXPECT_EQ(tokens, expected) << "request " << id;
    }
    EXPECT_THAT(scheduler_->CheckInvariants(), IsOk());
  }

  std::unique_ptr<Scheduler> scheduler_;
  ThreadedDevice device_;
  absl::Status last_error_;
  std::map<uint64_t, std::pair<std::vector<int32_t>, int32_t>> prompts_;
};

TEST_P(StepPipelineTest, EveryRequestGetsItsTokensInOrder) {
  ExpectAllRight(Run());
  EXPECT_EQ(device_.most_in_flight(), GetParam());
  EXPECT_THAT(last_error_, IsOk());
}

TEST_P(StepPipelineTest, FailedLaunchesAndStepsCostTimeOnly) {
  for (const int32_t step : {0, 9, 10, 40}) device_.FailAtLaunch(step);
  for (const int32_t step : {5, 20, 33, 34, 60}) device_.FailLater(step);
  ExpectAllRight(Run());
  EXPECT_GE(scheduler_->stats().failed_steps, 7);
  EXPECT_EQ(scheduler_->stats().dropped_steps, device_.num_dropped());
  EXPECT_EQ(device_.num_dropped() > 0, GetParam() == 2);
  EXPECT_THAT(last_error_,
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

// A device that is gone for good ends every request, one by one, and no more.
TEST_P(StepPipelineTest, DeadDeviceEndsEveryRequestAsFailed) {
  for (int32_t step = 3; step < 2'000; ++step) device_.FailAtLaunch(step);
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.reasons.size(), prompts_.size());
  int32_t failed = 0;
  for (const auto& [id, reason] : outcome.reasons) {
    failed += reason == FinishReason::kStepFailed ? 1 : 0;
  }
  EXPECT_GT(failed, 10);
  EXPECT_THAT(last_error_, StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("queue is full")));
  EXPECT_EQ(scheduler_->allocator().stats().lent_pages, 0);
}

TEST_P(StepPipelineTest, FlushLeavesNothingInFlight) {
  StepPipeline pipeline(scheduler_.get(), &device_);
  EXPECT_TRUE(pipeline.Turn(0));
  EXPECT_TRUE(pipeline.Turn(1));
  EXPECT_EQ(scheduler_->num_steps_in_flight(), GetParam() - 1);
  pipeline.Flush();
  EXPECT_EQ(scheduler_->num_steps_in_flight(), 0);
  const auto longest = std::max_element(
      prompts_.begin(), prompts_.end(), [](const auto& a, const auto& b) {
        return a.second.second < b.second.second;
      });
  EXPECT_THAT(scheduler_->Fork({longest->first}, 2), IsOk());
  while (scheduler_->has_unfinished()) pipeline.Turn(3);
}

INSTANTIATE_TEST_SUITE_P(StepsInFlight, StepPipelineTest,
                         testing::Values(1, 2));

}  // namespace
}  // namespace tidewheel
