// What a simulation leaves: a record of each request, and sums over steps.
//
// Plain values without a judgement; tools/report turns them into metrics.

#ifndef TIDEWHEEL_TOOLS_SIMULATION_RESULT_H_
#define TIDEWHEEL_TOOLS_SIMULATION_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/request.h"
#include "scheduler/scheduler.h"
#include "scheduler/simulated_runner.h"
#include "scheduler/submission.h"
#include "tools/report/gap_histogram.h"

namespace tidewheel {

struct RequestRecord {
  enum class State {
    kNotSent,     // the run ended before it arrived
    kRefused,     // see refusal
    kUnfinished,  // the run ended before it did
    kEnded,       // see finish_reason
  };

  State state = State::kNotSent;
  Refusal refusal = Refusal::kNone;
  FinishReason finish_reason = FinishReason::kCancelled;
  // Microseconds of the simulated clock; -1: did not happen.
  int64_t arrival_us = -1;   // wants to be sent
  int64_t sent_us = -1;      // latencies count from here
  int64_t admitted_us = -1;  // its first step begins
  int64_t first_token_us = -1;
  int64_t ended_us = -1;  // with its last token, if it completed
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found at the first admission
  int32_t preemptions = 0;

  // Whether it generated what it asked for.
  bool is_complete() const {
    return state == State::kEnded && IsCompletion(finish_reason);
  }
};

// Pages over the time in which steps ran. A page that is lent may be partly
// empty: 17 tokens in pages of 16 use 2 pages but 17 of 32 slots.
struct PoolUsage {
  double busy_s = 0;      // the time in which steps ran
  double mean_pages = 0;  // lent pages of all usable ones
  double peak_pages = 0;
  // Promised to sequences that may need them and not taken: lent to nobody.
  double mean_promised = 0;
  double peak_promised = 0;
  double mean_slots = 0;  // slots that hold a token, of all usable ones
  double peak_slots = 0;
};

struct SimulationResult {
  std::vector<RequestRecord> requests;  // in the trace's order
  GapHistogram gaps;                    // between tokens of one request
  PoolUsage usage;
  SchedulerStats scheduler;
  SimulatedRunner::Totals runner;
  int64_t pages_evicted = 0;
  int32_t peak_running = 0;    // sequences in one step
  int32_t peak_in_flight = 0;  // requests sent and not ended
  int64_t end_us = 0;          // when the last request ended
  // Of each kind of refusal that happened, the first, with its remedy.
  std::vector<std::string> refusal_examples;
  // Where nothing could run although requests were unfinished: which, and what
  // it lacks. Empty in a run that came to its end.
  std::string blocked;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SIMULATION_RESULT_H_
