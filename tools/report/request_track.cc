#include "tools/report/request_track.h"

#include "absl/strings/str_cat.h"
#include "scheduler/request.h"
#include "scheduler/submission.h"

namespace tidewheel {
namespace {

// In the words of a reader of the timeline, who has not read the scheduler.
absl::string_view WaitName(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNotTried:
      return "next plan";
    case WaitReason::kBehind:
      return "policy";
    case WaitReason::kPreempted:
      return "progress of others";
    case WaitReason::kPreempting:
      return "a step without preemption";
    default:
      return WaitReasonName(reason);
  }
}

double Ms(int64_t us) { return static_cast<double>(us) / 1e3; }

bool IsSplit(const RequestTrack::Wait& a, const RequestTrack::Wait& b) {
  return a.reason != b.reason ||
         (a.reason == WaitReason::kBehind && a.head_reason != b.head_reason);
}

}  // namespace

void RequestTrack::Runs(const StepRecord& step, const Row& row) {
  last_step_id_ = step.plan.step_id;
  if (decodes_) {
    if (!is_open_ || phase_ != Phase::kDecode) {
      Turn(Phase::kDecode, step.start_us);
      tokens_ = 0;
      first_step_id_ = step.plan.step_id;
      slowest_step_us_ = -1;
    }
    if (row.wants_logits) ++tokens_;
    const int64_t step_us = step.end_us - step.start_us;
    if (step_us > slowest_step_us_) {
      slowest_step_us_ = step_us;
      slowest_step_id_ = step.plan.step_id;
    }
    return;
  }
  WriteOpen(step.start_us);
  start_us_ = step.start_us;
  WriteChunk(step, row);
  start_us_ = step.end_us;
  is_admitted_ = has_run_ = true;
  decodes_ = row.wants_logits;
  if (decodes_) is_preempted_ = false;
  if (row.wants_logits && !has_first_token_) {
    has_first_token_ = true;
    events_.Instant(track_, step.end_us, "first token", TraceArgs());
  }
}

void RequestTrack::Pauses(const StepRecord& step) {
  last_step_id_ = step.plan.step_id;
  if (!is_open_ || phase_ != Phase::kPaused) {
    Turn(Phase::kPaused, step.start_us);
  }
}

void RequestTrack::Waits(const StepRecord& step, const Wait& wait) {
  last_step_id_ = step.plan.step_id;
  const bool is_split =
      !is_open_ || phase_ != Phase::kWaiting || IsSplit(wait_, wait);
  if (!is_split) return;
  WriteOpen(step.start_us);
  if (is_admitted_) is_preempted_ = true;
  is_admitted_ = decodes_ = false;
  is_open_ = true;
  phase_ = Phase::kWaiting;
  start_us_ = step.start_us;
  wait_ = wait;
}

void RequestTrack::Ends(const RequestRecord& record) {
  if (record.state == RequestRecord::State::kRefused) {
    events_.Instant(track_, record.sent_us,
                    absl::StrCat("refused: ", RefusalName(record.refusal)),
                    TraceArgs());
    return;
  }
  WriteOpen(record.ended_us);
  TraceArgs args;
  args.Add("reason", FinishReasonName(record.finish_reason))
      .Add("prompt_tokens", int64_t{record.prompt_tokens})
      .Add("cached_tokens", int64_t{record.cached_tokens})
      .Add("generated_tokens", int64_t{record.generated_tokens})
      .Add("preemptions", int64_t{record.preemptions});
  if (record.first_token_us >= 0) {
    args.Add("ttft_ms", Ms(record.first_token_us - record.sent_us));
  }
  args.Add("e2el_ms", Ms(record.ended_us - record.sent_us));
  events_.Instant(track_, record.ended_us,
                  record.is_complete() ? "completed" : "cut short", args);
}

void RequestTrack::Stops(int64_t now_us) {
  WriteOpen(now_us);
  events_.Instant(track_, now_us, "unfinished when the run ended", TraceArgs());
}

void RequestTrack::Turn(Phase phase, int64_t now_us) {
  WriteOpen(now_us);
  is_open_ = true;
  phase_ = phase;
  start_us_ = now_us;
}

void RequestTrack::WriteOpen(int64_t end_us) {
  if (!is_open_) return;
  is_open_ = false;
  switch (phase_) {
    case Phase::kWaiting:
      WriteWait(end_us);
      break;
    case Phase::kPaused:
      Write(end_us, decodes_ ? "decode" : "prefill", "paused",
            TraceArgs().Add("waits_for", "tokens"));
      break;
    case Phase::kDecode:
      WriteDecode(end_us);
      break;
  }
}

void RequestTrack::WriteChunk(const StepRecord& step, const Row& row) {
  TraceArgs args;
  args.Add("step", step.plan.step_id)
      .Add("tokens", int64_t{row.query_tokens})
      .Add("tokens_so_far", int64_t{row.kv_tokens})
      .Add("tokens_of_step", int64_t{step.plan.batch.total_q_tokens()});
  if (!is_admitted_) {
    args.Add("cached_tokens", int64_t{row.kv_tokens - row.query_tokens});
  }
  Write(step.end_us, "prefill", is_preempted_ ? "prefill again" : "prefill",
        args);
}

void RequestTrack::WriteWait(int64_t end_us) {
  const bool is_behind = wait_.reason == WaitReason::kBehind;
  TraceArgs args;
  args.Add("waits_for", WaitName(wait_.reason));
  if (wait_.needed > 0 && !is_behind) {
    args.Add("needed", int64_t{wait_.needed})
        .Add("available", int64_t{wait_.available});
  }
  if (wait_.head_request >= 0) {
    args.Add("first_in_queue", int64_t{wait_.head_request})
        .Add("which_waits_for", WaitName(wait_.head_reason));
  }
  if (wait_.num_waiting > 0) {
    args.Add("requests_waiting", int64_t{wait_.num_waiting});
  }
  std::string name = absl::StrCat(has_run_ ? "preempted: " : "queued: ",
                                  WaitName(wait_.reason));
  if (is_behind) {
    absl::StrAppend(&name, " (first lacks ", WaitName(wait_.head_reason), ")");
  }
  Write(end_us, has_run_ ? "preempted" : "queued", name, args);
}

void RequestTrack::WriteDecode(int64_t end_us) {
  TraceArgs args;
  args.Add("tokens", tokens_)
      .Add("first_step", first_step_id_)
      .Add("slowest_step", slowest_step_id_)
      .Add("slowest_step_ms", Ms(slowest_step_us_));
  if (tokens_ > 0) {
    args.Add("ms_per_token",
             Ms(end_us - start_us_) / static_cast<double>(tokens_));
  }
  Write(end_us, "decode", "decode", args);
}

// A slice without length says nothing, and viewers drop it.
void RequestTrack::Write(int64_t end_us, absl::string_view category,
                         absl::string_view name, const TraceArgs& args) {
  if (end_us == start_us_) return;
  events_.Slice(track_, {start_us_, end_us}, category, name, args);
}

}  // namespace tidewheel
