// Timeline: a run as a file for Perfetto (ui.perfetto.dev), which answers why a
// request was slow.
//
// Tracks: one for each chosen request (see RequestTrack); one for the steps;
// and counters of pages (running, cached, free), of requests (running,
// waiting) and of the step's budget. Steps and counters are written from when
// the first chosen request is sent until the last of them has ended.
//
// Lifecycle: create before the run; Observe adds it to the run's options; after
// the run, Finish. What is known of chosen requests in flight is kept, all else
// goes to the file at once.
//
// Single-threaded. A step is O(rows + chosen requests in flight).

#ifndef TIDEWHEEL_TOOLS_REPORT_TIMELINE_H_
#define TIDEWHEEL_TOOLS_REPORT_TIMELINE_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "scheduler/scheduler.h"
#include "tools/output_file.h"
#include "tools/report/request_track.h"
#include "tools/report/timeline_requests.h"
#include "tools/report/trace_events.h"
#include "tools/simulation.h"
#include "tools/traces/trace.h"

namespace tidewheel {

class Timeline {
 public:
  static constexpr int32_t kServerProcess = 1;
  static constexpr int32_t kRequestProcess = 2;
  // The thread of request i of the trace.
  static int32_t ThreadOf(int32_t request) { return request + 1; }

  // All but `requests` outlive this.
  Timeline(const Trace& trace, const TimelineRequests& requests,
           const Scheduler& scheduler, OutputFile& file);

  void OnRequest(const RequestEvent& event);
  void OnStep(const StepRecord& step);
  void OnIdle(const IdleRecord& idle);
  // Ends the file, but does not close it.
  void Finish(int64_t end_us);

 private:
  // What the counters show from a time on.
  struct Counters {
    int32_t lent_pages = 0;
    int32_t cached_pages = 0;
    int32_t free_pages = 0;
    int32_t running = 0;
    int32_t waiting = 0;
    int32_t budget_tokens = 0;

    friend bool operator==(const Counters&, const Counters&) = default;
  };

  bool is_shown() const { return sent_ > 0 && ended_ < chosen_; }
  void Send(const RequestEvent& event);
  void TellTracks(const StepRecord& step);
  RequestTrack::Wait WaitOf(const Explanation& explanation) const;
  void WriteStep(const StepRecord& step);
  void WriteCounters(int64_t at_us, const Counters& counters);
  Counters NothingRuns(const PageAllocator::Stats& pages) const;

  const Trace& trace_;
  TimelineRequests requests_;
  const Scheduler& scheduler_;
  TraceEvents events_;
  int64_t chosen_;  // requests of the trace
  int64_t sent_ = 0;
  int64_t ended_ = 0;
  std::optional<Counters> shown_;  // last written

  // Of requests in flight, by RequestId. Ordered, so that a seed decides the
  // file's bytes.
  std::map<uint64_t, RequestTrack> tracks_;
  absl::flat_hash_map<uint64_t, int32_t> index_;  // into the trace; of all
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_TIMELINE_H_
