#include "tools/workload/trace_retiming.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/workload/arrival_schedule.h"

namespace tidewheel {
namespace {

absl::Status DrawNewTimes(const RetimeOptions& options, Trace& trace) {
  std::vector<TraceRequest*> first_turns;
  for (TraceRequest& request : trace.requests) {
    if (request.after_request == -1) first_turns.push_back(&request);
  }
  // A trace without requests has no share of first turns, and no times.
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRate(*options.request_rate, options.burstiness));
  if (first_turns.empty()) return absl::OkStatus();
  const double share = static_cast<double>(first_turns.size()) /
                       static_cast<double>(trace.requests.size());
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::vector<int64_t> arrivals_us,
      DrawArrivals({.count = static_cast<int64_t>(first_turns.size()),
                    .request_rate = *options.request_rate * share,
                    .burstiness = options.burstiness,
                    .seed = options.seed}));
  for (size_t i = 0; i < first_turns.size(); ++i) {
    first_turns[i]->arrival_us = arrivals_us[i];
  }
  return absl::OkStatus();
}

absl::Status StretchTimes(double scale, Trace& trace) {
  int64_t last_us = 0;
  for (const TraceRequest& request : trace.requests) {
    if (request.after_request == -1) {
      last_us = std::max(last_us, request.arrival_us);
    }
  }
  constexpr double kMaxUs = 4611686018427387904.0;  // 2^62
  if (const double end_us = static_cast<double>(last_us) * scale;
      !(end_us <= kMaxUs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("time scale ", scale, " puts the last arrival at ", end_us,
                     " us, past the limit of ", kMaxUs, " us; lower it"));
  }
  for (TraceRequest& request : trace.requests) {
    if (request.after_request != -1) continue;
    request.arrival_us =
        std::llround(static_cast<double>(request.arrival_us) * scale);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RetimeTrace(const RetimeOptions& options, Trace& trace) {
  // Written so that NaN fails.
  if (!(options.time_scale > 0) || std::isinf(options.time_scale)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "time scale ", options.time_scale,
        " is not a positive finite number; use 0.5 for twice the load, or a "
        "request rate of inf for all requests at once"));
  }
  if (options.request_rate.has_value()) {
    if (options.time_scale != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "request rate ", *options.request_rate, " and time scale ",
          options.time_scale, " both set the arrivals; give only one"));
    }
    return DrawNewTimes(options, trace);
  }
  if (options.time_scale == 1) return absl::OkStatus();
  return StretchTimes(options.time_scale, trace);
}

}  // namespace tidewheel
