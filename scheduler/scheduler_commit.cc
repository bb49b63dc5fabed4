// What follows a step: tokens are applied, pages published, sequences ended.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "scheduler/scheduler.h"

namespace tidewheel {

absl::Status Scheduler::CheckInFlight(int64_t step_id) const {
  if (in_flight_ && step_id == plan_.step_id) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step_id, " is not in flight, ",
                   in_flight_ ? absl::StrCat("step ", plan_.step_id, " is")
                              : std::string("none is"),
                   "; its result came late or twice and is dropped"));
}

absl::Status Scheduler::Commit(int64_t step_id,
                               std::span<const int32_t> sampled) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckInFlight(step_id));
  if (sampled.size() != static_cast<size_t>(rows_.num_scheduled)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step_id, " has ", rows_.num_scheduled, " rows but ",
        sampled.size(), " sampled tokens came; give one entry a row"));
  }
  in_flight_ = false;
  allocator_->CompleteCopies();
  allocator_->ClearChanges();
  ++stats_.steps;
  stats_.committed_tokens += plan_.batch.total_q_tokens();
  if (num_suspects_ > 0) ClearSuspicion();
  CommitChunks(sampled);
  CommitDecodes(sampled);
  EndMarked();
  return absl::OkStatus();
}

void Scheduler::CommitDecodes(std::span<const int32_t> sampled) {
  row_scratch_.clear();
  for (int32_t row = 0; row < rows_.num_decodes; ++row) {
    const int32_t token = sampled[row];
    if (token < 0) [[unlikely]] {
      --stats_.generated_tokens;
      TakeBack(row);
      continue;
    }
    const int32_t computed = ++rows_.computed[row];
    rows_.length[row] = computed + 1;
    rows_.tokens[row][computed] = token;
    rows_.last_token[row] = token;
    if (computed == rows_.event_at[row] || token == rows_.end_token[row]) {
      __builtin_prefetch(&sequences_[rows_.slot[row]]);
      row_scratch_.push_back(row);
    }
  }
  stats_.generated_tokens += rows_.num_decodes;
  if (num_failing_ > 0) ForgiveFailures(sampled);
  if (allocator_->options().enable_prefix_cache) {
    // Hashing all pages before publishing any hides the index's cache misses.
    for (const int32_t row : row_scratch_) {
      Sequence& sequence = sequences_[rows_.slot[row]];
      HashKnownPages(sequence, rows_.computed[row]);
      if (sequence.num_hashed > 0) {
        allocator_->PrefetchPublish(sequence.hashes[sequence.num_hashed - 1]);
      }
    }
  }
  for (const int32_t row : row_scratch_) CommitEvent(row);
}

void Scheduler::CommitChunks(std::span<const int32_t> sampled) {
  for (int32_t row = rows_.num_decodes; row < rows_.num_scheduled; ++row) {
    if (wants_logits_[row] != 0 && sampled[row] < 0) {
      TakeBack(row);
      continue;
    }
    rows_.computed[row] += rows_.q_len[row];
    if (wants_logits_[row] == 0) {
      PublishFullPages(row);
      rows_.SetNextEvent(row);
      continue;
    }
    const int32_t token = sampled[row];
    rows_.tokens[row][rows_.length[row]++] = token;
    rows_.last_token[row] = token;
    ++stats_.generated_tokens;
    CommitEvent(row);
  }
}

void Scheduler::PublishFullPages(int32_t row) {
  if (!allocator_->options().enable_prefix_cache) return;
  Sequence& sequence = sequences_[rows_.slot[row]];
  HashKnownPages(sequence, rows_.computed[row]);
  allocator_->Publish(row, sequence.content(rows_.computed[row]),
                      rows_.computed[row]);
}

// The row's last token may end it; its last page may be full.
void Scheduler::CommitEvent(int32_t row) {
  const int32_t slot = rows_.slot[row];
  const Sequence& sequence = sequences_[slot];
  PublishFullPages(row);
  const int32_t token = rows_.last_token[row];
  const int32_t length = rows_.length[row];
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
  if (length == sequence.max_tokens) {
    MarkEnd(slot, sequence.limit_reason);
    return;
  }
  rows_.SetNextEvent(row);
}

// The runner gave no token although the row asked for one: the row returns to
// where it was.
void Scheduler::TakeBack(int32_t row) {
  ReturnPages(row);
  CountFailure(rows_.slot[row]);
}

// Gives back what was taken for tokens that were not computed after all.
void Scheduler::ReturnPages(int32_t row) {
  allocator_->GiveBack(row, rows_.computed[row]);
  rows_.capacity[row] =
      std::min(rows_.capacity[row], allocator_->capacity(row));
}

void Scheduler::CountFailure(int32_t slot) {
  Sequence& sequence = sequences_[slot];
  if (sequence.step_failures == 0) ++num_failing_;
  if (++sequence.step_failures >= options_.max_step_failures) {
    MarkEnd(slot, FinishReason::kStepFailed);
  }
}

void Scheduler::ForgiveFailures(std::span<const int32_t> sampled) {
  for (int32_t row = 0; row < rows_.num_scheduled; ++row) {
    Sequence& sequence = sequences_[rows_.slot[row]];
    if (sequence.step_failures == 0) continue;
    if (wants_logits_[row] != 0 && sampled[row] < 0) continue;
    sequence.step_failures = 0;
    --num_failing_;
  }
}

// The step went well: its rows are not what failed.
void Scheduler::ClearSuspicion() {
  for (int32_t row = 0; row < rows_.num_scheduled; ++row) {
    bool& is_suspect = sequences_[rows_.slot[row]].is_suspect;
    if (std::exchange(is_suspect, false)) --num_suspects_;
  }
  suspect_limit_ = std::min(2 * suspect_limit_, options_.max_num_seqs);
}

absl::Status Scheduler::Fail(int64_t step_id) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckInFlight(step_id));
  in_flight_ = false;
  ++stats_.failed_steps;
  for (int32_t row = 0; row < rows_.num_scheduled; ++row) {
    ReturnPages(row);
    bool& is_suspect = sequences_[rows_.slot[row]].is_suspect;
    if (!std::exchange(is_suspect, true)) ++num_suspects_;
  }
  if (rows_.num_scheduled == 1) CountFailure(rows_.slot[0]);
  suspect_limit_ = std::max(rows_.num_scheduled / 2, 1);
  EndMarked();
  return absl::OkStatus();
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
  if (in_flight_ && sequences_[*slot].state == SequenceState::kRunning) {
    // The device may still write to its pages. What it samples is dropped.
    sequences_[*slot].length_when_cancelled =
        rows_.length[sequences_[*slot].row];
    MarkEnd(*slot, FinishReason::kCancelled);
    return absl::OkStatus();
  }
  End(*slot, FinishReason::kCancelled);
  return absl::OkStatus();
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
