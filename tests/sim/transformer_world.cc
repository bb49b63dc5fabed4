#include "tests/sim/transformer_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "scheduler/submission.h"
#include "tests/sim/same_step_hazard.h"

namespace tidewheel {
namespace {

std::unique_ptr<Scheduler> MakeScheduler(const WorldSettings& settings) {
  absl::StatusOr<std::unique_ptr<PageAllocator>> pages =
      PageAllocator::Create(settings.pages);
  TIDEWHEEL_CHECK(pages.ok());
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(settings.scheduler, *std::move(pages));
  TIDEWHEEL_CHECK(scheduler.ok());
  return *std::move(scheduler);
}

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InternalError(absl::StrCat(parts...));
}

}  // namespace

TransformerWorld::TransformerWorld(uint64_t seed, const WorldSettings& settings,
                                   std::unique_ptr<AttentionBackend> backend)
    : settings_(settings),
      draw_(seed ^ 0x74696e79u),
      model_(draw_.Bits(), settings.kv_type),
      backend_(std::move(backend)),
      runner_(&model_, backend_.get(),
              {settings.pages.total_num_pages, settings.pages.page_size,
               settings.kv_writes}),
      scheduler_(MakeScheduler(settings)),
      to_submit_(settings.requests),
      forks_left_(settings.forks),
      filled_(static_cast<size_t>(settings.pages.total_num_pages), kPoisoned) {
  for (int32_t i = 0; i < settings.num_contents; ++i) {
    contents_.emplace_back();
    for (int32_t j = 0; j < settings.scheduler.max_model_len; ++j) {
      contents_.back().push_back(draw_.Below(TinyTransformer::kVocabulary));
    }
  }
}

absl::Status TransformerWorld::Run() {
  const absl::Status status = RunToTheEnd();
  const SchedulerStats& stats = scheduler_->stats();
  counts_.worlds = 1;
  counts_.steps = stats.steps;
  counts_.failed_steps = stats.failed_steps;
  counts_.preemptions = stats.preemptions;
  counts_.hit_tokens =
      stats.prefix_cache_hits + stats.preempted_prefix_cache_hits;
  if (status.ok()) return status;
  return Wrong("plan ", stats.steps + stats.failed_steps, ": ",
               std::string(status.message()), " [", ToString(settings_), "]");
}

absl::Status TransformerWorld::RunToTheEnd() {
  // 15 requests of 48 tokens need 720 steps if each runs alone, a token a step.
  // Preemptions and failures multiply that, seldom by more than a few.
  int32_t steps_left = 20'000;
  while (to_submit_ > 0 || scheduler_->has_unfinished()) {
    if (--steps_left == 0) {
      return Wrong(unfinished_.size(), " requests do not end");
    }
    TIDEWHEEL_RETURN_IF_ERROR(Disturb());
    TIDEWHEEL_RETURN_IF_ERROR(Step());
  }
  if (!unfinished_.empty()) {
    return Wrong(unfinished_.size(), " requests were never reported");
  }
  const int32_t lent = scheduler_->allocator().stats().lent_pages;
  return lent == 0 ? absl::OkStatus()
                   : Wrong(lent, " pages are lent though nobody runs");
}

absl::Status TransformerWorld::Disturb() {
  while (to_submit_ > 0 && draw_.PerMille(settings_.arrival)) {
    TIDEWHEEL_RETURN_IF_ERROR(Submit());
  }
  if (draw_.PerMille(settings_.fork)) TIDEWHEEL_RETURN_IF_ERROR(Fork());
  if (draw_.PerMille(settings_.cancel)) TIDEWHEEL_RETURN_IF_ERROR(Cancel());
  if (draw_.PerMille(settings_.reset)) {
    ++counts_.resets;
    TIDEWHEEL_RETURN_IF_ERROR(
        scheduler_->ResetPrefixCache(PageAllocator::ResetMode::kForce));
  }
  PoisonFreePages();
  return absl::OkStatus();
}

// Begins as a content does, for a while.
std::vector<int32_t> TransformerWorld::DrawPrompt() {
  const std::vector<int32_t>& content =
      contents_[static_cast<size_t>(draw_.Below(settings_.num_contents))];
  std::vector<int32_t> prompt(
      content.begin(),
      content.begin() +
          draw_.Between(1, std::min(settings_.max_prompt,
                                    settings_.scheduler.max_model_len - 1)));
  if (draw_.OneIn(3)) return prompt;
  const int32_t common = draw_.Below(static_cast<int32_t>(prompt.size()) + 1);
  for (size_t i = static_cast<size_t>(common); i < prompt.size(); ++i) {
    prompt[i] = draw_.Below(TinyTransformer::kVocabulary);
  }
  return prompt;
}

absl::Status TransformerWorld::Submit() {
  --to_submit_;
  SubmittedRequest submitted;
  submitted.prompt = DrawPrompt();
  submitted.logit_tolerance = settings_.logit_tolerance;
  const int32_t prompt = static_cast<int32_t>(submitted.prompt.size());
  // The last token is never fed back and needs no slot.
  const int32_t pool_tokens =
      (settings_.pages.total_num_pages - 1) * settings_.pages.page_size + 1;
  const int32_t model_tokens = settings_.scheduler.max_model_len;
  submitted.max_tokens = std::min(model_tokens, pool_tokens);
  submitted.limit_reason = model_tokens <= pool_tokens
                               ? FinishReason::kModelLength
                               : FinishReason::kPoolCapacity;
  std::optional<int32_t> max_new;
  if (!draw_.OneIn(5)) {
    max_new =
        draw_.Between(1, std::min(settings_.max_new, model_tokens - prompt));
    submitted.max_tokens = prompt + *max_new;
    submitted.limit_reason = FinishReason::kMaxNewTokens;
    submitted.min_new_tokens = draw_.OneIn(2) ? 0 : draw_.Below(*max_new + 1);
  }
  if (draw_.OneIn(3)) {
    submitted.end_token = draw_.Below(TinyTransformer::kVocabulary);
  }
  for (int32_t i = draw_.Below(3); i > 0; --i) {
    submitted.stop_tokens.push_back(draw_.Below(TinyTransformer::kVocabulary));
  }
  Request request;
  request.prompt = submitted.prompt;
  request.max_new_tokens = max_new;
  request.min_new_tokens = submitted.min_new_tokens;
  request.end_token = submitted.end_token;
  request.stop_tokens = submitted.stop_tokens;
  request.priority = draw_.Between(-2, 2);
  const absl::StatusOr<RequestId> id = scheduler_->Submit(request, now_us_);
  if (id.ok()) {
    unfinished_.emplace(id->value, std::move(submitted));
    return absl::OkStatus();
  }
  return RefusalOf(id.status()) == Refusal::kNone ? id.status()
                                                  : absl::OkStatus();
}

absl::Status TransformerWorld::Fork() {
  if (unfinished_.empty() || forks_left_ == 0 || !flights_.empty()) {
    return absl::OkStatus();
  }
  // Often the oldest: it probably runs, so that pages are shared.
  const int32_t others = static_cast<int32_t>(unfinished_.size());
  const auto parent =
      std::next(unfinished_.begin(), draw_.OneIn(2) ? 0 : draw_.Below(others));
  --forks_left_;
  const absl::StatusOr<RequestId> id =
      scheduler_->Fork({parent->first}, now_us_);
  if (!id.ok()) return id.status();
  ++counts_.forks;
  unfinished_.emplace(id->value, parent->second);
  return absl::OkStatus();
}

absl::Status TransformerWorld::Cancel() {
  if (unfinished_.empty()) return absl::OkStatus();
  const auto request =
      std::next(unfinished_.begin(),
                draw_.Below(static_cast<int32_t>(unfinished_.size())));
  if (std::exchange(request->second.cancelled, true)) return absl::OkStatus();
  ++counts_.cancels;
  return scheduler_->Cancel({request->first});
}

absl::Status TransformerWorld::Step() {
  now_us_ += draw_.Below(10);
  const Scheduler::PlanResult result = scheduler_->Plan(now_us_);
  if (result.step != nullptr) {
    TIDEWHEEL_RETURN_IF_ERROR(Launch(*result.step));
  } else if (!flights_.empty()) {
    TIDEWHEEL_RETURN_IF_ERROR(FinishOldest());
  } else if (scheduler_->has_unfinished()) {
    return Wrong("nothing runs: ", scheduler_->Explain(result.blocked).text);
  }
  // Room for another one, or now and then for none, so that forks get a turn.
  const size_t limit =
      static_cast<size_t>(settings_.scheduler.max_steps_in_flight);
  while (flights_.size() == limit || (!flights_.empty() && draw_.OneIn(4))) {
    TIDEWHEEL_RETURN_IF_ERROR(FinishOldest());
  }
  PoisonFreePages();
  return TakeFinished();
}

absl::Status TransformerWorld::Launch(const StepPlan& plan) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckPlan(plan));
  NoteWrittenPages(plan);
  Flight flight;
  flight.plan = plan;
  flight.page_indices.assign(plan.batch.page_indices.begin(),
                             plan.batch.page_indices.end());
  Resolve(flight);
  const bool runs_on_garbage = !flights_.empty() && flights_.back().fails;
  flight.fails = runs_on_garbage || draw_.PerMille(settings_.failed_step);
  flights_.push_back(std::move(flight));
  Flight& launched = flights_.back();
  launched.plan.batch.page_indices = launched.page_indices;
  launched.plan.token_ids = launched.token_ids;
  return launched.fails ? RunAndFail(launched.plan) : Run(launched);
}

// What the device fills in for tokens that the plan does not know.
void TransformerWorld::Resolve(Flight& flight) const {
  const StepPlan& plan = flight.plan;
  flight.token_ids.assign(plan.token_ids.begin(), plan.token_ids.end());
  flight.sampled.assign(plan.requests.size(), 0);
  if (plan.sampled_from.empty()) return;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    if (plan.sampled_from[row] < 0) continue;
    flight.token_ids[plan.batch.cu_q_lens[row + 1] - 1] =
        std::max(flights_.back().sampled[plan.sampled_from[row]], 0);
  }
}

absl::Status TransformerWorld::CheckPlan(const StepPlan& plan) {
  TIDEWHEEL_RETURN_IF_ERROR(ValidateDynamic(plan.batch));
  TIDEWHEEL_RETURN_IF_ERROR(ValidateStrict(plan.batch));
  TIDEWHEEL_RETURN_IF_ERROR(CheckNoRowReadsWhatAnotherWrites(plan.batch));
  counts_.copies += static_cast<int64_t>(plan.copies.size());
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    if (plan.wants_logits[row] == 0) ++counts_.chunks;
  }
  return absl::OkStatus();
}

absl::Status TransformerWorld::Run(Flight& flight) {
  const StepPlan& plan = flight.plan;
  // What stands where no token is asked for must not matter.
  flight.sampled.assign(plan.requests.size(), draw_.Between(-3, 60));
  const StepPlan run = Sabotaged(plan);
  TIDEWHEEL_RETURN_IF_ERROR(runner_.Run(run, flight.sampled));
  SabotageMemory(flight);
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    if (plan.wants_logits[row] == 0 ||
        !draw_.PerMille(settings_.missing_token)) {
      continue;
    }
    ++counts_.missing_tokens;
    flight.sampled[row] = kNoToken;
    // A second step would stumble over the NaN before anybody is told.
    if (settings_.scheduler.max_steps_in_flight == 1) {
      runner_.PoisonWrites(plan, row);
    }
  }
  return absl::OkStatus();
}

absl::Status TransformerWorld::RunAndFail(const StepPlan& plan) {
  const int32_t writes =
      TinyTransformer::kNumLayers * plan.batch.total_q_tokens();
  const absl::Status status = runner_.RunAndFail(plan, draw_.Below(writes + 1));
  if (status.code() != absl::StatusCode::kUnavailable) return status;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    if (draw_.OneIn(2)) runner_.PoisonWrites(plan, row);
  }
  return absl::OkStatus();
}

absl::Status TransformerWorld::FinishOldest() {
  if (draw_.PerMille(settings_.cancel)) TIDEWHEEL_RETURN_IF_ERROR(Cancel());
  const Flight& oldest = flights_.front();
  const int64_t step_id = oldest.plan.step_id;
  if (oldest.fails) {
    flights_.clear();
    TIDEWHEEL_RETURN_IF_ERROR(scheduler_->Fail(step_id));
    return TakeFinished();
  }
  NoteFilledPages(oldest.plan);
  TIDEWHEEL_RETURN_IF_ERROR(scheduler_->Commit(step_id, oldest.sampled));
  flights_.pop_front();
  return TakeFinished();
}

void TransformerWorld::NoteWrittenPages(const StepPlan& plan) {
  const int32_t page_size = settings_.pages.page_size;
  for (const PageAllocator::PageCopy& copy : plan.copies) {
    filled_[copy.target] = 0;
  }
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    const int32_t end = plan.batch.kv_lens[row];
    for (int32_t i = end - plan.batch.q_len(row); i < end; ++i) {
      if (i % page_size == 0) filled_[plan.batch.pages(row)[i / page_size]] = 0;
    }
  }
}

void TransformerWorld::NoteFilledPages(const StepPlan& plan) {
  const int32_t page_size = settings_.pages.page_size;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    for (int32_t i = 0; i < plan.batch.kv_lens[row]; ++i) {
      int32_t& filled = filled_[plan.batch.pages(row)[i / page_size]];
      filled = std::max(filled, i % page_size + 1);
    }
  }
}

std::set<int32_t> TransformerWorld::NamedPages() const {
  std::set<int32_t> named;
  const PageTable& table = scheduler_->allocator().table();
  for (int32_t row = 0; row < table.num_rows(); ++row) {
    named.insert(table.pages(row).begin(), table.pages(row).end());
  }
  for (const PageAllocator::PageCopy& copy :
       scheduler_->allocator().pending_copies()) {
    named.insert({copy.source, copy.target});
  }
  return named;
}

// A page that nobody names is free or cached. It is surely free where nothing
// is cached, and where it never was full: only full pages are cached.
void TransformerWorld::PoisonFreePages() {
  const std::set<int32_t> named = NamedPages();
  const bool nothing_cached = scheduler_->allocator().stats().cached_pages == 0;
  for (int32_t page = 1; page < settings_.pages.total_num_pages; ++page) {
    if (named.contains(page) || filled_[page] == kPoisoned) continue;
    if (nothing_cached || filled_[page] < settings_.pages.page_size) {
      runner_.PoisonPage(page);
      filled_[page] = kPoisoned;
      ++counts_.poisoned_pages;
    } else if (settings_.sabotage == WorldSabotage::kStaleCache) {
      runner_.Fill(page, 0, settings_.pages.page_size, 1);
    }
  }
}

absl::Status TransformerWorld::TakeFinished() {
  for (const FinishedRequest& finished : scheduler_->TakeFinished()) {
    const auto submitted = unfinished_.find(finished.id.value);
    if (submitted == unfinished_.end()) {
      return Wrong("request ", finished.id.value, " ended twice");
    }
    const std::span<const int32_t> tokens = scheduler_->Tokens(finished.id);
    const absl::Status status =
        submitted->second.CheckAnswer(finished, tokens, model_);
    if (!status.ok()) {
      return Wrong("request ", finished.id.value, ", ",
                   std::string(FinishReasonName(finished.reason)), ": ",
                   std::string(status.message()));
    }
    Count(finished);
    counts_.near_ties += submitted->second.CountNearTies(tokens, model_);
    unfinished_.erase(submitted);
  }
  return absl::OkStatus();
}

void TransformerWorld::Count(const FinishedRequest& finished) {
  ++counts_.finished;
  counts_.tokens += finished.generated_tokens;
  if (IsCompletion(finished.reason)) ++counts_.completed;
  if (finished.reason == FinishReason::kEndToken ||
      finished.reason == FinishReason::kStopToken) {
    ++counts_.stopped;
  }
}

StepPlan TransformerWorld::Sabotaged(const StepPlan& original) {
  StepPlan plan = original;
  switch (settings_.sabotage) {
    case WorldSabotage::kIgnoredCopies:
      plan.copies = {};
      break;
    case WorldSabotage::kReversedCopies:
      copies_.assign(plan.copies.begin(), plan.copies.end());
      for (PageAllocator::PageCopy& copy : copies_) {
        std::swap(copy.source, copy.target);
      }
      plan.copies = copies_;
      break;
    case WorldSabotage::kPosition:
      positions_.assign(plan.positions.begin(), plan.positions.end());
      ++positions_.back();
      plan.positions = positions_;
      break;
    case WorldSabotage::kForeignPage:
      SabotageForeignPage(plan);
      break;
    default:
      break;
  }
  return plan;
}

// The second row's first page becomes the first row's, if neither is written.
void TransformerWorld::SabotageForeignPage(StepPlan& plan) {
  if (plan.batch.num_seqs < 2) return;
  for (const int32_t row : {0, 1}) {
    if (plan.batch.kv_lens[row] - plan.batch.q_len(row) <
        plan.batch.page_size) {
      return;
    }
  }
  page_indices_.assign(plan.batch.page_indices.begin(),
                       plan.batch.page_indices.end());
  page_indices_[static_cast<size_t>(plan.batch.pages_per_seq)] =
      page_indices_[0];
  plan.batch.page_indices = page_indices_;
}

void TransformerWorld::SabotageMemory(Flight& flight) {
  const StepPlan& plan = flight.plan;
  if (settings_.sabotage == WorldSabotage::kTokenOfAnother &&
      flight.sampled.size() > 1) {
    std::swap(flight.sampled[0], flight.sampled[1]);
  }
  if (settings_.sabotage == WorldSabotage::kLostWrite) {
    const int32_t last = plan.batch.kv_lens[0] - 1;
    const int32_t slot = last % plan.batch.page_size;
    runner_.Fill(plan.batch.pages(0)[last / plan.batch.page_size], slot,
                 slot + 1, 0);
  }
  if (settings_.sabotage == WorldSabotage::kUnwrittenCommit && draw_.OneIn(4)) {
    for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
      runner_.PoisonWrites(plan, row);
    }
  }
}

}  // namespace tidewheel
