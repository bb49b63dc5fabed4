// RunSimulation: a trace through a scheduler, on a simulated clock.
//
// It plays the client and the server's loop: it sends requests when they
// arrive, or when one of max_concurrency clients is free, lets the scheduler
// plan, the runner run and the scheduler commit, and records when each token
// came. Where nothing runs the clock jumps to the next arrival. It makes no
// decision that a scheduler would make, and reads no real clock.
//
// The scheduler is told how many tokens a request *declares* to generate at
// most. How many it does generate only the runner knows.
//
// Every request of the trace is accounted for: sent = refused + ended +
// waiting + running after each step (CHECKed).

#ifndef TIDEWHEEL_TOOLS_SIMULATION_H_
#define TIDEWHEEL_TOOLS_SIMULATION_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"
#include "scheduler/simulated_runner.h"
#include "tools/simulation_result.h"
#include "tools/traces/trace.h"

namespace tidewheel {

// What a request declares as max_new_tokens, from its true output length. Where
// it declares more, it ends by an end token at its true length.
struct DeclaredTokens {
  enum class Rule {
    kTrueLength,
    kAtLeast,     // `tokens`, or the true length if that is more
    kFactor,      // `factor` times the true length, rounded up
    kUndeclared,  // nothing; the scheduler takes the longest that is possible
  };

  Rule rule = Rule::kTrueLength;
  int32_t tokens = 0;
  double factor = 1;  // at least 1
};

struct StepRecord {
  const StepPlan& plan;
  const StepTime& time;
  int64_t start_us = 0;
  int64_t end_us = 0;
  int32_t num_waiting = 0;
  int32_t num_running = 0;
  PageAllocator::Stats pages;
  int64_t used_slots = 0;   // of lent pages, those that hold a token
  int64_t preemptions = 0;  // since the start
};

// A request was sent, and accepted or refused, or has ended; its record's state
// says which.
struct RequestEvent {
  int32_t request = 0;  // index into the trace
  RequestId id;         // 0: refused
  const RequestRecord& record;
};

// Nothing runs from start to end.
struct IdleRecord {
  int64_t start_us = 0;
  int64_t end_us = 0;
  PageAllocator::Stats pages;
};

struct SimulationProgress {
  int64_t ended_requests = 0;
  int64_t total_requests = 0;
  int64_t now_us = 0;  // of the simulated clock
};

struct SimulationOptions {
  // Requests that may be in flight; the next is sent when one ends. 0: all are
  // sent when they arrive.
  int32_t max_concurrency = 0;
  DeclaredTokens declared = {};
  // Called after each step, before its tokens are committed; may be empty.
  std::function<void(const StepRecord&)> on_step = {};
  // Called when each happens; may be empty.
  std::function<void(const RequestEvent&)> on_request = {};
  std::function<void(const IdleRecord&)> on_idle = {};
  // Called now and then; may be empty. Has no influence on the result.
  std::function<void(const SimulationProgress&)> on_progress = {};
  // Asked now and then; true ends the run as cancelled. May be empty.
  std::function<bool()> should_stop = {};
};

// REQUIRES: the scheduler has taken no request yet, the runner's clock is at 0
// and has room for the scheduler's max_num_seqs; the trace keeps its
// invariants (see trace.h).
//
// Errors: InvalidArgument for options out of range; Internal where scheduler
// and runner disagree; Cancelled where options.should_stop asked for it.
absl::StatusOr<SimulationResult> RunSimulation(const Trace& trace,
                                               const SimulationOptions& options,
                                               Scheduler& scheduler,
                                               SimulatedRunner& runner);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SIMULATION_H_
