// Options that can not work are refused by name; misuse ends the process.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/scheduler_fixture.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

absl::Status CreateStatus(const SchedulerOptions& changed,
                          const WorldOptions& world = {}) {
  return Scheduler::Create(changed, MakePages(world)).status();
}

struct BadOption {
  std::string name;
  std::function<void(SchedulerOptions&)> change;
  std::vector<std::string> text;
};

class SchedulerCreateTest : public testing::TestWithParam<BadOption> {};

// Cases A8 and D11: what would be silently inert or could never run.
TEST_P(SchedulerCreateTest, OptionThatCanNotWorkIsRefusedByName) {
  SchedulerOptions options = WorldOptions().scheduler;
  GetParam().change(options);
  const absl::Status status = CreateStatus(options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const std::string& part : GetParam().text) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, SchedulerCreateTest,
    testing::Values(
        BadOption{"NoRows",
                  [](auto& o) { o.max_num_seqs = 0; },
                  {"max_num_seqs is 0", "at least 1"}},
        BadOption{"NoLength",
                  [](auto& o) { o.max_model_len = 1; },
                  {"max_model_len is 1", "at least 2"}},
        BadOption{"BudgetBelowRows",
                  [](auto& o) { o.max_num_batched_tokens = 15; },
                  {"max_num_batched_tokens 15", "max_num_seqs 16", "raise"}},
        BadOption{"CapAboveBudget",
                  [](auto& o) { o.max_prefill_chunk = 1025; },
                  {"max_prefill_chunk 1025", "max_num_batched_tokens 1024"}},
        BadOption{"NegativeCap",
                  [](auto& o) { o.max_prefill_chunk = -1; },
                  {"max_prefill_chunk is -1"}},
        BadOption{"CapWithoutChunks",
                  [](auto& o) {
                    o.max_prefill_chunk = 64;
                    o.chunked_prefill = false;
                  },
                  {"max_prefill_chunk 64", "chunked prefill is off"}},
        BadOption{"NegativeAge",
                  [](auto& o) { o.priority_age_us = -1; },
                  {"priority_age_us is -1"}},
        BadOption{"NegativeWatermark",
                  [](auto& o) { o.watermark_pages = -1; },
                  {"watermark_pages is -1"}},
        BadOption{"WatermarkAbovePool",
                  [](auto& o) { o.watermark_pages = 101; },
                  {"watermark_pages 101", "100 usable pages"}},
        BadOption{"NegativeBypasses",
                  [](auto& o) { o.max_bypasses = -1; },
                  {"max_bypasses is -1"}},
        BadOption{"NegativeLookahead",
                  [](auto& o) { o.bypass_lookahead = -1; },
                  {"bypass_lookahead is -1"}},
        BadOption{"NoQueue",
                  [](auto& o) { o.max_waiting = 0; },
                  {"max_waiting is 0"}},
        BadOption{"HugeQueue",
                  [](auto& o) { o.max_waiting = 2'000'000'000; },
                  {"max_waiting 2000000000", "lower"}},
        BadOption{"NegativeQueueTime",
                  [](auto& o) { o.max_queue_time_us = -1; },
                  {"max_queue_time_us is -1"}},
        BadOption{"NoFailures",
                  [](auto& o) { o.max_step_failures = 0; },
                  {"max_step_failures is 0"}},
        BadOption{"MoreRowsThanTheTable",
                  [](auto& o) { o.max_num_seqs = 17; },
                  {"max_num_seqs 17", "16 rows of the page table"}},
        BadOption{"LongerThanTheTable",
                  [](auto& o) { o.max_model_len = 1026; },
                  {"max_model_len 1026", "65 pages", "64 columns", "1025"}}),
    [](const auto& test) { return test.param.name; });

// The last token is never fed back, so it needs no slot.
TEST(SchedulerCreateTest, ModelLengthMayExceedTheTableByTheLastToken) {
  SchedulerOptions options = WorldOptions().scheduler;
  options.max_model_len = 1025;
  EXPECT_THAT(CreateStatus(options), IsOk());
}

TEST(SchedulerDeathTest, PlanWhileAStepIsInFlight) {
  SchedulerWorld world;
  world.Submit({});
  ASSERT_NE(world.Plan(), nullptr);
  EXPECT_DEATH(world.scheduler().Plan(0), "steps_.full");
}

TEST(SchedulerDeathTest, TimeThatGoesBack) {
  SchedulerWorld world;
  world.now_us = 5;
  EXPECT_EQ(world.Plan(), nullptr);
  EXPECT_DEATH(world.scheduler().Plan(4), "now_us");
}

TEST(SchedulerDeathTest, NoAllocator) {
  EXPECT_DEATH(
      Scheduler::Create(WorldOptions().scheduler, nullptr).IgnoreError(),
      "allocator");
}

TEST(SchedulerDeathTest, UnpinOfWhatIsNotPinned) {
  SchedulerWorld world;
  EXPECT_DEATH(world.scheduler().Unpin(0), "in_use");
  EXPECT_DEATH(world.scheduler().Unpin(-1), "handle");
}

}  // namespace
}  // namespace tidewheel
