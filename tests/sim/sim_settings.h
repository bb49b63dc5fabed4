// SimSettings: the world, the workload and the faults of one simulation, all
// drawn from its seed.

#ifndef TIDEWHEEL_TESTS_SIM_SIM_SETTINGS_H_
#define TIDEWHEEL_TESTS_SIM_SIM_SETTINGS_H_

#include <cstdint>
#include <string>

#include "allocator/page_allocator.h"
#include "scheduler/scheduler_options.h"

namespace tidewheel {

// A bug that the harness plants between the scheduler and its own checks, to
// show that they would catch one. Each stands for a kind of scheduler bug.
enum class Sabotage {
  kNone,
  kTokenId,         // a plan with a wrong token
  kPosition,        // a plan with a position that is one off
  kPageEntry,       // a row that names another row's page
  kHiddenChange,    // a changed row that is not listed
  kHiddenMove,      // rows that move without being listed
  kLogits,          // a row that samples before its last chunk, or not after
  kUnwrittenPage,   // KV that is found although its step failed
  kRepeatedResult,  // a finished request that is reported twice
  kLostRequest,     // a finished request that is never reported
  kTokenOfAnother,  // a token that was sampled for another row
  kWrongSource,     // an unknown token that is taken from another row
};
inline constexpr Sabotage kLastSabotage = Sabotage::kWrongSource;

struct SimSettings {
  PageAllocator::Options pages;
  SchedulerOptions scheduler;

  // Workload.
  int32_t steps = 0;         // in which requests arrive and faults happen
  int32_t arrivals = 0;      // at most, a step; a burst has ten times as many
  int32_t max_prompt = 0;    // tokens
  int32_t max_new = 0;       // tokens
  int32_t num_contents = 0;  // different beginnings of prompts
  int32_t num_salts = 0;
  int32_t fork = 0;        // chance in a thousand a step
  int32_t vocabulary = 0;  // token ids that are generated
  int32_t max_step_us = 0;

  // Faults, chances in a thousand a step.
  int32_t failed_step = 0;
  int32_t missing_token = 0;  // a row
  // Of two steps in flight the newer one is reported as failed first.
  int32_t newest_fails = 0;
  int32_t cancel = 0;  // before a plan, and as much while in flight
  int32_t pin = 0;
  int32_t reset = 0;
  int32_t burst = 0;
  bool poison = false;  // every seventh request fails each step that it is in

  Sabotage sabotage = Sabotage::kNone;
};

SimSettings DrawSettings(uint64_t seed);

// One line, for a person who reproduces a failure.
std::string ToString(const SimSettings& settings);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_SIM_SETTINGS_H_
