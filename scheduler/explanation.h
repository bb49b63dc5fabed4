// Explanation: why a request is where it is, for people and for dashboards.

#ifndef TIDEWHEEL_SCHEDULER_EXPLANATION_H_
#define TIDEWHEEL_SCHEDULER_EXPLANATION_H_

#include <cstdint>
#include <string>

#include "scheduler/request.h"

namespace tidewheel {

enum class WaitReason {
  kNotTried,    // no step was planned since it began to wait
  kBehind,      // others go first, by the policy
  kRows,        // max_num_seqs sequences run
  kTokens,      // the step's token budget is spent
  kPages,       // not enough pages
  kProtected,   // a request before it has been passed often enough
  kPreempted,   // preempted; waits until something else has made progress
  kPreempting,  // the step took pages from a running sequence; it admits none
  kFailures,    // a failed step is being narrowed down
};

// "rows", "tokens", ...
absl::string_view WaitReasonName(WaitReason reason);

struct Explanation {
  enum class State { kWaiting, kRunning, kEnded, kUnknown };

  State state = State::kUnknown;
  // While waiting: what the last plan found.
  WaitReason reason = WaitReason::kNotTried;
  RequestId behind;       // the first of those that go first; 0: none
  int64_t since_us = 0;   // waiting or running since
  int32_t needed = 0;     // pages, rows or tokens, as `reason` says
  int32_t available = 0;  // of the same
  // One sentence: the above, and what would have to change.
  std::string text;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_EXPLANATION_H_
