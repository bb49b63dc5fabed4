// What follows a step: tokens are applied, pages published, sequences ended.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "scheduler/scheduler.h"

namespace tidewheel {

absl::StatusOr<int32_t> Scheduler::FindInFlight(int64_t step_id) const {
  for (int32_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].plan.step_id == step_id) return i;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", step_id, " is not in flight, ",
      steps_.empty() ? std::string("none is")
                     : absl::StrCat("step ", steps_[0].plan.step_id, " is"),
      "; its result came late or twice and is dropped"));
}

absl::Status Scheduler::Commit(int64_t step_id,
                               std::span<const int32_t> sampled) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const int32_t place, FindInFlight(step_id));
  const PlannedStep& done = steps_[0];
  if (place != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", step_id, " was planned after step ", done.plan.step_id,
        ", which is in flight too; commit that one first"));
  }
  if (sampled.size() != static_cast<size_t>(done.plan.batch.num_seqs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step_id, " has ", done.plan.batch.num_seqs, " rows but ",
        sampled.size(), " sampled tokens came; give one entry a row"));
  }
  steps_.PopOldest();
  allocator_->CompleteCopies(step_id);
  ++stats_.steps;
  stats_.committed_tokens += done.plan.batch.total_q_tokens();
  if (num_suspects_ > 0 && done.narrows_failure) ClearSuspicion(done);
  CommitChunks(done, sampled);
  CommitDecodes(done, sampled);
  if (num_failing_ > 0) ForgiveFailures(done, sampled);
  if (std::any_of(sampled.begin(), sampled.end(),
                  [](int32_t token) { return token < 0; })) {
    TakeBackUnsampled(done, sampled);
  }
  EndMarked();
  return absl::OkStatus();
}

// Where what ran in this row of the step runs now; -1 if it does not, or has
// started over since.
int32_t Scheduler::CurrentRow(const PlannedStep& done, int32_t row) const {
  if (done.row_changes == rows_.changes()) return row;
  const int32_t now = sequences_[done.slots[row]].row;
  return now >= 0 && rows_.serial[now] == done.serials[row] ? now : -1;
}

void Scheduler::CommitDecodes(const PlannedStep& done,
                              std::span<const int32_t> sampled) {
  row_scratch_.clear();
  const bool unmoved = done.row_changes == rows_.changes();
  auto event = done.event_rows.begin();
  int32_t num_learned = 0;
  for (int32_t row = 0; row < done.num_decodes; ++row) {
    const bool has_event = event != done.event_rows.end() && *event == row;
    if (has_event) ++event;
    const int32_t now = unmoved ? row : CurrentRow(done, row);
    const int32_t token = sampled[row];
    if (now < 0 || token < 0) [[unlikely]] {
      continue;
    }
    rows_.Learn(now, token);
    ++num_learned;
    if (has_event || token == rows_.end_token[now]) {
      __builtin_prefetch(&sequences_[rows_.slot[now]]);
      row_scratch_.push_back(row);
    }
  }
  stats_.generated_tokens += num_learned;
  if (allocator_->options().enable_prefix_cache) {
    // Hashing all pages before publishing any hides the index's cache misses.
    for (const int32_t row : row_scratch_) {
      Sequence& sequence = sequences_[done.slots[row]];
      HashKnownPages(sequence, done.kv_lens[row]);
      if (sequence.num_hashed > 0) {
        allocator_->PrefetchPublish(sequence.hashes[sequence.num_hashed - 1]);
      }
    }
  }
  for (const int32_t row : row_scratch_) {
    CommitEvent(CurrentRow(done, row), done.kv_lens[row], sampled[row]);
  }
}

void Scheduler::CommitChunks(const PlannedStep& done,
                             std::span<const int32_t> sampled) {
  for (int32_t row = done.num_decodes; row < done.plan.batch.num_seqs; ++row) {
    const int32_t now = CurrentRow(done, row);
    if (now < 0) continue;
    if (done.wants_logits[row] == 0) {
      PublishFullPages(now, done.kv_lens[row]);
    } else if (sampled[row] >= 0) {
      rows_.Learn(now, sampled[row]);
      ++stats_.generated_tokens;
      CommitEvent(now, done.kv_lens[row], sampled[row]);
    }
  }
}

void Scheduler::PublishFullPages(int32_t row, int32_t committed) {
  if (!allocator_->options().enable_prefix_cache) return;
  Sequence& sequence = sequences_[rows_.slot[row]];
  HashKnownPages(sequence, committed);
  allocator_->Publish(row, sequence.content(committed), committed);
}

// The first `committed` tokens of the row have KV, and `token` follows them: it
// may end the sequence, and its last page may be full.
void Scheduler::CommitEvent(int32_t row, int32_t committed, int32_t token) {
  const int32_t slot = rows_.slot[row];
  const Sequence& sequence = sequences_[slot];
  PublishFullPages(row, committed);
  const int32_t length = committed + 1;
  if (length >= sequence.min_tokens) {
    if (token == sequence.end_token) {
      MarkEnd(slot, FinishReason::kEndToken);
      return;
    }
    const auto* stops = sequence.stop_tokens.begin();
    const auto* stops_end = stops + sequence.num_stop_tokens;
    if (std::find(stops, stops_end, token) != stops_end) {
      MarkEnd(slot, FinishReason::kStopToken);
      return;
    }
  }
  if (length == sequence.max_tokens) MarkEnd(slot, sequence.limit_reason);
}

// Rows that asked for a token and got none return to where they were.
void Scheduler::TakeBackUnsampled(const PlannedStep& done,
                                  std::span<const int32_t> sampled) {
  for (int32_t row = 0; row < done.plan.batch.num_seqs; ++row) {
    if (done.wants_logits[row] == 0 || sampled[row] >= 0) continue;
    const int32_t now = CurrentRow(done, row);
    if (now < 0) continue;
    const int32_t slot = rows_.slot[now];
    rows_.StartOver(now, done.kv_lens[row] - done.q_len(row));
    CountFailure(slot);
  }
}

void Scheduler::CountFailure(int32_t slot) {
  Sequence& sequence = sequences_[slot];
  if (sequence.step_failures == 0) ++num_failing_;
  if (++sequence.step_failures >= options_.max_step_failures) {
    MarkEnd(slot, FinishReason::kStepFailed);
  }
}

void Scheduler::ForgiveFailures(const PlannedStep& done,
                                std::span<const int32_t> sampled) {
  for (int32_t row = 0; row < done.plan.batch.num_seqs; ++row) {
    if (done.wants_logits[row] != 0 && sampled[row] < 0) continue;
    const int32_t now = CurrentRow(done, row);
    if (now < 0) continue;
    Sequence& sequence = sequences_[rows_.slot[now]];
    if (sequence.step_failures == 0) continue;
    sequence.step_failures = 0;
    --num_failing_;
  }
}

// The step went well: its rows are not what failed.
void Scheduler::ClearSuspicion(const PlannedStep& done) {
  for (int32_t row = 0; row < done.plan.batch.num_seqs; ++row) {
    const int32_t now = CurrentRow(done, row);
    if (now < 0) continue;
    bool& is_suspect = sequences_[rows_.slot[now]].is_suspect;
    if (std::exchange(is_suspect, false)) --num_suspects_;
  }
  suspect_limit_ = std::min(2 * suspect_limit_, options_.max_num_seqs);
}

absl::Status Scheduler::Fail(int64_t step_id) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const int32_t place, FindInFlight(step_id));
  ++stats_.failed_steps;
  const PlannedStep& failed = steps_[place];
  stats_.dropped_steps += steps_.size() - place - 1;
  while (steps_.size() > place) Discard(steps_.PopNewest());
  allocator_->RecallCopies(step_id);
  const int32_t num_seqs = failed.plan.batch.num_seqs;
  for (int32_t row = 0; row < num_seqs; ++row) {
    const int32_t now = CurrentRow(failed, row);
    if (now < 0) continue;
    bool& is_suspect = sequences_[rows_.slot[now]].is_suspect;
    if (!std::exchange(is_suspect, true)) ++num_suspects_;
    if (num_seqs == 1) CountFailure(rows_.slot[now]);
  }
  suspect_limit_ = std::max(num_seqs / 2, 1);
  EndMarked();
  return absl::OkStatus();
}

// The newest step in flight did not happen.
void Scheduler::Discard(const PlannedStep& lost) {
  allocator_->RestoreChanges(lost.plan.changed_rows, lost.plan.previous_rows);
  for (int32_t row = 0; row < lost.plan.batch.num_seqs; ++row) {
    const int32_t now = CurrentRow(lost, row);
    if (now < 0) continue;
    rows_.Retreat(now, lost.q_len(row), lost.wants_logits[row] != 0);
    rows_.Settle(now);
  }
}

absl::Status Scheduler::Cancel(RequestId id) {
  const std::optional<int32_t> slot = sequences_.Find(id);
  if (!slot.has_value() || sequences_[*slot].state == SequenceState::kEnded ||
      sequences_[*slot].length_when_cancelled >= 0) {
    return absl::NotFoundError(
        absl::StrCat("request ", id.value,
                     " is not unfinished; it has ended, was cancelled, or was "
                     "never accepted"));
  }
  Sequence& sequence = sequences_[*slot];
  if (!steps_.empty() && sequence.state == SequenceState::kRunning) {
    // What the device samples for it is dropped.
    sequence.length_when_cancelled = rows_.known[sequence.row];
    MarkEnding(*slot);
    MarkEnd(*slot, FinishReason::kCancelled);
    return absl::OkStatus();
  }
  End(*slot, FinishReason::kCancelled);
  return absl::OkStatus();
}

void Scheduler::MarkEnding(int32_t slot) {
  if (std::exchange(sequences_[slot].is_ending, true)) return;
  ending_slots_.push_back(slot);
}

void Scheduler::MarkEnd(int32_t slot, FinishReason reason) {
  endings_.push_back({slot, reason});
}

void Scheduler::EndMarked() {
  // A cancelled request may also have come to its end by itself; it then ends
  // as cancelled, once, since that mark was made first.
  for (const Ending& ending : endings_) {
    if (sequences_[ending.slot].state != SequenceState::kEnded) {
      End(ending.slot, ending.reason);
    }
  }
  endings_.clear();
}

void Scheduler::End(int32_t slot, FinishReason reason) {
  Sequence& sequence = sequences_[slot];
  if (sequence.state == SequenceState::kRunning) {
    rows_.Leave(sequence.row);
    if (sequence.length_when_cancelled >= 0) {
      stats_.generated_tokens -=
          sequence.num_tokens - sequence.length_when_cancelled;
      sequence.num_tokens = sequence.length_when_cancelled;
    }
  } else {
    queue_.Remove(slot);
    if (sequence.admitted_us < 0) Unlink(slot);
  }
  sequence.state = SequenceState::kEnded;
  sequence.is_ending = false;
  if (std::exchange(sequence.is_suspect, false)) --num_suspects_;
  if (sequence.step_failures > 0) --num_failing_;
  allocator_->ReleaseIsolation(sequence.isolation);
  ++stats_.finished;
  finished_.push_back({sequence.id, reason, sequence.prompt_tokens,
                       sequence.num_tokens - sequence.prompt_tokens,
                       sequence.cached_tokens, sequence.preemptions,
                       sequence.submitted_us, sequence.admitted_us});
}

void Scheduler::Unlink(int32_t slot) {
  const int32_t newer = sequences_[slot].newer;
  const int32_t older = sequences_[slot].older;
  (older >= 0 ? sequences_[older].newer : oldest_waiting_) = newer;
  (newer >= 0 ? sequences_[newer].older : newest_waiting_) = older;
}

std::span<const FinishedRequest> Scheduler::TakeFinished() {
  for (const FinishedRequest& finished : taken_) {
    sequences_.Recycle(*sequences_.Find(finished.id));
  }
  taken_.clear();
  std::swap(taken_, finished_);
  return taken_;
}

}  // namespace tidewheel
