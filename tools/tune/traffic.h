// Traffic: the same requests at any rate.
//
// What a search changes between two runs is the server; what it must not change
// is the luck. So every candidate meets the same requests, in the same order:
//
//   a trace      its own times, stretched or compressed. Bursts stay bursts.
//                With a burstiness, arrivals are drawn for it instead.
//   built-in     drawn with the same seeds; another rate scales the gaps.
//
// What is drawn can be drawn again: replication k has seed + k. A trace that
// is stretched exists once.
//
// Thread-safety: immutable after Create.

#ifndef TIDEWHEEL_TOOLS_TUNE_TRAFFIC_H_
#define TIDEWHEEL_TOOLS_TUNE_TRAFFIC_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/traces/trace.h"
#include "tools/workload_choice.h"

namespace tidewheel {

struct Load {
  double request_rate = 0;  // requests per second, all turns counted
  int64_t requests = 0;     // the first so many; 0: all
  int32_t replication = 0;  // less than Traffic::replications()
  // Multiply the lengths; what prompts share stays shared.
  double prompt_factor = 1;
  double output_factor = 1;
};

class Traffic {
 public:
  // `choice` without its request_rate, which is each load's. Where arrivals are
  // drawn there are `replications`, of `choice.num_prompts` requests or 4,000.
  // Errors: as LoadWorkload; InvalidArgument where there are too few requests
  // to say anything of a rate.
  static absl::StatusOr<Traffic> Create(WorkloadChoice choice,
                                        int32_t replications);

  // REQUIRES: the load is in range.
  // Errors: as LoadWorkload.
  absl::StatusOr<Trace> Make(const Load& load) const;

  // Of one replication.
  int64_t num_requests() const {
    return static_cast<int64_t>(trace_.requests.size());
  }
  int32_t replications() const { return replications_; }
  // Requests per second of a trace's own times, of the built-in workload's
  // default, or nothing where all arrive at once.
  std::optional<double> own_rate() const { return own_rate_; }
  // Prompt and output, of all replications.
  int32_t longest_request_tokens() const { return longest_request_tokens_; }
  // Of replication 0.
  double mean_request_tokens() const { return mean_request_tokens_; }
  // Replication 0 at the own rate.
  const Trace& trace() const { return trace_; }

 private:
  Traffic() = default;
  bool is_drawn() const { return replications_ > 1; }

  WorkloadChoice choice_;
  Trace trace_;
  int32_t replications_ = 1;
  std::optional<double> own_rate_;
  int32_t longest_request_tokens_ = 0;
  double mean_request_tokens_ = 0;
};

// Multiplies the lengths of all prompts and outputs, each at least 1 token.
// Segments end where their old ends, multiplied, are rounded to, so prompts
// that shared a prefix share the longer or shorter one.
void ScaleLengths(double prompt_factor, double output_factor, Trace& trace);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TRAFFIC_H_
