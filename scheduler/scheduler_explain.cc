// What people ask about requests, and what a plan is checked for.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "scheduler/scheduler.h"

namespace tidewheel {

absl::string_view WaitReasonName(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNotTried:
      return "not_tried";
    case WaitReason::kBehind:
      return "behind";
    case WaitReason::kRows:
      return "rows";
    case WaitReason::kTokens:
      return "tokens";
    case WaitReason::kPages:
      return "pages";
    case WaitReason::kProtected:
      return "protected";
    case WaitReason::kPreempted:
      return "preempted";
    case WaitReason::kPreempting:
      return "preempting";
    case WaitReason::kFailures:
      return "failures";
  }
  return "unknown";
}

Explanation Scheduler::Explain(RequestId id) const {
  Explanation explanation;
  const std::optional<int32_t> slot = sequences_.Find(id);
  if (!slot.has_value()) {
    explanation.text = absl::StrCat("request ", id.value, " is not known");
    return explanation;
  }
  const Sequence& sequence = sequences_[*slot];
  switch (sequence.state) {
    case SequenceState::kFree:
      break;
    case SequenceState::kEnded:
      explanation.state = Explanation::State::kEnded;
      explanation.text = "it has ended";
      break;
    case SequenceState::kRunning:
      explanation.state = Explanation::State::kRunning;
      explanation.since_us = sequence.running_since_us;
      explanation.text =
          absl::StrCat("it runs in row ", sequence.row, " with ",
                       rows_.computed[sequence.row], " of ",
                       rows_.known[sequence.row], " tokens computed");
      break;
    case SequenceState::kWaiting:
      ExplainWaiting(*slot, explanation);
      break;
  }
  return explanation;
}

// A reason of an earlier plan does not hold for one that the last plan did not
// get to.
WaitReason Scheduler::ReasonNow(int32_t slot) const {
  if (sequences_[slot].tried_in_step == plans_) {
    return sequences_[slot].wait_reason;
  }
  if (slot != queue_.first()) return WaitReason::kBehind;
  return preempted_in_step_ ? WaitReason::kPreempting : WaitReason::kFailures;
}

Scheduler::HeadOfQueue Scheduler::head_of_queue() const {
  if (queue_.empty()) return {};
  const int32_t head = queue_.first();
  return {sequences_[head].id, ReasonNow(head)};
}

void Scheduler::ExplainWaiting(int32_t slot, Explanation& explanation) const {
  const Sequence& sequence = sequences_[slot];
  const int32_t head = queue_.first();
  explanation.state = Explanation::State::kWaiting;
  explanation.since_us = sequence.waiting_since_us;
  explanation.reason = ReasonNow(slot);
  if (head != slot) explanation.behind = sequences_[head].id;
  explanation.needed = sequence.wait_needed;
  explanation.available = sequence.wait_available;
  switch (explanation.reason) {
    case WaitReason::kNotTried:
      explanation.text = "no step was planned since it began to wait";
      break;
    case WaitReason::kBehind:
      explanation.text =
          absl::StrCat("it waits behind request ", explanation.behind.value,
                       ", which goes first and waits too (",
                       WaitReasonName(ReasonNow(head)), ")");
      break;
    case WaitReason::kRows:
      explanation.text =
          absl::StrCat("all ", options_.max_num_seqs,
                       " rows are taken; one must end, or raise max_num_seqs");
      break;
    case WaitReason::kTokens:
      explanation.text = absl::StrCat(
          "the step's tokens are spent (", explanation.available, " left, ",
          explanation.needed, " needed of ", options_.max_num_batched_tokens,
          "); it runs in a later step, or raise max_num_batched_tokens");
      break;
    case WaitReason::kPages:
      explanation.text = absl::StrCat(
          "it needs ", explanation.needed, " pages and ", explanation.available,
          " of ", allocator_->options().total_num_pages - 1,
          " are not promised to others; sequences must end, or raise "
          "total_num_pages",
          options_.admission == AdmissionPolicy::kReserve
              ? ", or admit optimistically, or lower max_new_tokens"
              : "");
      break;
    case WaitReason::kProtected:
      explanation.text = absl::StrCat("one of those before it, from request ",
                                      explanation.behind.value,
                                      " on, was passed ", options_.max_bypasses,
                                      " times and may not be passed again");
      break;
    case WaitReason::kPreempted:
      explanation.text =
          "it was preempted for lack of pages and waits until others have "
          "made progress";
      break;
    case WaitReason::kPreempting:
      explanation.text =
          "pages were just taken from a running sequence, and a step that does "
          "so admits none; admission goes on after that, or raise "
          "total_num_pages";
      break;
    case WaitReason::kFailures:
      explanation.text =
          "a failed step is being narrowed down; admission goes on after that";
      break;
  }
}

void Scheduler::ValidatePlan(const StepPlan& plan) const {
  const auto require = [](const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "invalid step: %s\n", status.ToString().c_str());
    std::abort();
  };
  require(CheckInvariants());
  require(ValidateDynamic(plan.batch));
  require(ValidateStrict(plan.batch));
}

}  // namespace tidewheel
