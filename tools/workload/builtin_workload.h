// The built-in workload: a Trace drawn from a seed.
//
// By default its lengths and arrivals are like the Azure 2023 conversation
// trace's (azure_fit.h). Lengths can be fixed, prompts can start with shared
// prefixes, and requests can be turns of sessions: a later turn's prompt is
// the previous prompt, what the previous turn generated, and new tokens, and
// it arrives a think time after the previous turn ends.
//
// Turns of a session stand one after the other in the trace, sessions in order
// of their first arrival. request_rate counts all turns: sessions start at
// request_rate * sessions / requests, so the mean rate asked for is the rate
// of requests whatever the number of turns.
//
// Same options, same trace, with every compiler. A change of rate or
// burstiness changes arrivals only; a larger num_requests adds requests whose
// lengths follow those that were there.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_BUILTIN_WORKLOAD_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_BUILTIN_WORKLOAD_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "tools/traces/trace.h"
#include "tools/workload/azure_fit.h"

namespace tidewheel {

// Lengths uniform around a mean, instead of the fitted ones; range_ratio in
// [0, 1) as in vLLM's random data set: 0.1 is from 90 % to 110 %.
struct FixedLengths {
  int32_t input_tokens = 1024;
  int32_t output_tokens = 128;
  double range_ratio = 0;
};

// `tokens` tokens in front of each session's first prompt (they add to its
// length), one of `count` prefixes; the k-th most popular is chosen with a
// probability proportional to k^-zipf_exponent. A count of 0 is no prefixes.
struct SharedPrefixes {
  int32_t count = 0;
  int32_t tokens = 0;
  double zipf_exponent = 1;
};

// After each turn another follows with probability 1 - 1 / mean_turns, up to
// max_turns; a mean of 1 is no sessions. Think times are exponential. The new
// tokens of a later turn are lognormal about mean_turn_tokens with the fitted
// prompts' sigma (with FixedLengths: uniform, with their ratio). The defaults
// are assumptions, not measurements: the Azure trace does not tell turns.
struct Sessions {
  double mean_turns = 1;
  int32_t max_turns = 20;
  double mean_think_time_s = 30;
  int32_t mean_turn_tokens = 128;
};

struct BuiltinWorkloadOptions {
  int64_t num_requests = 1000;  // turns counted one by one
  // Requests per second; infinity is all (first turns) at time 0.
  double request_rate = kAzureRequestRate;
  double burstiness = kAzureBurstiness;  // see arrival_schedule.h
  uint64_t seed = 0;
  std::optional<FixedLengths> fixed_lengths = std::nullopt;
  SharedPrefixes shared_prefixes = {};
  Sessions sessions = {};
};

// Errors: InvalidArgument for an option out of its range, or if a session of
// max_turns could be longer than 2^31 - 1 tokens.
absl::StatusOr<Trace> GenerateBuiltinWorkload(
    const BuiltinWorkloadOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_BUILTIN_WORKLOAD_H_
