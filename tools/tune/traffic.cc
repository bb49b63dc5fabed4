#include "tools/tune/traffic.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/workload/trace_retiming.h"

namespace tidewheel {
namespace {

// For the built-in workload: 99 % of 4,000 leaves 40 requests beyond it.
constexpr int64_t kDrawnRequests = 4000;
constexpr int64_t kFewestRequests = 20;

int64_t LastArrivalUs(const Trace& trace) {
  int64_t last_us = 0;
  for (const TraceRequest& request : trace.requests) {
    if (request.after_request == -1) {
      last_us = std::max(last_us, request.arrival_us);
    }
  }
  return last_us;
}

int32_t ScaledTokens(int64_t tokens, double factor) {
  return static_cast<int32_t>(
      std::llround(static_cast<double>(tokens) * factor));
}

// Prompt and output.
int32_t LongestRequest(const Trace& trace) {
  int32_t longest = 0;
  for (const TraceRequest& request : trace.requests) {
    longest = std::max(longest, request.prompt_tokens + request.output_tokens);
  }
  return longest;
}

}  // namespace

absl::StatusOr<Traffic> Traffic::Create(WorkloadChoice choice,
                                        int32_t replications) {
  TIDEWHEEL_CHECK(replications >= 1);
  Traffic traffic;
  choice.request_rate.reset();
  const bool is_file = !choice.trace_file.empty();
  if (!is_file && !choice.num_prompts.has_value()) {
    choice.num_prompts = kDrawnRequests;
  }
  WorkloadChoice own = choice;
  if (is_file) own.burstiness.reset();
  TIDEWHEEL_ASSIGN_OR_RETURN(traffic.trace_, LoadWorkload(own));
  const std::vector<TraceRequest>& requests = traffic.trace_.requests;
  if (static_cast<int64_t>(requests.size()) < kFewestRequests) {
    return absl::InvalidArgumentError(
        absl::StrCat("a workload of ", requests.size(),
                     " requests says nothing of a rate; "
                     "give at least ",
                     kFewestRequests,
                     ", and a thousand for a 99th "
                     "percentile"));
  }
  const int64_t last_us = LastArrivalUs(traffic.trace_);
  if (!is_file) {
    traffic.own_rate_ = choice.builtin.request_rate;
  } else if (last_us > 0) {
    traffic.own_rate_ = static_cast<double>(requests.size()) /
                        (static_cast<double>(last_us) / 1e6);
  } else if (!choice.burstiness.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        traffic.trace_.name,
        ": all requests arrive at once, which no rate "
        "can stretch; give a --burstiness to draw arrivals (1: Poisson)"));
  }
  if (!is_file || choice.burstiness.has_value()) {
    traffic.replications_ = replications;
  }
  double tokens = 0;
  for (const TraceRequest& request : requests) {
    tokens += request.prompt_tokens + request.output_tokens;
  }
  traffic.mean_request_tokens_ = tokens / static_cast<double>(requests.size());
  traffic.longest_request_tokens_ = LongestRequest(traffic.trace_);
  // Of a file, replications draw the times alone.
  for (int32_t k = 1; !is_file && k < traffic.replications_; ++k) {
    own.seed = choice.seed + static_cast<uint64_t>(k);
    TIDEWHEEL_ASSIGN_OR_RETURN(const Trace drawn, LoadWorkload(own));
    traffic.longest_request_tokens_ =
        std::max(traffic.longest_request_tokens_, LongestRequest(drawn));
  }
  traffic.choice_ = std::move(choice);
  return traffic;
}

absl::StatusOr<Trace> Traffic::Make(const Load& load) const {
  TIDEWHEEL_CHECK(load.request_rate > 0);
  TIDEWHEEL_CHECK(load.replication >= 0 && load.replication < replications_);
  Trace trace;
  const uint64_t seed = choice_.seed + static_cast<uint64_t>(load.replication);
  if (choice_.trace_file.empty()) {
    WorkloadChoice drawn = choice_;
    drawn.request_rate = load.request_rate;
    drawn.seed = seed;
    TIDEWHEEL_ASSIGN_OR_RETURN(trace, LoadWorkload(drawn));
  } else {
    trace = trace_;
    RetimeOptions retime;
    if (choice_.burstiness.has_value()) {
      retime.request_rate = load.request_rate;
      retime.burstiness = *choice_.burstiness;
      retime.seed = seed;
    } else {
      retime.time_scale = *own_rate_ / load.request_rate;
    }
    TIDEWHEEL_RETURN_IF_ERROR(RetimeTrace(retime, trace));
  }
  const size_t all = trace.requests.size();
  if (load.requests > 0 && static_cast<size_t>(load.requests) < all) {
    // A later turn stands behind the one that it waits for, so a front is
    // closed.
    trace.requests.resize(static_cast<size_t>(load.requests));
  }
  if (load.prompt_factor != 1 || load.output_factor != 1) {
    ScaleLengths(load.prompt_factor, load.output_factor, trace);
  }
  return trace;
}

void ScaleLengths(double prompt_factor, double output_factor, Trace& trace) {
  std::vector<ContentSegment> segments;
  segments.reserve(trace.segments.size());
  for (TraceRequest& request : trace.requests) {
    const size_t first = segments.size();
    int64_t end = 0;         // of the old segments so far
    int32_t scaled_end = 0;  // of the new ones
    for (const ContentSegment& old : trace.segments_of(request)) {
      end += old.length;
      const int32_t next = std::max(ScaledTokens(end, prompt_factor),
                                    first == segments.size() ? 1 : scaled_end);
      if (next == scaled_end) continue;
      segments.push_back({old.content_id,
                          ScaledTokens(old.offset, prompt_factor),
                          next - scaled_end});
      scaled_end = next;
    }
    request.prompt_tokens = scaled_end;
    request.output_tokens =
        std::max(ScaledTokens(request.output_tokens, output_factor), 1);
    request.first_segment = static_cast<uint32_t>(first);
    request.num_segments = static_cast<uint32_t>(segments.size() - first);
  }
  trace.segments = std::move(segments);
}

}  // namespace tidewheel
