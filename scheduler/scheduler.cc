#include "scheduler/scheduler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {

// The policy of one step.
Scheduler::PlanResult Scheduler::Plan(int64_t now_us) {
  TIDEWHEEL_CHECK(!steps_.full());
  TIDEWHEEL_CHECK_GE(now_us, now_us_);
  now_us_ = now_us;
  ++plans_;
  preempted_in_step_ = false;
  ExpireWaiting();
  // A failure is narrowed down one step at a time.
  if (num_suspects_ > 0 && !steps_.empty()) return {};
  rows_.BeginStep();
  HoldEnding();
  if (num_suspects_ > 0) HoldAllButSuspects();
  ResumeDecodes();
  TakePagesForDecodes();
  int32_t budget = options_.max_num_batched_tokens - rows_.num_decodes;
  budget = ScheduleChunks(budget);
  // Where pages were just taken from somebody, nobody new gets any; where a
  // failure is being narrowed down, newcomers would blur it.
  if (!preempted_in_step_ && num_suspects_ == 0) AdmitWaiting(budget);
  return BuildPlan();
}

void Scheduler::ExpireWaiting() {
  if (options_.max_queue_time_us == 0) return;
  while (oldest_waiting_ >= 0 &&
         now_us_ - sequences_[oldest_waiting_].submitted_us >=
             options_.max_queue_time_us) {
    End(oldest_waiting_, FinishReason::kQueueTimeout);
  }
}

// Sequences that end when the steps in flight are committed get no token.
void Scheduler::HoldEnding() {
  waits_for_ending_ = false;
  if (steps_.empty()) ending_slots_.clear();
  for (const int32_t slot : ending_slots_) {
    const Sequence& sequence = sequences_[slot];
    if (!sequence.is_ending || sequence.row < 0) continue;
    waits_for_ending_ = true;
    rows_.Hold(sequence.row < rows_.num_decodes ? rows_.Unschedule(sequence.row)
                                                : sequence.row);
  }
}

// After a failed step only its rows run, suspect_limit_ of them at a time.
void Scheduler::HoldAllButSuspects() {
  int32_t chosen = 0;
  const auto is_chosen = [this, &chosen](int32_t row) {
    return sequences_[rows_.slot[row]].is_suspect && chosen < suspect_limit_ &&
           ++chosen > 0;
  };
  for (int32_t row = rows_.num_decodes - 1; row >= 0; --row) {
    if (!is_chosen(row)) rows_.Hold(rows_.Unschedule(row));
  }
  for (int32_t row = rows_.num_decodes; row < rows_.num_rows(); ++row) {
    if (!rows_.is_held(row) && !is_chosen(row)) rows_.Hold(row);
  }
}

void Scheduler::ResumeDecodes() {
  for (int32_t row = rows_.num_decodes; row < rows_.num_rows(); ++row) {
    if (rows_.pending(row) == 1 && !rows_.is_held(row)) rows_.Schedule(row, 1);
  }
}

void Scheduler::TakePagesForDecodes() {
  row_scratch_.clear();
  for (int32_t row = 0; row < rows_.num_decodes; ++row) {
    if (rows_.computed[row] == rows_.capacity[row]) {
      allocator_->PrefetchExtend(row);
      row_scratch_.push_back(rows_.slot[row]);
    }
  }
  // By slot, since taking a page may preempt and so move rows.
  for (const int32_t slot : row_scratch_) {
    if (sequences_[slot].row < 0) continue;  // preempted for an earlier one
    if (!TakePageForDecode(slot)) {
      // Everybody who ranks lower has given what there was: it keeps its pages
      // and waits for those who rank higher.
      rows_.Hold(rows_.Unschedule(sequences_[slot].row));
    }
  }
}

bool Scheduler::TakePageForDecode(int32_t slot) {
  while (true) {
    const int32_t row = sequences_[slot].row;
    if (allocator_->TryExtend(row, rows_.computed[row] + 1)) {
      rows_.capacity[row] = allocator_->capacity(row);
      return true;
    }
    // Pages come without a victim when those in flight have ended.
    if (waits_for_ending_) return false;
    const int32_t victim = ChooseVictim(row);
    if (victim < 0) return false;
    Preempt(victim);
  }
}

// Of the rows that rank below `needy_row` and would free a page now, the one
// with the fewest tokens to compute again; of equals the lowest-ranked. -1 if
// there is none.
//
// Forks can share all their pages, so that none of them frees anything alone.
// The highest-ranked sequence must advance even then, and only it: the
// lowest-ranked row then goes first, if all of them together would free a page.
int32_t Scheduler::ChooseVictim(int32_t needy_row) const {
  const Rank& needy = sequences_[rows_.slot[needy_row]].rank;
  int32_t best = -1;
  int32_t lowest = needy_row;
  bool is_highest = true;
  for (int32_t row = 0; row < rows_.num_rows(); ++row) {
    const Rank& rank = sequences_[rows_.slot[row]].rank;
    if (rank < needy) is_highest = false;
    if (!(needy < rank)) continue;
    if (sequences_[rows_.slot[lowest]].rank < rank) lowest = row;
    if (best >= 0) {
      const Rank& best_rank = sequences_[rows_.slot[best]].rank;
      if (rows_.computed[row] > rows_.computed[best]) continue;
      if (rows_.computed[row] == rows_.computed[best] && rank < best_rank) {
        continue;
      }
    }
    if (allocator_->PagesFreedByRelease(row) > 0) best = row;
  }
  if (best >= 0) return best;
  if (is_highest && lowest != needy_row &&
      allocator_->OthersHoldPages(needy_row)) {
    return lowest;
  }
  return -1;
}

void Scheduler::Preempt(int32_t row) {
  const int32_t slot = rows_.slot[row];
  Sequence& sequence = sequences_[slot];
  sequence.computed_before =
      std::max(sequence.computed_before, rows_.computed[row]);
  sequence.progress_when_preempted = stats_.committed_tokens;
  sequence.match = {};
  ++sequence.preemptions;
  ++stats_.preemptions;
  preempted_in_step_ = true;
  rows_.Leave(row);
  if (std::exchange(sequence.is_suspect, false)) --num_suspects_;
  sequence.state = SequenceState::kWaiting;
  sequence.waiting_since_us = now_us_;
  sequence.wait_reason = WaitReason::kPreempted;
  sequence.tried_in_step = plans_;
  queue_.Push(slot, sequence.rank);
}

// Deals the budget to running sequences with several tokens to compute, by
// rank. Their pages were promised at admission.
int32_t Scheduler::ScheduleChunks(int32_t budget) {
  row_scratch_.clear();
  for (int32_t row = rows_.num_decodes; row < rows_.num_rows(); ++row) {
    if (!rows_.is_held(row)) row_scratch_.push_back(row);
  }
  if (row_scratch_.empty()) return budget;
  std::sort(
      row_scratch_.begin(), row_scratch_.end(), [this](int32_t a, int32_t b) {
        return sequences_[rows_.slot[a]].rank < sequences_[rows_.slot[b]].rank;
      });
  for (const int32_t row : row_scratch_) {
    const int32_t tokens =
        std::min({rows_.pending(row), budget, max_prefill_chunk()});
    rows_.q_len[row] = tokens;
    budget -= tokens;
    if (tokens == 0) continue;
    TIDEWHEEL_CHECK(allocator_->TryExtend(row, rows_.computed[row] + tokens));
    rows_.capacity[row] = allocator_->capacity(row);
  }
  // In row order, so that rows that keep their class keep their place.
  for (int32_t row = rows_.num_decodes; row < rows_.num_rows(); ++row) {
    if (rows_.q_len[row] > 0 && row >= rows_.num_scheduled) {
      rows_.Schedule(row, rows_.q_len[row]);
    }
  }
  return budget;
}

void Scheduler::AdmitWaiting(int32_t budget) {
  while (!queue_.empty()) {
    const int32_t head = queue_.first();
    if (TryAdmit(head, budget)) continue;
    if (sequences_[head].wait_reason == WaitReason::kPages) {
      AdmitBehindHead(budget);
    }
    return;
  }
}

// The head lacks pages. Smaller requests may pass it, and each other, but none
// is passed more than max_bypasses times.
void Scheduler::AdmitBehindHead(int32_t& budget) {
  waiting_scratch_.resize(waiting_scratch_.capacity());
  const int32_t found = queue_.CopyFirst(waiting_scratch_);
  const std::span<int32_t> blocked(waiting_scratch_);
  int32_t num_blocked = 1;  // the head
  int32_t most_passed = sequences_[blocked[0]].times_passed;
  for (int32_t i = 1; i < found; ++i) {
    const int32_t slot = waiting_scratch_[i];
    if (most_passed >= options_.max_bypasses) {
      sequences_[slot].wait_reason = WaitReason::kProtected;
      sequences_[slot].tried_in_step = plans_;
      return;
    }
    if (TryAdmit(slot, budget)) {
      for (int32_t k = 0; k < num_blocked; ++k) {
        most_passed =
            std::max(most_passed, ++sequences_[blocked[k]].times_passed);
      }
      continue;
    }
    if (sequences_[slot].wait_reason != WaitReason::kPages) return;
    most_passed = std::max(most_passed, sequences_[slot].times_passed);
    blocked[num_blocked++] = slot;
  }
}

bool Scheduler::TryAdmit(int32_t slot, int32_t& budget) {
  Sequence& sequence = sequences_[slot];
  const auto wait_for = [this, &sequence](WaitReason reason, int32_t needed,
                                          int32_t available) {
    sequence.tried_in_step = plans_;
    sequence.wait_reason = reason;
    sequence.wait_needed = needed;
    sequence.wait_available = available;
    return false;
  };
  const int32_t running = rows_.num_rows();
  if (running == options_.max_num_seqs) {
    return wait_for(WaitReason::kRows, 1, 0);
  }
  if (budget == 0) return wait_for(WaitReason::kTokens, 1, 0);
  if (running > 0 &&
      sequence.progress_when_preempted == stats_.committed_tokens) {
    return wait_for(WaitReason::kPreempted, 0, 0);
  }
  const int32_t known = sequence.num_tokens;
  HashKnownPages(sequence, known);
  sequence.match = allocator_->Match(sequence.content(known), sequence.match);
  const int32_t cached = sequence.match.num_pages * allocator_->page_size();
  int32_t chunk = known - cached;
  if (!options_.chunked_prefill && chunk > budget &&
      chunk <= options_.max_num_batched_tokens) {
    return wait_for(WaitReason::kTokens, chunk, budget);
  }
  chunk = std::min({chunk, budget, max_prefill_chunk()});
  PageAllocator::AdmitOptions admit;
  admit.match = sequence.match;
  admit.num_tokens = cached + chunk;
  admit.promised_tokens = PromisedTokens(sequence);
  admit.headroom_pages = running > 0 ? watermark_pages() : 0;
  const std::optional<int32_t> row = allocator_->TryAdmit(admit);
  if (!row.has_value()) {
    return wait_for(WaitReason::kPages,
                    allocator_->PagesToAdmit(admit) + admit.headroom_pages,
                    allocator_->num_unpromised());
  }
  queue_.Remove(slot);
  if (sequence.admitted_us < 0) Unlink(slot);
  CountAdmission(sequence, cached);
  sequence.running_since_us = now_us_;
  rows_.Join(*row, slot, cached);
  rows_.Schedule(*row, chunk);
  budget -= chunk;
  return true;
}

// The length up to which pages are promised when a row is taken; the last token
// of a sequence is never computed.
int32_t Scheduler::PromisedTokens(const Sequence& sequence) const {
  return options_.admission == AdmissionPolicy::kReserve
             ? sequence.max_tokens - 1
             : sequence.num_tokens;
}

void Scheduler::HashKnownPages(Sequence& sequence, int32_t num_tokens) {
  if (!allocator_->options().enable_prefix_cache) return;
  const int32_t pages = num_tokens / allocator_->page_size();
  if (pages <= sequence.num_hashed) return;
  allocator_->HashPages(
      {sequence.tokens.get(), static_cast<size_t>(num_tokens)},
      sequence.isolation, sequence.num_hashed, pages,
      {sequence.hashes.get(), static_cast<size_t>(sequence.hash_capacity)});
  sequence.num_hashed = pages;
}

void Scheduler::CountAdmission(Sequence& sequence, int32_t cached_tokens) {
  const int64_t queries =
      allocator_->options().enable_prefix_cache ? sequence.num_tokens : 0;
  if (sequence.admitted_us < 0) {
    sequence.admitted_us = now_us_;
    sequence.cached_tokens = cached_tokens;
    stats_.prefix_cache_queries += queries;
    stats_.prefix_cache_hits += cached_tokens;
    return;
  }
  stats_.preempted_prefix_cache_queries += queries;
  stats_.preempted_prefix_cache_hits += cached_tokens;
  stats_.recomputed_tokens +=
      std::max(sequence.computed_before - cached_tokens, 0);
  sequence.computed_before = 0;
}

Scheduler::PlanResult Scheduler::BuildPlan() {
  if (rows_.num_scheduled == 0) {
    if (!steps_.empty() || !has_unfinished()) return {};
    if (rows_.num_rows() > 0) {
      return {nullptr, rows_.request[0], WaitReason::kPages};
    }
    const Sequence& head = sequences_[queue_.first()];
    return {nullptr, head.id, head.wait_reason};
  }
  PlannedStep& next = steps_.next();
  StepPlan& plan = next.plan;
  const int32_t num_seqs = rows_.num_scheduled;
  const size_t rows = static_cast<size_t>(num_seqs);
  plan.step_id = ++last_step_id_;
  plan.batch.num_seqs = num_seqs;
  plan.batch.distribution = {rows_.num_singles, rows_.num_singles, num_seqs};
  next.num_decodes = rows_.num_decodes;
  next.narrows_failure = num_suspects_ > 0;
  NameRows(next);
  FillMetadata(next);
  TrackChanges(next);
  AdvanceRows(next);
  const size_t tokens = static_cast<size_t>(next.cu_q_lens[num_seqs]);
  plan.token_ids = std::span(next.token_ids).first(tokens);
  plan.positions = std::span(next.positions).first(tokens);
  plan.requests = std::span(next.requests).first(rows);
  plan.wants_logits = std::span(next.wants_logits).first(rows);
  steps_.PushNext();
  if (options_.validate_steps) ValidatePlan(plan);
  return {&plan, {}, WaitReason::kNotTried};
}

void Scheduler::FillMetadata(PlannedStep& next) {
  const int32_t num_decodes = rows_.num_decodes;
  int64_t kv_tokens = 0;
  for (int32_t row = 0; row < num_decodes; ++row) {
    const int32_t position = rows_.computed[row];
    next.token_ids[row] =
        rows_.is_ahead(row) ? kUnknownToken : rows_.last_token[row];
    next.positions[row] = position;
    next.kv_lens[row] = position + 1;
    kv_tokens += position + 1;
  }
  for (int32_t row = next.decodes_filled; row < num_decodes; ++row) {
    next.cu_q_lens[row] = row;
    next.wants_logits[row] = 1;
  }
  next.decodes_filled = num_decodes;
  int64_t pairs = kv_tokens;
  int32_t num_logits = num_decodes;
  int32_t at = num_decodes;
  for (int32_t row = num_decodes; row < rows_.num_scheduled; ++row) {
    const int32_t first = rows_.computed[row];
    const int32_t q_len = rows_.q_len[row];
    next.cu_q_lens[row] = at;
    next.kv_lens[row] = first + q_len;
    next.wants_logits[row] = q_len == rows_.pending(row) ? 1 : 0;
    num_logits += next.wants_logits[row];
    std::copy_n(rows_.tokens[row] + first, q_len, &next.token_ids[at]);
    for (int32_t i = 0; i < q_len; ++i) next.positions[at + i] = first + i;
    kv_tokens += next.kv_lens[row];
    pairs += int64_t{q_len} * first + int64_t{q_len} * (q_len + 1) / 2;
    at += q_len;
  }
  // Padding changes only where the number of rows or tokens did.
  const int32_t end = rows_.num_scheduled;
  if (next.padded_from != end || next.padded_with != at) {
    std::fill(next.kv_lens.begin() + end, next.kv_lens.end(), 0);
    std::fill(next.cu_q_lens.begin() + end, next.cu_q_lens.end(), at);
    next.padded_from = end;
    next.padded_with = at;
  }
  next.plan.num_logits = num_logits;
  next.plan.kv_tokens = kv_tokens;
  next.plan.attention_pairs = pairs;
}

// Who runs in each row, and whose tokens are not known yet.
void Scheduler::NameRows(PlannedStep& next) {
  const int32_t num_seqs = rows_.num_scheduled;
  if (next.row_changes != rows_.changes() || next.num_named < num_seqs) {
    std::copy_n(rows_.request.begin(), num_seqs, next.requests.begin());
    std::copy_n(rows_.slot.begin(), num_seqs, next.slots.begin());
    std::copy_n(rows_.serial.begin(), num_seqs, next.serials.begin());
    next.num_named = num_seqs;
  }
  next.row_changes = rows_.changes();
  next.plan.sampled_from = {};
  if (steps_.empty()) return;
  // The step in flight is the one that the table's changes are relative to.
  const PageTable& table = allocator_->table();
  std::fill_n(next.sampled_from.begin(), num_seqs, -1);
  for (int32_t row = 0; row < rows_.num_decodes; ++row) {
    if (!rows_.is_ahead(row)) continue;
    next.sampled_from[row] = table.previous_row(row);
  }
  next.plan.sampled_from =
      std::span(next.sampled_from).first(static_cast<size_t>(num_seqs));
}

// What differs from the last step that was handed out; the next one's changes
// are relative to this.
void Scheduler::TrackChanges(PlannedStep& next) {
  const PageTable& table = allocator_->table();
  const std::span<const int32_t> changed = table.changed_rows();
  next.changed_rows.assign(changed.begin(), changed.end());
  next.plan.changed_rows = next.changed_rows;
  next.plan.previous_rows = {};
  if (table.rows_moved()) {
    for (int32_t row = 0; row < table.num_rows(); ++row) {
      next.previous_rows[row] = table.previous_row(row);
    }
    next.plan.previous_rows = std::span(next.previous_rows)
                                  .first(static_cast<size_t>(table.num_rows()));
  }
  allocator_->ClearChanges();
  const std::span<const PageAllocator::PageCopy> copies =
      allocator_->new_copies();
  next.copies.assign(copies.begin(), copies.end());
  next.plan.copies = next.copies;
  allocator_->HandOutCopies(next.plan.step_id);
}

void Scheduler::AdvanceRows(PlannedStep& next) {
  next.event_rows.clear();
  const int32_t num_decodes = rows_.num_decodes;
  for (int32_t row = 0; row < num_decodes; ++row) {
    rows_.Advance(row, 1, true);
    if (rows_.computed[row] == rows_.event_at[row]) {
      __builtin_prefetch(&sequences_[rows_.slot[row]]);
      next.event_rows.push_back(row);
    }
  }
  for (const int32_t row : next.event_rows) {
    if (rows_.length[row] == sequences_[rows_.slot[row]].max_tokens) {
      MarkEnding(rows_.slot[row]);
    }
    rows_.SetNextEvent(row);
  }
  for (int32_t row = num_decodes; row < rows_.num_scheduled; ++row) {
    rows_.Advance(row, rows_.q_len[row], next.wants_logits[row] != 0);
    if (rows_.length[row] == sequences_[rows_.slot[row]].max_tokens) {
      MarkEnding(rows_.slot[row]);
    }
    rows_.SetNextEvent(row);
  }
}

}  // namespace tidewheel
