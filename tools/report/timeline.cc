#include "tools/report/timeline.h"

#include "absl/strings/str_cat.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

constexpr TraceEvents::Track kSteps = {Timeline::kServerProcess, 1};

TraceArgs About(const Trace& trace, int64_t chosen) {
  TraceArgs about;
  about.Add("trace", trace.name)
      .Add("requests", static_cast<int64_t>(trace.requests.size()))
      .Add("requests_shown", chosen)
      .Add("choose_requests", "tidewheel simulate --timeline-requests");
  return about;
}

}  // namespace

Timeline::Timeline(const Trace& trace, const TimelineRequests& requests,
                   const Scheduler& scheduler, OutputFile& file)
    : trace_(trace),
      requests_(requests),
      scheduler_(scheduler),
      events_(About(trace, requests.CountOf(
                               static_cast<int64_t>(trace.requests.size()))),
              file),
      chosen_(requests.CountOf(static_cast<int64_t>(trace.requests.size()))) {
  events_.NameProcess(kServerProcess, "server");
  events_.NameThread(kSteps, "steps");
  events_.NameProcess(
      kRequestProcess,
      absl::StrCat(
          "requests of ", trace.name, " (", WithThousands(chosen_), " of ",
          WithThousands(static_cast<int64_t>(trace.requests.size())), ")"));
}

void Timeline::OnRequest(const RequestEvent& event) {
  if (event.record.state == RequestRecord::State::kUnfinished) {
    index_.emplace(event.id.value, event.request);
    if (requests_.Contains(event.request)) Send(event);
    return;
  }
  if (event.record.state == RequestRecord::State::kRefused) {
    if (requests_.Contains(event.request)) Send(event);
  }
  index_.erase(event.id.value);  // 0, if it was refused
  const auto track = tracks_.find(event.id.value);
  if (track == tracks_.end()) return;
  track->second.Ends(event.record);
  tracks_.erase(track);
  ++ended_;
  // Counters end with the last slice.
  if (!is_shown()) {
    WriteCounters(event.record.ended_us,
                  NothingRuns(scheduler_.allocator().stats()));
  }
}

void Timeline::Send(const RequestEvent& event) {
  const TraceEvents::Track track = {kRequestProcess, ThreadOf(event.request)};
  const TraceRequest& request = trace_.requests[event.request];
  events_.NameThread(
      track, absl::StrCat("request ", event.request, ": ",
                          WithThousands(request.prompt_tokens), " + ",
                          WithThousands(request.output_tokens), " tokens"));
  tracks_.try_emplace(event.id.value, track, event.record.sent_us, events_);
  ++sent_;
}

void Timeline::OnStep(const StepRecord& step) {
  if (!is_shown()) return;
  WriteCounters(
      step.start_us,
      {step.pages.lent_pages, step.pages.cached_pages, step.pages.free_pages,
       step.num_running, step.num_waiting, step.plan.batch.total_q_tokens()});
  WriteStep(step);
  TellTracks(step);
}

void Timeline::TellTracks(const StepRecord& step) {
  const StepPlan& plan = step.plan;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    const auto track = tracks_.find(plan.requests[row].value);
    if (track == tracks_.end()) continue;
    track->second.Runs(step, {plan.batch.q_len(row), plan.batch.kv_lens[row],
                              plan.wants_logits[row] != 0});
  }
  for (auto& [id, track] : tracks_) {
    if (track.last_step_id() == plan.step_id) continue;
    const Explanation explanation = scheduler_.Explain({id});
    if (explanation.state == Explanation::State::kWaiting) {
      track.Waits(step, WaitOf(explanation));
    } else {
      track.Pauses(step);
    }
  }
}

RequestTrack::Wait Timeline::WaitOf(const Explanation& explanation) const {
  RequestTrack::Wait wait;
  wait.reason = explanation.reason;
  wait.needed = explanation.needed;
  wait.available = explanation.available;
  wait.num_waiting = scheduler_.num_waiting();
  if (explanation.behind.value != 0) {
    const Scheduler::HeadOfQueue head = scheduler_.head_of_queue();
    wait.head_request = index_.at(head.id.value);
    wait.head_reason = head.reason;
  }
  return wait;
}

void Timeline::WriteStep(const StepRecord& step) {
  const StepPlan& plan = step.plan;
  const int32_t decodes = plan.batch.distribution[0];
  TraceArgs args;
  args.Add("step", plan.step_id)
      .Add("sequences", int64_t{plan.batch.num_seqs})
      .Add("of_one_token", int64_t{decodes})
      .Add("tokens", int64_t{plan.batch.total_q_tokens()})
      .Add("kv_tokens", plan.kv_tokens)
      .Add("preemptions_so_far", step.preemptions);
  events_.Slice(kSteps, {step.start_us, step.end_us}, "step",
                absl::StrCat("bound by ", StepBoundName(step.time.bound)),
                args);
}

void Timeline::OnIdle(const IdleRecord& idle) {
  if (is_shown()) WriteCounters(idle.start_us, NothingRuns(idle.pages));
}

Timeline::Counters Timeline::NothingRuns(
    const PageAllocator::Stats& pages) const {
  return {pages.lent_pages,         pages.cached_pages,       pages.free_pages,
          scheduler_.num_running(), scheduler_.num_waiting(), 0};
}

void Timeline::WriteCounters(int64_t at_us, const Counters& counters) {
  if (shown_ == counters) return;
  shown_ = counters;
  events_.Counter(kServerProcess, at_us, "pages",
                  TraceArgs()
                      .Add("running", int64_t{counters.lent_pages})
                      .Add("cached", int64_t{counters.cached_pages})
                      .Add("free", int64_t{counters.free_pages}));
  events_.Counter(kServerProcess, at_us, "requests",
                  TraceArgs()
                      .Add("running", int64_t{counters.running})
                      .Add("waiting", int64_t{counters.waiting}));
  events_.Counter(
      kServerProcess, at_us, "budget",
      TraceArgs().Add("used_tokens", int64_t{counters.budget_tokens}));
}

void Timeline::Finish(int64_t end_us) {
  for (auto& [id, track] : tracks_) track.Stops(end_us);
  tracks_.clear();
  events_.Finish();
}

}  // namespace tidewheel
