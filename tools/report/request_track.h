// RequestTrack: what one request does, as slices of a timeline.
//
// Its slices follow one another without a gap from when the request was sent
// to when it ended, so those of the categories queued, prefill, decode and
// preempted add up to its end-to-end latency. A queued or preempted slice is
// split where the reason to wait changes; each chunk of a prefill is a slice;
// a decode is one slice for as long as it is not interrupted. A row that gets
// no token in a step is a slice "paused" of the category that it is in.
//
// Lifecycle: create when the request is sent; after each planned step one of
// Runs, Pauses and Waits; Ends.
//
// Single-threaded. O(1) a call; a slice is written when it is over.

#ifndef TIDEWHEEL_TOOLS_REPORT_REQUEST_TRACK_H_
#define TIDEWHEEL_TOOLS_REPORT_REQUEST_TRACK_H_

#include <cstdint>
#include <string>

#include "scheduler/explanation.h"
#include "tools/report/trace_events.h"
#include "tools/simulation.h"

namespace tidewheel {

class RequestTrack {
 public:
  // What a request waits for after a plan.
  struct Wait {
    WaitReason reason = WaitReason::kNotTried;
    // Of the request that goes first, where this one is not it.
    WaitReason head_reason = WaitReason::kNotTried;
    int32_t head_request = -1;  // index into the trace; -1: this one goes first
    int32_t needed = 0;         // of pages or tokens
    int32_t available = 0;
    int32_t num_waiting = 0;
  };
  // Its row of a step.
  struct Row {
    int32_t query_tokens = 0;
    int32_t kv_tokens = 0;
    bool wants_logits = false;
  };

  // `events` outlives the track.
  RequestTrack(TraceEvents::Track track, int64_t sent_us, TraceEvents& events)
      : track_(track), events_(events), start_us_(sent_us) {}

  void Runs(const StepRecord& step, const Row& row);
  // It has a row, but no token in this step.
  void Pauses(const StepRecord& step);
  void Waits(const StepRecord& step, const Wait& wait);
  void Ends(const RequestRecord& record);
  // The run is over, the request is not.
  void Stops(int64_t now_us);

  // The last step of which it was told.
  int64_t last_step_id() const { return last_step_id_; }

 private:
  // What the slice that is not over yet shows.
  enum class Phase { kWaiting, kPaused, kDecode };

  // Begins a slice at the step's start, and ends the one before.
  void Turn(Phase phase, int64_t now_us);
  void WriteOpen(int64_t end_us);
  void WriteChunk(const StepRecord& step, const Row& row);
  void WriteWait(int64_t end_us);
  void WriteDecode(int64_t end_us);
  void Write(int64_t end_us, absl::string_view category, absl::string_view name,
             const TraceArgs& args);

  TraceEvents::Track track_;
  TraceEvents& events_;
  int64_t last_step_id_ = 0;
  bool has_run_ = false;
  bool is_preempted_ = false;  // has run, waits or is computed again
  bool is_admitted_ = false;   // has a row
  bool has_first_token_ = false;
  bool decodes_ = false;  // its next row is a decode

  // The open slice.
  Phase phase_ = Phase::kWaiting;
  bool is_open_ = true;
  int64_t start_us_;
  Wait wait_;
  int64_t tokens_ = 0;
  int64_t first_step_id_ = 0;
  int64_t slowest_step_id_ = 0;
  int64_t slowest_step_us_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_REQUEST_TRACK_H_
