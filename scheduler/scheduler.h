// Scheduler: decides, step by step, which tokens of which requests run.
//
// It owns the page allocator, the queue and the step plans. It runs nothing
// and reads no clock: time is passed in, a ModelRunner executes the plans.
//
// Lifecycle:
//   1. Create, with an allocator.
//   2. Submit and Cancel at any time between other calls.
//   3. Plan; run the plan; Commit its tokens, or Fail it. Repeat while
//      has_unfinished().
//   4. TakeFinished reports every accepted request exactly once.
//
// With max_steps_in_flight 2 a second step may be planned before the first is
// committed (StepPipeline does that). The device runs steps in the order in
// which they were planned, so pages that one gives back may be written by the
// next. What a sequence that has stopped, was cancelled or preempted, or whose
// step failed, computes in a later step in flight is dropped.
//
// A step: decodes first, then chunks of running prefills, then admissions, all
// within max_num_batched_tokens, max_num_seqs and the pages that there are.
// Pages that lack are taken from a running sequence that ranks lower, which is
// computed again later; admission never takes them from anybody.
//
// Invariants (CheckInvariants): those of allocator, queue and rows; accepted =
// finished + waiting + running; the highest-ranked running sequence is never
// preempted; no sequence is preempted twice without progress in between.
//
// Single-threaded. A step is O(rows + tokens) and never O(pool) or O(waiting).
// Plan, Commit, Fail and Cancel allocate nothing; Submit may.

#ifndef TIDEWHEEL_SCHEDULER_SCHEDULER_H_
#define TIDEWHEEL_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/page_allocator.h"
#include "scheduler/explanation.h"
#include "scheduler/request.h"
#include "scheduler/running_rows.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/scheduler_stats.h"
#include "scheduler/sequence_store.h"
#include "scheduler/step_plan.h"
#include "scheduler/steps_in_flight.h"
#include "scheduler/submission.h"
#include "scheduler/waiting_queue.h"

namespace tidewheel {

class Scheduler {
 public:
  struct PlanResult {
    // Nothing to run where null; if steps are in flight, perhaps when the first
    // of them is committed.
    const StepPlan* step = nullptr;
    // Where nothing runs or is in flight although requests are unfinished: the
    // first of them and what it lacks. Only pinned pages lead here.
    RequestId blocked;
    WaitReason reason = WaitReason::kNotTried;
  };

  // Errors: InvalidArgument that names value, limit and remedy, among them
  // limits that the allocator's page table does not cover.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(
      const SchedulerOptions& options,
      std::unique_ptr<PageAllocator> allocator);

  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Errors: a refusal (submission.h); then nothing has changed.
  absl::StatusOr<RequestId> Submit(const Request& request, int64_t now_us);

  // A new request that goes on from all that `id` knows now, with its limits
  // and stops; parallel sampling is a prompt and its forks. A running
  // request's pages are shared, and copied where both would write; otherwise
  // the fork waits like any other request.
  // Errors: NotFound if there is no such unfinished request,
  // FailedPrecondition while a step is in flight, since its tokens are not
  // known, a refusal (submission.h).
  absl::StatusOr<RequestId> Fork(RequestId id, int64_t now_us);

  // Ends the request, also while a step that computes it is in flight.
  // Errors: NotFound if there is no such unfinished request.
  absl::Status Cancel(RequestId id);

  // The next step. REQUIRES: fewer than max_steps_in_flight are in flight;
  // now_us does not go back.
  PlanResult Plan(int64_t now_us);

  // Applies the oldest step in flight: sampled[row] is the next token of each
  // row with wants_logits, or kNoToken. Errors: FailedPrecondition if that step
  // is not in flight (a late or repeated result) or another is to be committed
  // first, InvalidArgument if `sampled` has not num_seqs entries; then nothing
  // has changed.
  absl::Status Commit(int64_t step_id, std::span<const int32_t> sampled);

  // The step in flight did not happen, nor did any that was planned after it.
  // Their sequences return to where they were and are computed again, those of
  // this step in smaller batches until the one that fails is alone.
  // Errors: FailedPrecondition if that step is not in flight.
  absl::Status Fail(int64_t step_id);

  // Requests that ended since the last call, each once. The span and Tokens of
  // these requests stay valid until the next call.
  std::span<const FinishedRequest> TakeFinished();

  // Prompt and generated tokens whose steps are committed; empty for an unknown
  // request.
  std::span<const int32_t> Tokens(RequestId id) const;
  Explanation Explain(RequestId id) const;
  // The waiting request that goes first, 0 if none waits, and what it lacked in
  // the last plan. O(1), for whoever records each step.
  struct HeadOfQueue {
    RequestId id;
    WaitReason reason = WaitReason::kNotTried;
  };
  HeadOfQueue head_of_queue() const;

  // Keeps a prefix cached. Errors: as PageAllocator::PinPrefix.
  absl::StatusOr<PageAllocator::Pin> PinPrefix(std::span<const int32_t> tokens,
                                               const IsolationKey& key);
  void Unpin(int32_t handle) { allocator_->Unpin(handle); }
  absl::Status ResetPrefixCache(PageAllocator::ResetMode mode) {
    return allocator_->ResetPrefixCache(mode);
  }

  bool has_unfinished() const { return num_waiting() + num_running() > 0; }
  int32_t num_steps_in_flight() const { return steps_.size(); }
  int32_t num_waiting() const { return queue_.size(); }
  int32_t num_running() const { return rows_.num_rows(); }
  const SchedulerStats& stats() const { return stats_; }
  const PageAllocator& allocator() const { return *allocator_; }
  const SchedulerOptions& options() const { return options_; }

  // O(pool + table). Errors: Internal that says what is out of step.
  absl::Status CheckInvariants() const;

 private:
  Scheduler(const SchedulerOptions& options,
            std::unique_ptr<PageAllocator> allocator);

  absl::StatusOr<RequestId> Accept(const Request& request, int64_t now_us);
  absl::Status CheckRoom() const;
  void Enqueue(int32_t slot, int64_t now_us);
  bool TryShareRow(int32_t parent, int32_t child, int64_t now_us);
  int32_t PromisedTokens(const Sequence& sequence) const;
  int64_t RankKey(int32_t priority, int64_t now_us) const;
  int32_t max_prefill_chunk() const {
    return options_.max_prefill_chunk > 0 ? options_.max_prefill_chunk
                                          : options_.max_num_batched_tokens;
  }
  int32_t watermark_pages() const {
    return options_.admission == AdmissionPolicy::kOptimistic
               ? options_.watermark_pages
               : 0;
  }

  // The phases of a plan, in order.
  void ExpireWaiting();
  void HoldEnding();
  void HoldAllButSuspects();
  void ResumeDecodes();
  void TakePagesForDecodes();
  int32_t ScheduleChunks(int32_t budget);
  void AdmitWaiting(int32_t budget);
  PlanResult BuildPlan();

  bool TakePageForDecode(int32_t slot);
  int32_t ChooseVictim(int32_t needy_row) const;
  void Preempt(int32_t row);
  bool TryAdmit(int32_t slot, int32_t& budget);
  void AdmitBehindHead(int32_t& budget);
  void HashKnownPages(Sequence& sequence, int32_t num_tokens);
  void CountAdmission(Sequence& sequence, int32_t cached_tokens);
  void FillMetadata(PlannedStep& step);
  void NameRows(PlannedStep& step);
  void TrackChanges(PlannedStep& step);
  void AdvanceRows(PlannedStep& step);
  void ValidatePlan(const StepPlan& plan) const;
  void ExplainWaiting(int32_t slot, Explanation& explanation) const;
  WaitReason ReasonNow(int32_t slot) const;

  // The phases of a commit.
  void CommitDecodes(const PlannedStep& step, std::span<const int32_t> sampled);
  void CommitChunks(const PlannedStep& step, std::span<const int32_t> sampled);
  void CommitEvent(int32_t row, int32_t committed, int32_t token);
  void PublishFullPages(int32_t row, int32_t committed);
  void TakeBackUnsampled(const PlannedStep& step,
                         std::span<const int32_t> sampled);
  void CountFailure(int32_t slot);
  void ForgiveFailures(const PlannedStep& step,
                       std::span<const int32_t> sampled);
  void ClearSuspicion(const PlannedStep& step);
  void Discard(const PlannedStep& step);
  int32_t CurrentRow(const PlannedStep& step, int32_t row) const;

  // Its place among the steps in flight. Errors: FailedPrecondition if there is
  // none.
  absl::StatusOr<int32_t> FindInFlight(int64_t step_id) const;

  void MarkEnding(int32_t slot);
  void End(int32_t slot, FinishReason reason);
  void EndMarked();
  void MarkEnd(int32_t slot, FinishReason reason);
  void Unlink(int32_t slot);

  SchedulerOptions options_;
  std::unique_ptr<PageAllocator> allocator_;
  SequenceStore sequences_;
  WaitingQueue queue_;
  RunningRows rows_;
  SchedulerStats stats_;
  int64_t now_us_ = 0;

  StepsInFlight steps_;
  int64_t last_step_id_ = 0;
  int64_t plans_ = 0;              // calls of Plan
  bool waits_for_ending_ = false;  // somebody ends when steps are committed
  bool preempted_in_step_ = false;
  int32_t num_suspects_ = 0;
  int32_t suspect_limit_ = 0;
  int32_t num_failing_ = 0;      // sequences with step_failures > 0
  int32_t oldest_waiting_ = -1;  // never admitted, in order of submission
  int32_t newest_waiting_ = -1;

  // Scratch, with fixed capacity.
  std::vector<int32_t> row_scratch_;
  std::vector<int32_t> waiting_scratch_;
  std::vector<int32_t> ending_slots_;  // that are or were is_ending
  struct Ending {
    int32_t slot;
    FinishReason reason;
  };
  std::vector<Ending> endings_;
  std::vector<FinishedRequest> finished_;
  std::vector<FinishedRequest> taken_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_SCHEDULER_H_
