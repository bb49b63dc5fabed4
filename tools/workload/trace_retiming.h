// New arrival times for a trace that keeps its requests.
//
// Either draws arrivals at a rate (what --request-rate and --burstiness mean
// for a trace), or stretches those that it has. Requests keep their order,
// lengths and contents; think times of sessions (after_request) stay, since
// users do not think faster when there are more of them.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_TRACE_RETIMING_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_TRACE_RETIMING_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "tools/traces/trace.h"

namespace tidewheel {

struct RetimeOptions {
  // Requests per second, all turns of sessions counted; infinity is all at
  // time 0. Absent: the trace's own times.
  std::optional<double> request_rate = std::nullopt;
  double burstiness = 1;  // of request_rate; see arrival_schedule.h
  uint64_t seed = 0;
  // Multiplies the trace's own times: 0.5 is twice the load.
  double time_scale = 1;
};

// Errors: InvalidArgument for a rate or burstiness out of range, a time_scale
// that is not positive and finite, both a rate and a time_scale, or times past
// 2^62 us. The trace is unchanged then.
absl::Status RetimeTrace(const RetimeOptions& options, Trace& trace);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_TRACE_RETIMING_H_
