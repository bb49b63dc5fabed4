// What comes before and beside the steps: construction, submission, and what
// people ask about requests.

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "scheduler/scheduler.h"

namespace tidewheel {
namespace {

absl::Status CheckAtLeast(absl::string_view name, int64_t value,
                          int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, "; it must be at least ", least));
}

// Limits that the allocator's page table or pool does not cover, as when one of
// the two was resized without the other.
absl::Status CheckAgainstAllocator(const SchedulerOptions& options,
                                   const PageAllocator::Options& pages) {
  if (options.max_num_seqs > pages.max_num_seqs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_num_seqs ", options.max_num_seqs, " exceeds the ",
        pages.max_num_seqs,
        " rows of the page table; lower it or make the table larger"));
  }
  const int64_t covered =
      int64_t{pages.pages_per_seq} * int64_t{pages.page_size};
  if (options.max_model_len - 1 > covered) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_model_len ", options.max_model_len, " needs ",
        (options.max_model_len - 1 + pages.page_size - 1) / pages.page_size,
        " pages of ", pages.page_size, " tokens a row but the page table has ",
        pages.pages_per_seq, " columns; lower max_model_len to ", covered + 1,
        " or raise pages_per_seq"));
  }
  if (options.watermark_pages > pages.total_num_pages - 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("watermark_pages ", options.watermark_pages,
                     " exceeds the ", pages.total_num_pages - 1,
                     " usable pages of the pool; lower it with the pool"));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const SchedulerOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_num_seqs", options.max_num_seqs, 1));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_model_len", options.max_model_len, 2));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("priority_age_us", options.priority_age_us, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("watermark_pages", options.watermark_pages, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_prefill_chunk", options.max_prefill_chunk, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_bypasses", options.max_bypasses, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("bypass_lookahead", options.bypass_lookahead, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_waiting", options.max_waiting, 1));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_queue_time_us", options.max_queue_time_us, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_step_failures", options.max_step_failures, 1));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeast("max_steps_in_flight", options.max_steps_in_flight, 1));
  if (options.max_steps_in_flight > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_steps_in_flight is ", options.max_steps_in_flight,
        "; at most 2 are supported, since a third would hide no more of the "
        "host's time"));
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_num_batched_tokens ", options.max_num_batched_tokens,
        " is below max_num_seqs ", options.max_num_seqs,
        ", but every running sequence needs a token a step; raise the one or "
        "lower the other"));
  }
  if (options.max_prefill_chunk > options.max_num_batched_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_prefill_chunk ", options.max_prefill_chunk,
        " exceeds max_num_batched_tokens ", options.max_num_batched_tokens,
        " and would have no effect; lower it, or give 0 for no cap"));
  }
  if (options.max_prefill_chunk > 0 && !options.chunked_prefill) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_prefill_chunk ", options.max_prefill_chunk,
        " would split prompts but chunked prefill is off; turn it on, or give "
        "0 for no cap"));
  }
  constexpr int64_t kMostSlots = std::numeric_limits<int32_t>::max() / 4;
  if (int64_t{options.max_waiting} + options.max_num_seqs > kMostSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_waiting ", options.max_waiting, " and max_num_seqs ",
                     options.max_num_seqs, " are more than ", kMostSlots,
                     " requests together; lower either"));
  }
  return absl::OkStatus();
}

// Requests that have ended but were not taken yet keep their slots.
int32_t NumSlots(const SchedulerOptions& options) {
  return 2 * (options.max_waiting + options.max_num_seqs);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(
    const SchedulerOptions& options, std::unique_ptr<PageAllocator> allocator) {
  TIDEWHEEL_CHECK(allocator != nullptr);
  TIDEWHEEL_RETURN_IF_ERROR(CheckOptions(options));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAgainstAllocator(options, allocator->options()));
  return std::unique_ptr<Scheduler>(
      new Scheduler(options, std::move(allocator)));
}

Scheduler::Scheduler(const SchedulerOptions& options,
                     std::unique_ptr<PageAllocator> allocator)
    : options_(options),
      allocator_(std::move(allocator)),
      sequences_(NumSlots(options)),
      queue_(NumSlots(options), 1 + options.bypass_lookahead),
      rows_(options.max_num_seqs, *allocator_, sequences_) {
  const PageTable& table = allocator_->table();
  const size_t rows = static_cast<size_t>(table.max_num_seqs());
  row_scratch_.reserve(rows);
  ending_slots_.reserve(2 * rows);
  waiting_scratch_.reserve(static_cast<size_t>(options.bypass_lookahead) + 1);
  const size_t slots = static_cast<size_t>(sequences_.num_slots());
  endings_.reserve(2 * rows);
  finished_.reserve(slots);
  taken_.reserve(slots);
  RaggedBatch batch;
  batch.page_indices = table.entries();
  batch.max_num_seqs = table.max_num_seqs();
  batch.pages_per_seq = table.pages_per_seq();
  batch.page_size = allocator_->page_size();
  batch.total_num_pages = allocator_->options().total_num_pages;
  batch.max_num_batched_tokens = options.max_num_batched_tokens;
  steps_.Reserve(options.max_steps_in_flight, batch);
}

absl::StatusOr<RequestId> Scheduler::Submit(const Request& request,
                                            int64_t now_us) {
  absl::StatusOr<RequestId> id = Accept(request, now_us);
  ++(id.ok() ? stats_.accepted : stats_.refused);
  return id;
}

absl::StatusOr<RequestId> Scheduler::Accept(const Request& request,
                                            int64_t now_us) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const LengthLimit limit,
                             CheckRequest(request, options_, *allocator_));
  TIDEWHEEL_RETURN_IF_ERROR(CheckRoom());
  const std::optional<int32_t> isolation =
      allocator_->TryAcquireIsolation(request.isolation);
  if (!isolation.has_value()) {
    return RefusalError(
        Refusal::kTooManyIsolationKeys,
        absl::StrCat("unfinished requests use ",
                     allocator_->options().max_isolation_keys,
                     " isolation keys, as many as max_isolation_keys allows; "
                     "try again later or raise it"));
  }
  const int32_t slot = *sequences_.TryAcquire(
      limit.max_tokens, limit.max_tokens / allocator_->page_size());
  Sequence& sequence = sequences_[slot];
  const int32_t prompt = static_cast<int32_t>(request.prompt.size());
  std::copy(request.prompt.begin(), request.prompt.end(),
            sequence.tokens.get());
  sequence.prompt_tokens = prompt;
  sequence.num_tokens = prompt;
  sequence.max_tokens = limit.max_tokens;
  sequence.limit_reason = limit.reason;
  // Without max_new_tokens the minimum has no bound of its own.
  sequence.min_tokens = static_cast<int32_t>(std::min<int64_t>(
      int64_t{prompt} + request.min_new_tokens, limit.max_tokens));
  if (request.end_token.has_value()) sequence.end_token = *request.end_token;
  std::copy(request.stop_tokens.begin(), request.stop_tokens.end(),
            sequence.stop_tokens.begin());
  sequence.num_stop_tokens = static_cast<int32_t>(request.stop_tokens.size());
  sequence.isolation = *isolation;
  sequence.rank.key = RankKey(request.priority, now_us);
  sequence.priority = request.priority;
  Enqueue(slot, now_us);
  return sequence.id;
}

absl::Status Scheduler::CheckRoom() const {
  if (queue_.size() >= options_.max_waiting) {
    return RefusalError(
        Refusal::kQueueFull,
        absl::StrCat(queue_.size(), " requests wait, as many as max_waiting ",
                     options_.max_waiting,
                     " allows; try again later or raise it"));
  }
  if (sequences_.num_free() == 0) {
    return RefusalError(
        Refusal::kQueueFull,
        absl::StrCat(finished_.size() + taken_.size(),
                     " finished requests were not taken; call TakeFinished"));
  }
  return absl::OkStatus();
}

void Scheduler::Enqueue(int32_t slot, int64_t now_us) {
  Sequence& sequence = sequences_[slot];
  sequence.submitted_us = now_us;
  sequence.waiting_since_us = now_us;
  sequence.tried_in_step = plans_;
  sequence.older = newest_waiting_;
  (newest_waiting_ >= 0 ? sequences_[newest_waiting_].newer : oldest_waiting_) =
      slot;
  newest_waiting_ = slot;
  queue_.Push(slot, sequence.rank);
}

absl::StatusOr<RequestId> Scheduler::Fork(RequestId id, int64_t now_us) {
  const std::optional<int32_t> found = sequences_.Find(id);
  if (!found.has_value() || sequences_[*found].state == SequenceState::kEnded) {
    return absl::NotFoundError(absl::StrCat(
        "request ", id.value, " is not unfinished; fork it before it ends"));
  }
  if (!steps_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "request ", id.value, " can not be forked while step ",
        steps_.newest().plan.step_id, " is in flight; commit it first"));
  }
  const absl::Status room = CheckRoom();
  if (!room.ok()) {
    ++stats_.refused;
    return room;
  }
  const Sequence& parent = sequences_[*found];
  const int32_t slot = *sequences_.TryAcquire(
      parent.max_tokens, parent.max_tokens / allocator_->page_size());
  Sequence& child = sequences_[slot];
  const std::span<const int32_t> known = Tokens(id);
  std::copy(known.begin(), known.end(), child.tokens.get());
  child.prompt_tokens = parent.prompt_tokens;
  child.num_tokens = static_cast<int32_t>(known.size());
  child.max_tokens = parent.max_tokens;
  child.limit_reason = parent.limit_reason;
  child.min_tokens = parent.min_tokens;
  child.end_token = parent.end_token;
  child.stop_tokens = parent.stop_tokens;
  child.num_stop_tokens = parent.num_stop_tokens;
  child.isolation = parent.isolation;
  allocator_->HoldIsolation(child.isolation);
  child.rank.key = RankKey(parent.priority, now_us);
  child.priority = parent.priority;
  ++stats_.accepted;
  if (!TryShareRow(*found, slot, now_us)) Enqueue(slot, now_us);
  return child.id;
}

// The child starts in a row of its own with the parent's pages, if there is a
// row and the pages that it is promised.
bool Scheduler::TryShareRow(int32_t parent, int32_t child, int64_t now_us) {
  const int32_t parent_row = sequences_[parent].row;
  if (parent_row < 0 || rows_.num_rows() == options_.max_num_seqs) {
    return false;
  }
  Sequence& sequence = sequences_[child];
  const int32_t computed = rows_.computed[parent_row];
  const std::optional<int32_t> row =
      allocator_->TryFork(parent_row, computed, PromisedTokens(sequence));
  if (!row.has_value()) return false;
  sequence.submitted_us = now_us;
  sequence.admitted_us = now_us;
  sequence.running_since_us = now_us;
  sequence.cached_tokens = computed;
  rows_.Join(*row, child, computed);
  // Its next write may have to copy a page first, so it must ask.
  rows_.capacity[*row] = computed;
  return true;
}

// Ageing that is linear in time needs no clock when two ranks are compared: the
// time that has passed since is the same for both.
int64_t Scheduler::RankKey(int32_t priority, int64_t now_us) const {
  if (options_.policy == OrderingPolicy::kFcfs) return 0;
  if (options_.priority_age_us == 0) return priority;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t key = 0;
  if (__builtin_mul_overflow(int64_t{priority}, options_.priority_age_us,
                             &key) ||
      __builtin_add_overflow(key, now_us, &key)) {
    return priority < 0 ? -kMost : kMost;
  }
  return key;
}

absl::StatusOr<PageAllocator::Pin> Scheduler::PinPrefix(
    std::span<const int32_t> tokens, const IsolationKey& key) {
  const std::optional<int32_t> isolation = allocator_->TryAcquireIsolation(key);
  if (!isolation.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", allocator_->options().max_isolation_keys,
                     " isolation keys are in use; raise max_isolation_keys"));
  }
  const int32_t pages =
      static_cast<int32_t>(tokens.size()) / allocator_->page_size();
  std::vector<uint64_t> hashes(static_cast<size_t>(pages));
  allocator_->HashPages(tokens, *isolation, 0, pages, hashes);
  absl::StatusOr<PageAllocator::Pin> pin =
      allocator_->PinPrefix({tokens, hashes, *isolation});
  allocator_->ReleaseIsolation(*isolation);
  return pin;
}

std::span<const int32_t> Scheduler::Tokens(RequestId id) const {
  const std::optional<int32_t> slot = sequences_.Find(id);
  if (!slot.has_value()) return {};
  const Sequence& sequence = sequences_[*slot];
  const int32_t length =
      sequence.row >= 0 ? rows_.known[sequence.row] : sequence.num_tokens;
  return {sequence.tokens.get(), static_cast<size_t>(length)};
}

absl::Status Scheduler::CheckInvariants() const {
  TIDEWHEEL_RETURN_IF_ERROR(allocator_->CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(queue_.CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(rows_.CheckInvariants());
  const int64_t counted = stats_.finished + num_waiting() + num_running();
  if (stats_.accepted != counted) {
    return absl::InternalError(absl::StrCat(
        stats_.accepted, " requests were accepted, but ", stats_.finished,
        " finished, ", num_waiting(), " wait and ", num_running(), " run"));
  }
  int32_t linked = 0;
  int32_t before = -1;
  for (int32_t slot = oldest_waiting_; slot >= 0;
       before = slot, slot = sequences_[slot].newer) {
    ++linked;
    if (!queue_.contains(slot) || sequences_[slot].older != before) {
      return absl::InternalError(
          absl::StrCat("slot ", slot, " is linked as waiting but is not"));
    }
  }
  int32_t never_admitted = 0;
  int32_t suspects = 0;
  int32_t failing = 0;
  for (int32_t slot = 0; slot < sequences_.num_slots(); ++slot) {
    const Sequence& sequence = sequences_[slot];
    if (sequence.state == SequenceState::kFree ||
        sequence.state == SequenceState::kEnded) {
      continue;
    }
    if (queue_.contains(slot) && sequence.admitted_us < 0) ++never_admitted;
    suspects += sequence.is_suspect ? 1 : 0;
    failing += sequence.step_failures > 0 ? 1 : 0;
  }
  if (linked != never_admitted || newest_waiting_ != before ||
      suspects != num_suspects_ || failing != num_failing_) {
    return absl::InternalError(absl::StrCat(
        linked, " of ", never_admitted, " waiting requests are linked; ",
        suspects, " suspects and ", failing, " failing sequences, but ",
        num_suspects_, " and ", num_failing_, " are counted"));
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
