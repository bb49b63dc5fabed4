#include "tools/workload/builtin_options.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/workload/arrival_schedule.h"

namespace tidewheel {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
// 50 million requests take 4 GB as a Trace; more is a slip of the hand.
constexpr double kMaxRequests = 50e6;
constexpr double kMaxPrefixes = 1e6;
constexpr double kMaxTurns = 1000;
constexpr double kMaxZipfExponent = 100;
constexpr double kMaxThinkTimeS = 1e9;
// Twice it, the most that a range ratio below 1 makes of it, fits int32.
constexpr double kMaxFixedTokens = 1 << 29;

// NaN is in no range.
absl::Status CheckRange(absl::string_view option, double value, double low,
                        double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", value, " is not in [", low, ", ", high,
                   "]; choose a value in that range"));
}

absl::Status CheckFixedLengths(const FixedLengths& fixed) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("input length", fixed.input_tokens, 1, kMaxFixedTokens));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("output length", fixed.output_tokens, 1, kMaxFixedTokens));
  if (fixed.range_ratio >= 0 && fixed.range_ratio < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("range ratio ", fixed.range_ratio,
                   " is not in [0, 1); use 0 for lengths that are all equal, "
                   "or 0.1 for 10 % less to 10 % more"));
}

absl::Status CheckPrefixes(const SharedPrefixes& prefixes) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("number of shared prefixes", prefixes.count, 0, kMaxPrefixes));
  if (prefixes.count == 0) return absl::OkStatus();
  TIDEWHEEL_RETURN_IF_ERROR(CheckRange("length of shared prefixes",
                                       prefixes.tokens, 1, kMaxFixedTokens));
  return CheckRange("Zipf exponent of shared prefixes", prefixes.zipf_exponent,
                    0, kMaxZipfExponent);
}

absl::Status CheckSessions(const Sessions& sessions) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("limit on turns", sessions.max_turns, 1, kMaxTurns));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("mean number of turns", sessions.mean_turns, 1,
                 static_cast<double>(sessions.max_turns)));
  TIDEWHEEL_RETURN_IF_ERROR(CheckRange(
      "mean think time (s)", sessions.mean_think_time_s, 0, kMaxThinkTimeS));
  return CheckRange("mean tokens of a later turn", sessions.mean_turn_tokens, 1,
                    kMaxFixedTokens);
}

// The longest that a session can become must fit the type of a length.
absl::Status CheckTotal(const BuiltinWorkloadOptions& options) {
  const BuiltinLengths lengths = LengthsOf(options);
  const Sessions& sessions = options.sessions;
  const int64_t turns = sessions.mean_turns > 1 ? sessions.max_turns : 1;
  const int64_t prefix =
      options.shared_prefixes.count > 0 ? options.shared_prefixes.tokens : 0;
  const int64_t total = prefix + lengths.prompt.max_tokens() +
                        lengths.output.max_tokens() * turns +
                        lengths.turn.max_tokens() * (turns - 1);
  if (total <= kMaxTokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a request of ", turns, " turns could reach ", total,
      " tokens, which exceeds ", kMaxTokens,
      "; lower the lengths of prompt, output or prefix, or the limit on "
      "turns"));
}

}  // namespace

BuiltinLengths LengthsOf(const BuiltinWorkloadOptions& options) {
  const int32_t mean_turn = options.sessions.mean_turn_tokens;
  if (options.fixed_lengths.has_value()) {
    const FixedLengths& fixed = *options.fixed_lengths;
    return {LengthDistribution::Uniform(fixed.input_tokens, fixed.range_ratio),
            LengthDistribution::Uniform(fixed.output_tokens, fixed.range_ratio),
            LengthDistribution::Uniform(mean_turn, fixed.range_ratio)};
  }
  LognormalLengths turn = kAzurePromptLengths;
  // The mean of a lognormal is exp(log_mean + log_sigma^2 / 2); 20 means and
  // more are one draw in 30,000.
  turn.log_mean = std::log(mean_turn) - turn.log_sigma * turn.log_sigma / 2;
  turn.min_tokens = 1;
  turn.max_tokens = static_cast<int32_t>(
      std::min<int64_t>(int64_t{mean_turn} * 20, kMaxTokens));
  return {LengthDistribution(kAzurePromptLengths),
          LengthDistribution(kAzureOutputLengths), LengthDistribution(turn)};
}

absl::Status CheckBuiltinOptions(const BuiltinWorkloadOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("number of requests",
                 static_cast<double>(options.num_requests), 1, kMaxRequests));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRate(options.request_rate, options.burstiness));
  if (options.fixed_lengths.has_value()) {
    TIDEWHEEL_RETURN_IF_ERROR(CheckFixedLengths(*options.fixed_lengths));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckPrefixes(options.shared_prefixes));
  TIDEWHEEL_RETURN_IF_ERROR(CheckSessions(options.sessions));
  return CheckTotal(options);
}

}  // namespace tidewheel
