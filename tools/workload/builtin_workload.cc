#include "tools/workload/builtin_workload.h"

#include <algorithm>
#include <boost/random/exponential_distribution.hpp>
#include <boost/random/uniform_01.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/traces/content_ids.h"
#include "tools/workload/arrival_schedule.h"
#include "tools/workload/builtin_options.h"
#include "tools/workload/random_stream.h"

namespace tidewheel {
namespace {

// Draws ranks 0 .. count - 1, the k-th with a weight of (k + 1)^-exponent.
class ZipfRanks {
 public:
  ZipfRanks(int32_t count, double exponent) {
    double sum = 0;
    for (int32_t k = 1; k <= count; ++k) {
      cumulative_.push_back(sum += std::pow(k, -exponent));
    }
  }

  uint64_t Draw(RandomEngine& engine) const {
    const double at =
        boost::random::uniform_01<double>()(engine) * cumulative_.back();
    const auto rank =
        std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, at);
    return static_cast<uint64_t>(rank - cumulative_.begin());
  }

 private:
  std::vector<double> cumulative_;
};

class WorkloadGenerator {
 public:
  explicit WorkloadGenerator(const BuiltinWorkloadOptions& options);

  absl::StatusOr<Trace> Generate();

 private:
  int32_t DrawTurns();
  int64_t DrawThinkTimeUs();
  void AddFirstTurn();
  void AddLaterTurn();
  void AddPromptContent(int32_t tokens);
  void FinishRequest(TraceRequest request);
  bool IsFull() const;

  const BuiltinWorkloadOptions options_;
  const BuiltinLengths lengths_;
  const ZipfRanks prefix_ranks_;
  RandomEngine prompt_lengths_;
  RandomEngine output_lengths_;
  RandomEngine prefixes_;
  RandomEngine turns_;
  RandomEngine turn_lengths_;
  RandomEngine think_times_;
  Trace trace_;
};

WorkloadGenerator::WorkloadGenerator(const BuiltinWorkloadOptions& options)
    : options_(options),
      lengths_(LengthsOf(options)),
      prefix_ranks_(options.shared_prefixes.count,
                    options.shared_prefixes.zipf_exponent),
      prompt_lengths_(RandomStream(options.seed, RandomUse::kPromptLengths)),
      output_lengths_(RandomStream(options.seed, RandomUse::kOutputLengths)),
      prefixes_(RandomStream(options.seed, RandomUse::kPrefixes)),
      turns_(RandomStream(options.seed, RandomUse::kTurns)),
      turn_lengths_(RandomStream(options.seed, RandomUse::kTurnLengths)),
      think_times_(RandomStream(options.seed, RandomUse::kThinkTimes)) {}

bool WorkloadGenerator::IsFull() const {
  return static_cast<int64_t>(trace_.requests.size()) == options_.num_requests;
}

int32_t WorkloadGenerator::DrawTurns() {
  if (options_.sessions.mean_turns <= 1) return 1;
  const double stop = 1 / options_.sessions.mean_turns;
  int32_t turns = 1;
  while (turns < options_.sessions.max_turns &&
         boost::random::uniform_01<double>()(turns_) >= stop) {
    ++turns;
  }
  return turns;
}

int64_t WorkloadGenerator::DrawThinkTimeUs() {
  const double mean_us = options_.sessions.mean_think_time_s * 1e6;
  return std::llround(
      mean_us *
      boost::random::exponential_distribution<double>()(think_times_));
}

void WorkloadGenerator::AddPromptContent(int32_t tokens) {
  trace_.segments.push_back(
      {ContentId(ContentSpace::kPrompt, trace_.requests.size()), 0, tokens});
}

void WorkloadGenerator::FinishRequest(TraceRequest request) {
  request.num_segments =
      static_cast<uint32_t>(trace_.segments.size()) - request.first_segment;
  request.output_tokens = lengths_.output.Draw(output_lengths_);
  request.output_content_id =
      ContentId(ContentSpace::kOutput, trace_.requests.size());
  trace_.requests.push_back(request);
}

void WorkloadGenerator::AddFirstTurn() {
  TraceRequest request;
  request.first_segment = static_cast<uint32_t>(trace_.segments.size());
  const SharedPrefixes& shared = options_.shared_prefixes;
  if (shared.count > 0) {
    trace_.segments.push_back(
        {ContentId(ContentSpace::kPrefix, prefix_ranks_.Draw(prefixes_)), 0,
         shared.tokens});
    request.prompt_tokens = shared.tokens;
  }
  const int32_t own_tokens = lengths_.prompt.Draw(prompt_lengths_);
  AddPromptContent(own_tokens);
  request.prompt_tokens += own_tokens;
  FinishRequest(request);
}

void WorkloadGenerator::AddLaterTurn() {
  const TraceRequest previous = trace_.requests.back();
  TraceRequest request;
  request.arrival_us = DrawThinkTimeUs();
  request.after_request = static_cast<int32_t>(trace_.requests.size()) - 1;
  request.first_segment = static_cast<uint32_t>(trace_.segments.size());
  for (uint32_t i = 0; i < previous.num_segments; ++i) {
    const ContentSegment segment = trace_.segments[previous.first_segment + i];
    trace_.segments.push_back(segment);
  }
  trace_.segments.push_back(
      {previous.output_content_id, 0, previous.output_tokens});
  const int32_t own_tokens = lengths_.turn.Draw(turn_lengths_);
  AddPromptContent(own_tokens);
  request.prompt_tokens =
      previous.prompt_tokens + previous.output_tokens + own_tokens;
  FinishRequest(request);
}

absl::StatusOr<Trace> WorkloadGenerator::Generate() {
  trace_.name = "built-in";
  trace_.format = "built-in";
  std::vector<size_t> first_turns;
  constexpr size_t kMaxSegments = std::numeric_limits<uint32_t>::max();
  while (!IsFull()) {
    first_turns.push_back(trace_.requests.size());
    AddFirstTurn();
    for (int32_t turns = DrawTurns(); turns > 1 && !IsFull(); --turns) {
      // A session of 1,000 turns at most: 2,001 segments for its last one.
      if (trace_.segments.size() + 3000 > kMaxSegments) {
        return absl::InvalidArgumentError(
            absl::StrCat("the sessions of ", options_.num_requests,
                         " requests need more "
                         "than ",
                         kMaxSegments,
                         " segments; ask for fewer requests or "
                         "fewer turns"));
      }
      AddLaterTurn();
    }
  }
  const double sessions_per_request =
      static_cast<double>(first_turns.size()) /
      static_cast<double>(options_.num_requests);
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::vector<int64_t> arrivals_us,
      DrawArrivals(
          {.count = static_cast<int64_t>(first_turns.size()),
           .request_rate = options_.request_rate * sessions_per_request,
           .burstiness = options_.burstiness,
           .seed = options_.seed}));
  for (size_t i = 0; i < first_turns.size(); ++i) {
    trace_.requests[first_turns[i]].arrival_us = arrivals_us[i];
  }
  return std::move(trace_);
}

}  // namespace

absl::StatusOr<Trace> GenerateBuiltinWorkload(
    const BuiltinWorkloadOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckBuiltinOptions(options));
  return WorkloadGenerator(options).Generate();
}

}  // namespace tidewheel
