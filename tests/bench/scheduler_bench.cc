// What a step costs on the host: plan and commit, without a device.
//
//   build/release/bench/scheduler_bench
//
// Pages of 16 tokens, prompts of 1024 + (i mod 16) tokens so that a sixteenth
// of the rows takes a page each step, one token a row and step, and a pool full
// of old cached content, so that each page that is taken evicts another. Only
// Plan and Commit are timed; p50_us and p99_us are over all timed steps, wall
// time, with about 0.05 us for reading the clock.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocator/check.h"
#include "benchmark/benchmark.h"
#include "scheduler/content_token.h"
#include "scheduler/scheduler.h"

namespace tidewheel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kPageSize = 16;
constexpr int32_t kFillerTokens = 4096;
constexpr int32_t kWarmSteps = 32;
constexpr int32_t kTimedSteps = 480;
// More than a sequence gets to generate while the last prompts are computed,
// and in the steps after that.
constexpr int32_t kNewTokens = 1700;

struct WorldSize {
  int32_t rows = 0;
  int32_t pages = 0;  // the null page included
  int32_t budget = 8192;
};

enum class Validation { kOff, kOn };

std::unique_ptr<Scheduler> MakeScheduler(const WorldSize& size,
                                         Validation validation) {
  PageAllocator::Options pages;
  pages.total_num_pages = size.pages;
  pages.page_size = kPageSize;
  pages.max_num_seqs = size.rows;
  pages.pages_per_seq = 288;
  SchedulerOptions options;
  options.max_num_seqs = size.rows;
  options.max_model_len = pages.pages_per_seq * kPageSize;
  options.max_num_batched_tokens = size.budget;
  options.validate_steps = validation == Validation::kOn;
  auto allocator = PageAllocator::Create(pages);
  TIDEWHEEL_CHECK(allocator.ok());
  auto scheduler = Scheduler::Create(options, *std::move(allocator));
  TIDEWHEEL_CHECK(scheduler.ok());
  return *std::move(scheduler);
}

class Driver {
 public:
  Driver(const WorldSize& size, Validation validation)
      : scheduler_(MakeScheduler(size, validation)),
        sampled_(static_cast<size_t>(size.rows), 7) {}

  // Each prompt is like no other.
  void Submit(int32_t prompt_tokens, int32_t new_tokens) {
    prompt_.resize(static_cast<size_t>(prompt_tokens));
    ++content_;
    for (size_t i = 0; i < prompt_.size(); ++i) {
      prompt_[i] = ContentToken(content_, i);
    }
    SubmitPrompt(new_tokens);
  }
  void SubmitPrompt(int32_t new_tokens) {
    Request request;
    request.prompt = prompt_;
    request.max_new_tokens = new_tokens;
    TIDEWHEEL_CHECK(scheduler_->Submit(request, 0).ok());
  }

  // Rows of the step.
  int32_t Step() {
    const StepPlan* plan = scheduler_->Plan(0).step;
    TIDEWHEEL_CHECK(plan != nullptr);
    const int32_t rows = plan->batch.num_seqs;
    const absl::Status status = scheduler_->Commit(
        plan->step_id, std::span(sampled_).first(static_cast<size_t>(rows)));
    TIDEWHEEL_CHECK(status.ok());
    return rows;
  }

  void RunAll() {
    while (scheduler_->has_unfinished()) Step();
    scheduler_->TakeFinished();
  }

  // Leaves every page of the pool cached.
  void FillCache() {
    const int32_t pages = scheduler_->allocator().options().total_num_pages;
    const int32_t tokens = std::min(kFillerTokens, (pages - 2) * kPageSize);
    while (scheduler_->allocator().stats().free_pages > 0) {
      for (int32_t i = 0; i < 8; ++i) Submit(tokens, 1);
      RunAll();
    }
  }

  Scheduler& scheduler() { return *scheduler_; }
  std::vector<int32_t>& prompt() { return prompt_; }

 private:
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<int32_t> sampled_;
  std::vector<int32_t> prompt_;
  uint64_t content_ = 0;
};

// Samples of one benchmark, and their percentiles as counters.
class Samples {
 public:
  void Add(Clock::duration duration, benchmark::State& state) {
    const double seconds = std::chrono::duration<double>(duration).count();
    state.SetIterationTime(seconds);
    us_.push_back(seconds * 1e6);
  }
  void Report(benchmark::State& state) {
    std::sort(us_.begin(), us_.end());
    state.counters["p50_us"] = us_[us_.size() / 2];
    state.counters["p99_us"] = us_[us_.size() * 99 / 100];
  }

 private:
  std::vector<double> us_;
};

// `rows` sequences that decode, some steps after the last prompt.
void StartDecodes(Driver& driver, int32_t rows) {
  for (int32_t i = 0; i < rows; ++i) {
    driver.Submit(1024 + i % kPageSize, kNewTokens);
  }
  while (driver.scheduler().num_waiting() > 0) driver.Step();
  for (int32_t i = 0; i < kWarmSteps; ++i) driver.Step();
}

void DecodeSteps(benchmark::State& state, Validation validation) {
  const WorldSize size = {.rows = static_cast<int32_t>(state.range(0)),
                          .pages = static_cast<int32_t>(state.range(1))};
  Driver driver(size, validation);
  driver.FillCache();
  Samples samples;
  int32_t steps_left = 0;
  for (auto _ : state) {
    if (steps_left == 0) {
      std::vector<RequestId> running;
      const StepPlan* plan = driver.scheduler().Plan(0).step;
      if (plan != nullptr) {
        for (const RequestId id : plan->requests) running.push_back(id);
        TIDEWHEEL_CHECK(driver.scheduler().Fail(plan->step_id).ok());
      }
      for (const RequestId id : running) {
        TIDEWHEEL_CHECK(driver.scheduler().Cancel(id).ok());
      }
      driver.scheduler().TakeFinished();
      StartDecodes(driver, size.rows);
      steps_left = kTimedSteps;
    }
    --steps_left;
    const Clock::time_point start = Clock::now();
    const int32_t rows = driver.Step();
    samples.Add(Clock::now() - start, state);
    TIDEWHEEL_CHECK_EQ(rows, size.rows);
  }
  TIDEWHEEL_CHECK_EQ(driver.scheduler().stats().preemptions, 0);
  samples.Report(state);
}

void BM_PlanAndCommit(benchmark::State& state) {
  DecodeSteps(state, Validation::kOff);
}
BENCHMARK(BM_PlanAndCommit)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"decodes", "pages"})
    ->Args({64, 8 << 10})
    ->Args({64, 64 << 10})
    ->Args({64, 1 << 20})
    ->Args({256, 32 << 10})
    ->Args({256, 64 << 10})
    ->Args({256, 1 << 20})
    ->Args({1024, 256 << 10})
    ->Args({4096, 1 << 20});

// What validate_steps adds: every invariant, and every batch as the kernel and
// the strict rules check it.
void BM_PlanAndCommitValidated(benchmark::State& state) {
  DecodeSteps(state, Validation::kOn);
}
BENCHMARK(BM_PlanAndCommitValidated)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"decodes", "pages"})
    ->Args({64, 8 << 10})
    ->Args({256, 64 << 10});

// Submission, eight steps of 512 tokens, and the end of a prompt of 4096 tokens
// in a pool full of old content.
void BM_AdmitPromptInEightChunks(benchmark::State& state) {
  const WorldSize size = {
      .rows = 64, .pages = static_cast<int32_t>(state.range(0)), .budget = 512};
  Driver driver(size, Validation::kOff);
  driver.FillCache();
  // Slots keep their arrays, so each has been used before it counts.
  for (int32_t i = 0; i < driver.scheduler().options().max_waiting; ++i) {
    driver.Submit(1, 1);
    if (i % 64 == 63) driver.RunAll();
  }
  driver.RunAll();
  Samples samples;
  int32_t content = 0;
  for (auto _ : state) {
    driver.prompt().resize(kFillerTokens);
    ++content;
    for (int32_t i = 0; i < kFillerTokens; ++i) {
      driver.prompt()[static_cast<size_t>(i)] =
          ContentToken(uint64_t{1} << 40, static_cast<uint64_t>(i + content));
    }
    const Clock::time_point start = Clock::now();
    driver.SubmitPrompt(1);
    int32_t steps = 0;
    for (; driver.scheduler().has_unfinished(); ++steps) driver.Step();
    driver.scheduler().TakeFinished();
    samples.Add(Clock::now() - start, state);
    TIDEWHEEL_CHECK_EQ(steps, 8);
  }
  samples.Report(state);
}
BENCHMARK(BM_AdmitPromptInEightChunks)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->ArgNames({"pages"})
    ->Args({8 << 10})
    ->Args({64 << 10});

}  // namespace
}  // namespace tidewheel
