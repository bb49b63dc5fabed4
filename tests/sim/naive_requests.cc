#include "tests/sim/naive_requests.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tests/sim/kv_memory.h"

namespace tidewheel {
namespace {

template <typename... Parts>
absl::Status Wrong(const NaiveRequest& request, const Parts&... parts) {
  return absl::InternalError(absl::StrCat("request ", request.id.value,
                                          " (arrival ", request.ordinal,
                                          "): ", parts...));
}

bool Contains(std::span<const int32_t> tokens, int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

absl::Status CheckCount(absl::string_view name, int64_t counted,
                        int64_t expected) {
  if (counted == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("stats count ", counted, " ", name,
                                          " but there were ", expected));
}

}  // namespace

int32_t NextToken(uint64_t stamp, int32_t vocabulary) {
  return static_cast<int32_t>(MixBits(stamp ^ 0x5bd1e995) %
                              static_cast<uint64_t>(vocabulary));
}

void NaiveRequests::Accept(const Request& request, RequestId id, int32_t salt,
                           int64_t now_us) {
  NaiveRequest& naive = live_[id.value];
  naive.id = id;
  naive.ordinal = accepted_++;
  naive.poison = settings_.poison && naive.ordinal % 7 == 3;
  naive.submitted_us = now_us;
  naive.priority = request.priority;
  naive.rank_key = RankKey(request.priority, now_us);
  naive.prompt = static_cast<int32_t>(request.prompt.size());
  naive.known = naive.prompt;
  naive.root = MixBits(static_cast<uint64_t>(salt) + 17);
  naive.stream.assign(request.prompt.begin(), request.prompt.end());
  Continue(naive, request);
}

void NaiveRequests::AcceptFork(RequestId parent, RequestId id, bool running,
                               int64_t now_us) {
  NaiveRequest& naive = live_[id.value];
  naive = live_.at(parent.value);
  naive.id = id;
  naive.ordinal = accepted_++;
  naive.may_run_in_pieces = true;
  naive.poison = settings_.poison && naive.ordinal % 7 == 3;
  naive.submitted_us = now_us;
  naive.rank_key = RankKey(naive.priority, now_us);
  naive.running = running;
  naive.was_admitted = running;
  naive.cached = running ? naive.computed : 0;
  naive.preemptions = 0;
  naive.times_passed = 0;
  naive.committed_when_preempted = -1;
}

int64_t NaiveRequests::RankKey(int32_t priority, int64_t now_us) const {
  if (settings_.scheduler.policy == OrderingPolicy::kFcfs) return 0;
  const int64_t age = settings_.scheduler.priority_age_us;
  return age > 0 ? priority * age + now_us : int64_t{priority};
}

// Generates to the end, which depends on the prompt and the limits alone.
void NaiveRequests::Continue(NaiveRequest& request,
                             const Request& submission) const {
  const int32_t model = settings_.scheduler.max_model_len;
  const int32_t pool =
      (settings_.pages.total_num_pages - 1) * settings_.pages.page_size + 1;
  int32_t limit = std::min(model, pool);
  request.end_reason =
      model <= pool ? FinishReason::kModelLength : FinishReason::kPoolCapacity;
  if (submission.max_new_tokens.has_value()) {
    limit = request.prompt + *submission.max_new_tokens;
    request.end_reason = FinishReason::kMaxNewTokens;
  }
  uint64_t stamp = request.root;
  for (const int32_t token : request.stream) {
    stamp = StampAfter(stamp, token);
    request.stamps.push_back(stamp);
  }
  while (true) {
    const int32_t token = NextToken(stamp, settings_.vocabulary);
    request.stream.push_back(token);
    stamp = StampAfter(stamp, token);
    request.stamps.push_back(stamp);
    const int32_t generated = request.length() - request.prompt;
    if (generated >= submission.min_new_tokens) {
      if (submission.end_token == token) {
        request.end_reason = FinishReason::kEndToken;
        return;
      }
      if (Contains(submission.stop_tokens, token)) {
        request.end_reason = FinishReason::kStopToken;
        return;
      }
    }
    if (request.length() == limit) return;
  }
}

absl::Status NaiveRequests::CheckPlan(const StepPlan& plan) {
  const RaggedBatch& batch = plan.batch;
  const size_t rows = static_cast<size_t>(batch.num_seqs);
  if (batch.num_seqs > settings_.scheduler.max_num_seqs ||
      batch.total_q_tokens() > settings_.scheduler.max_num_batched_tokens ||
      plan.requests.size() != rows || plan.wants_logits.size() != rows ||
      plan.token_ids.size() != static_cast<size_t>(batch.total_q_tokens()) ||
      plan.positions.size() != plan.token_ids.size()) {
    return absl::InternalError(
        absl::StrCat("a plan of ", rows, " rows and ", batch.total_q_tokens(),
                     " tokens exceeds its limits or its arrays"));
  }
  std::set<uint64_t> seen;
  admitted_.clear();
  int32_t logits = 0;
  int64_t kv_tokens = 0;
  int64_t pairs = 0;
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    if (!seen.insert(plan.requests[row].value).second) {
      return absl::InternalError(absl::StrCat(
          "request ", plan.requests[row].value, " is in two rows"));
    }
    TIDEWHEEL_RETURN_IF_ERROR(CheckRow(plan, row));
    logits += plan.wants_logits[row];
    kv_tokens += batch.kv_lens[row];
    for (int32_t i = 0; i < batch.q_len(row); ++i) {
      pairs += batch.kv_lens[row] - i;
    }
  }
  TIDEWHEEL_RETURN_IF_ERROR(CountPasses());
  TIDEWHEEL_RETURN_IF_ERROR(CheckCount("logits", plan.num_logits, logits));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckCount("tokens of KV", plan.kv_tokens, kv_tokens));
  return CheckCount("pairs", plan.attention_pairs, pairs);
}

absl::Status NaiveRequests::CheckRow(const StepPlan& plan, int32_t row) {
  const auto found = live_.find(plan.requests[row].value);
  if (found == live_.end()) {
    return absl::InternalError(absl::StrCat("row ", row, " runs request ",
                                            plan.requests[row].value,
                                            " which has ended"));
  }
  NaiveRequest& request = found->second;
  const int32_t end = plan.batch.kv_lens[row];
  const int32_t q_len = plan.batch.q_len(row);
  const int32_t first = end - q_len;
  const SchedulerOptions& options = settings_.scheduler;
  if (!request.running) {
    TIDEWHEEL_RETURN_IF_ERROR(CheckAdmission(request, first));
  }
  if (first != request.computed || end > request.reached()) {
    return Wrong(request, "tokens ", first, " to ", end, " run, but ",
                 request.computed, " of ", request.reached(), " are computed");
  }
  if (request.cancelled) return Wrong(request, "runs after its cancellation");
  if (request.unknown > 0 && request.ends_by_limit() &&
      request.reached() == request.length()) {
    return Wrong(request, "runs although it is at its limit");
  }
  if (options.max_prefill_chunk > 0 && q_len > options.max_prefill_chunk) {
    return Wrong(request, "a chunk of ", q_len, " exceeds the cap of ",
                 options.max_prefill_chunk);
  }
  if (!options.chunked_prefill && !request.may_run_in_pieces &&
      end != request.reached()) {
    return Wrong(request, "runs in pieces: ", q_len, " from ", first, " of ",
                 request.reached());
  }
  if ((plan.wants_logits[row] != 0) != (end == request.reached())) {
    return Wrong(request, "logits at ", end, " of ", request.reached(), ": ",
                 static_cast<int32_t>(plan.wants_logits[row]));
  }
  for (int32_t i = 0; i < q_len; ++i) {
    const int32_t at = plan.batch.cu_q_lens[row] + i;
    if (plan.positions[at] != first + i ||
        (plan.token_ids[at] != request.stream[first + i] && !request.doomed)) {
      return Wrong(request, "token ", plan.token_ids[at], " at position ",
                   plan.positions[at], " instead of ",
                   request.stream[first + i], " at ", first + i);
    }
  }
  return absl::OkStatus();
}

absl::Status NaiveRequests::CheckAdmission(NaiveRequest& request,
                                           int32_t first) {
  if (first % settings_.pages.page_size != 0 || first >= request.known ||
      (first > 0 && !settings_.pages.enable_prefix_cache)) {
    return Wrong(request, "begins at ", first, " of ", request.known);
  }
  admitted_.push_back(request.id.value);
  request.running = true;
  request.computed = first;
  if (!request.was_admitted) {
    request.was_admitted = true;
    request.cached = first;
    if (settings_.pages.enable_prefix_cache) queries_ += request.known;
    hits_ += first;
  }
  return absl::OkStatus();
}

// Whoever still waits and ranks before somebody admitted was passed.
absl::Status NaiveRequests::CountPasses() {
  for (const uint64_t id : admitted_) {
    for (auto& [other_id, other] : live_) {
      if (other.running || !other.ranks_before(live_.at(id))) continue;
      if (++other.times_passed > settings_.scheduler.max_bypasses) {
        return Wrong(other, "was passed ", other.times_passed, " times");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status NaiveRequests::CheckPreemptions(const Scheduler& scheduler,
                                             int64_t preemptions_before) {
  preempted_.clear();
  const SchedulerStats& stats = scheduler.stats();
  if (stats.preemptions == preemptions_before) return absl::OkStatus();
  if (settings_.scheduler.admission == AdmissionPolicy::kReserve) {
    return absl::InternalError("a preemption under the reserve policy");
  }
  // Who was cancelled since the last step ran no more when this was planned.
  const NaiveRequest* best = nullptr;
  for (const auto& [id, request] : live_) {
    if (!request.running || request.cancelled) continue;
    if (best == nullptr || request.ranks_before(*best)) best = &request;
  }
  int64_t found = 0;
  for (auto& [id, request] : live_) {
    if (!request.running ||
        scheduler.Explain(request.id).state != Explanation::State::kWaiting) {
      continue;
    }
    ++found;
    if (&request == best) {
      return Wrong(request, "ranks highest and was preempted");
    }
    if (request.committed_when_preempted == stats.committed_tokens) {
      return Wrong(request, "was preempted twice without progress");
    }
    request.committed_when_preempted = stats.committed_tokens;
    preempted_.push_back(id);
    request.running = false;
    request.unknown = 0;
    request.doomed = false;
    ++request.stay;
    request.may_run_in_pieces = true;
    ++request.preemptions;
    ++preemptions_;
  }
  return CheckCount("preemptions", stats.preemptions - preemptions_before,
                    found);
}

NaiveRequest* NaiveRequests::Find(RequestId id, int32_t stay) {
  const auto found = live_.find(id.value);
  return found != live_.end() && found->second.stay == stay ? &found->second
                                                            : nullptr;
}

std::vector<int32_t> NaiveRequests::Launch(const StepPlan& plan) {
  std::vector<int32_t> stays;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    NaiveRequest& request = at(plan.requests[row]);
    stays.push_back(request.stay);
    request.computed += plan.batch.q_len(row);
    request.unknown += plan.wants_logits[row];
  }
  return stays;
}

absl::Status NaiveRequests::Commit(const StepPlan& plan, int32_t row,
                                   int32_t stay, int32_t token) {
  committed_ += plan.batch.q_len(row);
  NaiveRequest* request = Find(plan.requests[row], stay);
  if (request == nullptr || plan.wants_logits[row] == 0) {
    return absl::OkStatus();
  }
  if (token < 0) {
    may_fail_ = true;
    request->may_run_in_pieces = true;
    request->computed = plan.batch.kv_lens[row] - plan.batch.q_len(row);
    request->unknown = 0;
    request->doomed = false;
    ++request->stay;
    return absl::OkStatus();
  }
  --request->unknown;
  if (request->cancelled) return absl::OkStatus();
  if (token != request->stream[request->known]) {
    return Wrong(*request, "generates ", token, " instead of ",
                 request->stream[request->known], " after ", request->known);
  }
  ++request->known;
  ++generated_;
  return absl::OkStatus();
}

void NaiveRequests::SetBack(const StepPlan& plan, int32_t row, int32_t stay) {
  NaiveRequest* request = Find(plan.requests[row], stay);
  if (request == nullptr) return;
  request->may_run_in_pieces = true;
  request->computed -= plan.batch.q_len(row);
  request->unknown -= plan.wants_logits[row];
}

void NaiveRequests::Doom(const StepPlan& plan) {
  for (const RequestId id : plan.requests) {
    const auto found = live_.find(id.value);
    if (found != live_.end()) found->second.doomed = true;
  }
}

void NaiveRequests::ForgetDoom() {
  for (auto& [id, request] : live_) request.doomed = false;
}

absl::Status NaiveRequests::CheckNobodyIsOverdue() const {
  for (const auto& [id, request] : live_) {
    if (request.known == request.length()) {
      return Wrong(request, "has all its tokens and was not reported");
    }
    if (request.cancelled) return Wrong(request, "outlives its cancellation");
  }
  return absl::OkStatus();
}

absl::Status NaiveRequests::End(const FinishedRequest& finished,
                                std::span<const int32_t> tokens,
                                int64_t now_us) {
  const auto found = live_.find(finished.id.value);
  if (found == live_.end()) {
    return absl::InternalError(
        absl::StrCat("request ", finished.id.value, " ended twice"));
  }
  const NaiveRequest& request = found->second;
  const SchedulerOptions& options = settings_.scheduler;
  bool reason_fits = false;
  switch (finished.reason) {
    case FinishReason::kCancelled:
      reason_fits = request.cancelled;
      break;
    case FinishReason::kQueueTimeout:
      reason_fits = options.max_queue_time_us > 0 && !request.was_admitted &&
                    now_us - request.submitted_us >= options.max_queue_time_us;
      break;
    case FinishReason::kStepFailed:
      reason_fits = request.poison || may_fail_ || settings_.failed_step > 0;
      break;
    default:
      reason_fits = finished.reason == request.end_reason &&
                    request.known == request.length() && !request.cancelled;
  }
  if (!reason_fits) {
    return Wrong(request, "ended by ", FinishReasonName(finished.reason),
                 " with ", request.known, " of ", request.length(), " tokens");
  }
  if (!std::equal(tokens.begin(), tokens.end(), request.stream.begin(),
                  request.stream.begin() + request.known) ||
      finished.prompt_tokens != request.prompt ||
      finished.generated_tokens != request.known - request.prompt) {
    return Wrong(request, "reports ", tokens.size(), " tokens, not its ",
                 request.known);
  }
  if (finished.preemptions != request.preemptions ||
      finished.cached_tokens != request.cached ||
      finished.submitted_us != request.submitted_us ||
      (finished.admitted_us >= 0) != request.was_admitted) {
    return Wrong(request, "reports other counts or times than it had");
  }
  live_.erase(found);
  return absl::OkStatus();
}

NaiveRequest& NaiveRequests::nth(int32_t n) {
  auto at = live_.begin();
  std::advance(at, n % static_cast<int32_t>(live_.size()));
  return at->second;
}

absl::Status NaiveRequests::CheckStats(const SchedulerStats& stats) const {
  const int64_t live = static_cast<int64_t>(live_.size());
  TIDEWHEEL_RETURN_IF_ERROR(CheckCount("accepted", stats.accepted, accepted_));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckCount("finished", stats.finished, accepted_ - live));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckCount("generated tokens", stats.generated_tokens, generated_));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckCount("committed tokens", stats.committed_tokens, committed_));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckCount("preemptions", stats.preemptions, preemptions_));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckCount("tokens looked up", stats.prefix_cache_queries, queries_));
  return CheckCount("tokens found", stats.prefix_cache_hits, hits_);
}

}  // namespace tidewheel
