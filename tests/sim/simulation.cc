#include "tests/sim/simulation.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "scheduler/model_runner.h"
#include "scheduler/submission.h"

namespace tidewheel {
namespace {

constexpr std::array<const char*, 3> kSalts = {"", "tenant-a", "tenant-b"};

std::unique_ptr<Scheduler> MakeScheduler(const SimSettings& settings) {
  absl::StatusOr<std::unique_ptr<PageAllocator>> pages =
      PageAllocator::Create(settings.pages);
  TIDEWHEEL_CHECK(pages.ok());
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
      Scheduler::Create(settings.scheduler, *std::move(pages));
  TIDEWHEEL_CHECK(scheduler.ok());
  return *std::move(scheduler);
}

IsolationKey Key(int32_t salt) {
  IsolationKey key;
  if (salt > 0) key.salt = kSalts[static_cast<size_t>(salt)];
  return key;
}

}  // namespace

Simulation::Simulation(uint64_t seed, const SimSettings& settings)
    : settings_(settings),
      draw_(seed ^ 0x7469646577686565u),
      scheduler_(MakeScheduler(settings)),
      requests_(settings_),
      memory_(settings.pages.total_num_pages, settings.pages.page_size) {}

absl::Status Simulation::Run() {
  absl::Status status = SafetyPhase();
  if (status.ok()) status = LivenessPhase();
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat(
      "plan ", plans_, " at ", now_us_, " us: ", std::string(status.message()),
      " [", ToString(settings_), "]"));
}

absl::Status Simulation::SafetyPhase() {
  for (int32_t step = 0; step < settings_.steps; ++step) {
    TIDEWHEEL_RETURN_IF_ERROR(SubmitSome());
    TIDEWHEEL_RETURN_IF_ERROR(MaybeFork());
    TIDEWHEEL_RETURN_IF_ERROR(MaybeCancel());
    TIDEWHEEL_RETURN_IF_ERROR(DisturbCache());
    TIDEWHEEL_RETURN_IF_ERROR(Step());
  }
  return absl::OkStatus();
}

absl::Status Simulation::LivenessPhase() {
  faults_ = false;
  for (const PageAllocator::Pin& pin : pins_) scheduler_->Unpin(pin.handle);
  pins_.clear();
  // If only the first of them ran, each would need a step a token at most; what
  // is preempted begins anew, seldom more than a few times.
  int64_t bound = 100;
  for (const auto& [id, request] : requests_.live()) {
    bound += 4 * request.length() + 20;
  }
  while (scheduler_->has_unfinished()) {
    if (--bound < 0) {
      return absl::InternalError(
          absl::StrCat(requests_.live().size(), " requests do not end"));
    }
    TIDEWHEEL_RETURN_IF_ERROR(Step());
  }
  if (!requests_.live().empty()) {
    return absl::InternalError(
        absl::StrCat(requests_.live().size(), " requests were never reported"));
  }
  const PageAllocator::Stats pages = scheduler_->allocator().stats();
  if (pages.lent_pages != 0 || pages.promised_pages != 0) {
    return absl::InternalError(absl::StrCat("at rest ", pages.lent_pages,
                                            " pages are lent and ",
                                            pages.promised_pages, " promised"));
  }
  return absl::OkStatus();
}

absl::Status Simulation::Step() {
  now_us_ += draw_.Below(settings_.max_step_us + 1);
  TIDEWHEEL_RETURN_IF_ERROR(Launch());
  // While it is in flight.
  if (faults_ && !flights_.empty()) {
    TIDEWHEEL_RETURN_IF_ERROR(SubmitSome());
    TIDEWHEEL_RETURN_IF_ERROR(MaybeCancel());
    TIDEWHEEL_RETURN_IF_ERROR(DisturbCache());
    TIDEWHEEL_RETURN_IF_ERROR(CheckUntimelyResults());
  }
  const size_t limit =
      static_cast<size_t>(settings_.scheduler.max_steps_in_flight);
  if (flights_.size() > 1 && faults_ &&
      draw_.PerMille(settings_.newest_fails)) {
    TIDEWHEEL_RETURN_IF_ERROR(FailFrom(flights_.size() - 1));
  }
  // Room for another one, or now and then for none.
  while (flights_.size() == limit || (!flights_.empty() && draw_.OneIn(4))) {
    TIDEWHEEL_RETURN_IF_ERROR(FinishOldest());
  }
  return absl::OkStatus();
}

absl::Status Simulation::Launch() {
  const int64_t preemptions_before = stats().preemptions;
  ++plans_;
  const Scheduler::PlanResult result = scheduler_->Plan(now_us_);
  TIDEWHEEL_RETURN_IF_ERROR(AfterPlan(result, preemptions_before));
  TIDEWHEEL_RETURN_IF_ERROR(TakeFinished());
  if (result.step == nullptr) {
    return flights_.empty() ? absl::OkStatus() : FinishOldest();
  }
  Flight flight;
  flight.plan = Sabotaged(*result.step);
  hash_.Add(flight.plan);
  TIDEWHEEL_RETURN_IF_ERROR(ValidateDynamic(flight.plan.batch));
  TIDEWHEEL_RETURN_IF_ERROR(ValidateStrict(flight.plan.batch));
  TIDEWHEEL_ASSIGN_OR_RETURN(flight.plan, Resolved(flight.plan));
  TIDEWHEEL_RETURN_IF_ERROR(requests_.CheckPlan(flight.plan));
  if (stats().preemptions != preemptions_before &&
      !requests_.admitted().empty()) {
    return absl::InternalError(
        "somebody was admitted in a step that took pages from another");
  }
  TIDEWHEEL_RETURN_IF_ERROR(mirror_.Apply(flight.plan));
  flight.fails = faults_ && draw_.PerMille(settings_.failed_step);
  for (const RequestId id : flight.plan.requests) {
    flight.fails |= faults_ && requests_.at(id).poison;
  }
  TIDEWHEEL_RETURN_IF_ERROR(RunOnDevice(flight));
  flight.stays = requests_.Launch(flight.plan);
  flights_.push_back(std::move(flight));
  return absl::OkStatus();
}

absl::Status Simulation::AfterPlan(const Scheduler::PlanResult& result,
                                   int64_t preemptions_before) {
  TIDEWHEEL_RETURN_IF_ERROR(scheduler_->CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(CheckPages());
  TIDEWHEEL_RETURN_IF_ERROR(
      requests_.CheckPreemptions(*scheduler_, preemptions_before));
  for (const uint64_t id : requests_.preempted()) mirror_.Forget({id});
  if (result.step != nullptr || !flights_.empty()) return absl::OkStatus();
  if (!scheduler_->has_unfinished() || !pins_.empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("nothing runs; request ", result.blocked.value, " lacks ",
                   std::string(WaitReasonName(result.reason)), ": ",
                   scheduler_->Explain(result.blocked).text));
}

// Free, cached and lent pages are all there are, and those are lent that a
// row, a copy or a pin names.
absl::Status Simulation::CheckPages() const {
  const PageAllocator::Stats pages = scheduler_->allocator().stats();
  const PageTable& table = scheduler_->allocator().table();
  std::set<int32_t> named;
  for (int32_t row = 0; row < table.num_rows(); ++row) {
    const std::span<const PageId> row_pages = table.pages(row);
    named.insert(row_pages.begin(), row_pages.end());
  }
  for (const auto& copy : scheduler_->allocator().pending_copies()) {
    named.insert(copy.source);
  }
  const int32_t num_named = static_cast<int32_t>(named.size());
  const bool lent_fits = pins_.empty() ? pages.lent_pages == num_named
                                       : pages.lent_pages >= num_named;
  if (lent_fits &&
      pages.free_pages + pages.cached_pages + pages.lent_pages ==
          settings_.pages.total_num_pages - 1 &&
      pages.promised_pages <= pages.free_pages + pages.cached_pages) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(pages.free_pages, " free, ", pages.cached_pages,
                   " cached and ", pages.lent_pages,
                   " lent pages, of which rows and copies name ", num_named));
}

absl::StatusOr<StepPlan> Simulation::Resolved(const StepPlan& original) {
  StepPlan plan = original;
  resolved_ids_.assign(plan.token_ids.begin(), plan.token_ids.end());
  if (plan.sampled_from.empty() != flights_.empty()) {
    return absl::InternalError("sampled_from does not fit what is in flight");
  }
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    const int32_t from =
        plan.sampled_from.empty() ? -1 : plan.sampled_from[row];
    int32_t& last = resolved_ids_[plan.batch.cu_q_lens[row + 1] - 1];
    if ((from >= 0) != (last == kUnknownToken)) {
      return absl::InternalError(absl::StrCat("row ", row, " takes its token ",
                                              last, " from row ", from));
    }
    if (from < 0) continue;
    const Flight& before = flights_.back();
    if (from >= before.plan.batch.num_seqs ||
        !(before.plan.requests[from] == plan.requests[row])) {
      return absl::InternalError(
          absl::StrCat("row ", row, " takes its token from row ", from,
                       " of the step before, in which another request ran"));
    }
    // Where none was sampled, the device has something else there.
    last = std::max(before.sampled[from], 0);
  }
  plan.token_ids = resolved_ids_;
  return plan;
}

absl::Status Simulation::RunOnDevice(Flight& flight) {
  const StepPlan& plan = flight.plan;
  TIDEWHEEL_RETURN_IF_ERROR(memory_.Copy(plan));
  TIDEWHEEL_RETURN_IF_ERROR(memory_.CheckDisjoint(plan));
  flight.sampled.assign(plan.requests.size(), 0);
  const bool spoils =
      settings_.sabotage == Sabotage::kUnwrittenPage && draw_.OneIn(10);
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    NaiveRequest& request = requests_.at(plan.requests[row]);
    memory_.Write(plan, row, request.root);
    if (!request.doomed) {
      TIDEWHEEL_RETURN_IF_ERROR(memory_.CheckRow(plan, row, request.stamps));
    }
    // Where no token is asked for, whatever is here must be ignored.
    flight.sampled[row] =
        plan.wants_logits[row] != 0
            ? NextToken(request.stamps[plan.batch.kv_lens[row] - 1],
                        settings_.vocabulary)
            : draw_.Between(-3, 9);
    const bool no_token = faults_ && plan.wants_logits[row] != 0 &&
                          draw_.PerMille(settings_.missing_token);
    if (no_token) flight.sampled[row] = kNoToken;
    request.doomed |= no_token || flight.fails;
    if (spoils || no_token || (flight.fails && !draw_.OneIn(3))) {
      memory_.Spoil(plan, row);
    }
  }
  if (settings_.sabotage == Sabotage::kTokenOfAnother &&
      flight.sampled.size() > 1) {
    std::swap(flight.sampled[0], flight.sampled[1]);
  }
  return absl::OkStatus();
}

absl::Status Simulation::FinishOldest() {
  const Flight& oldest = flights_.front();
  const StepPlan& plan = oldest.plan;
  const int64_t step_id = plan.step_id;
  TIDEWHEEL_RETURN_IF_ERROR(CheckLateResults(step_id - 1));
  if (oldest.fails) return FailFrom(0);
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    TIDEWHEEL_RETURN_IF_ERROR(
        requests_.Commit(plan, row, oldest.stays[row], oldest.sampled[row]));
  }
  mirror_.Commit();
  TIDEWHEEL_RETURN_IF_ERROR(scheduler_->Commit(step_id, oldest.sampled));
  flights_.pop_front();
  return AfterResult(step_id);
}

// This step in flight and those after it are lost.
absl::Status Simulation::FailFrom(size_t first) {
  const int64_t step_id = flights_[first].plan.step_id;
  for (const RequestId id : flights_[first].plan.requests) {
    hash_.Add(id.value);
  }
  TIDEWHEEL_RETURN_IF_ERROR(scheduler_->Fail(step_id));
  while (flights_.size() > first) {
    const Flight& lost = flights_.back();
    for (int32_t row = 0; row < lost.plan.batch.num_seqs; ++row) {
      requests_.SetBack(lost.plan, row, lost.stays[row]);
    }
    // A result that comes although it was given up.
    TIDEWHEEL_RETURN_IF_ERROR(CheckLateResults(lost.plan.step_id));
    mirror_.Drop();
    flights_.pop_back();
  }
  requests_.ForgetDoom();
  for (const Flight& flight : flights_) {
    if (flight.fails) requests_.Doom(flight.plan);
  }
  return AfterResult(step_id);
}

absl::Status Simulation::AfterResult(int64_t step_id) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckLateResults(step_id));
  TIDEWHEEL_RETURN_IF_ERROR(scheduler_->CheckInvariants());
  TIDEWHEEL_RETURN_IF_ERROR(CheckPages());
  TIDEWHEEL_RETURN_IF_ERROR(TakeFinished());
  TIDEWHEEL_RETURN_IF_ERROR(requests_.CheckNobodyIsOverdue());
  return requests_.CheckStats(stats());
}

// The newer of two steps is not committed first.
absl::Status Simulation::CheckUntimelyResults() {
  if (flights_.size() < 2 || !draw_.OneIn(4)) return absl::OkStatus();
  if (scheduler_->Commit(flights_.back().plan.step_id, flights_.back().sampled)
          .code() == absl::StatusCode::kFailedPrecondition) {
    return absl::OkStatus();
  }
  return absl::InternalError("a step was committed before an older one");
}

// A result of a step that is not in flight is refused and changes nothing.
absl::Status Simulation::CheckLateResults(int64_t step_id) {
  if (!draw_.OneIn(4)) return absl::OkStatus();
  const std::vector<int32_t> sampled(1, 0);
  if (scheduler_->Commit(step_id, sampled).code() ==
          absl::StatusCode::kFailedPrecondition &&
      scheduler_->Fail(step_id).code() ==
          absl::StatusCode::kFailedPrecondition) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("step ", step_id, " was applied twice"));
}

absl::Status Simulation::TakeFinished() {
  const std::span<const FinishedRequest> finished = scheduler_->TakeFinished();
  for (const FinishedRequest& request : finished) {
    if (settings_.sabotage == Sabotage::kLostRequest) break;
    TIDEWHEEL_RETURN_IF_ERROR(Report(request));
    if (settings_.sabotage == Sabotage::kRepeatedResult) {
      TIDEWHEEL_RETURN_IF_ERROR(Report(request));
    }
  }
  return absl::OkStatus();
}

absl::Status Simulation::Report(const FinishedRequest& finished) {
  hash_.Add(finished.id.value);
  hash_.Add(static_cast<uint64_t>(finished.reason));
  return requests_.End(finished, scheduler_->Tokens(finished.id), now_us_);
}

absl::Status Simulation::SubmitSome() {
  int32_t arrivals = draw_.Below(settings_.arrivals + 1);
  if (draw_.PerMille(settings_.burst)) arrivals = 10 * settings_.arrivals;
  // Half of the time before a plan, half of the time while one is in flight.
  if (draw_.OneIn(2)) return absl::OkStatus();
  for (int32_t i = 0; i < arrivals; ++i) {
    TIDEWHEEL_RETURN_IF_ERROR(SubmitOne());
  }
  return absl::OkStatus();
}

// Tokens of the longest request that the model and the pool can hold.
int32_t Simulation::Longest() const {
  return std::min(
      settings_.scheduler.max_model_len,
      (settings_.pages.total_num_pages - 1) * settings_.pages.page_size + 1);
}

absl::Status Simulation::SubmitOne() {
  // Most are made to fit, the others as they come.
  const int32_t longest =
      draw_.OneIn(8) ? 2 * settings_.max_prompt + settings_.max_new : Longest();
  const int32_t content = draw_.Below(settings_.num_contents);
  const int32_t common = draw_.Below(40);
  std::vector<int32_t> prompt(static_cast<size_t>(
      draw_.Between(1, std::min(settings_.max_prompt, longest - 1))));
  for (int32_t i = 0; i < static_cast<int32_t>(prompt.size()); ++i) {
    prompt[i] = i < common ? content * 100 + i : draw_.Below(3);
  }
  constexpr std::array<int32_t, 2> kStops = {4, 5};
  Request request;
  request.prompt = prompt;
  if (!draw_.OneIn(8)) {
    request.max_new_tokens = draw_.Between(
        1, std::min(settings_.max_new,
                    longest - static_cast<int32_t>(prompt.size())));
    request.min_new_tokens =
        draw_.OneIn(2) ? 0 : draw_.Below(*request.max_new_tokens + 1);
  }
  if (draw_.OneIn(2)) request.end_token = 3;
  if (draw_.OneIn(4)) request.stop_tokens = kStops;
  request.priority = draw_.Between(-2, 2);
  const int32_t salt = draw_.Below(settings_.num_salts);
  request.isolation = Key(salt);
  const absl::StatusOr<RequestId> id = scheduler_->Submit(request, now_us_);
  if (id.ok()) {
    requests_.Accept(request, *id, salt, now_us_);
    return absl::OkStatus();
  }
  return RefusalOf(id.status()) == Refusal::kNone ? id.status()
                                                  : absl::OkStatus();
}

absl::Status Simulation::MaybeCancel() {
  if (!draw_.PerMille(settings_.cancel) || requests_.live().empty()) {
    return absl::OkStatus();
  }
  NaiveRequest& request = requests_.nth(draw_.Below(1 << 20));
  const absl::Status status = scheduler_->Cancel(request.id);
  if (request.cancelled) {
    return status.code() == absl::StatusCode::kNotFound
               ? absl::OkStatus()
               : absl::InternalError("a request was cancelled twice");
  }
  TIDEWHEEL_RETURN_IF_ERROR(status);
  request.cancelled = true;
  return scheduler_->CheckInvariants();
}

absl::Status Simulation::MaybeFork() {
  if (!draw_.PerMille(settings_.fork) || requests_.live().empty()) {
    return absl::OkStatus();
  }
  const NaiveRequest& parent = requests_.nth(draw_.Below(1 << 20));
  const int32_t siblings = draw_.Between(1, 3);
  for (int32_t i = 0; i < siblings && !parent.cancelled; ++i) {
    const absl::StatusOr<RequestId> id = scheduler_->Fork(parent.id, now_us_);
    if (!flights_.empty()) {
      return id.status().code() == absl::StatusCode::kFailedPrecondition
                 ? absl::OkStatus()
                 : absl::InternalError("a request was forked in flight");
    }
    if (!id.ok()) {
      return RefusalOf(id.status()) == Refusal::kNone ? id.status()
                                                      : absl::OkStatus();
    }
    const bool running =
        scheduler_->Explain(*id).state == Explanation::State::kRunning;
    requests_.AcceptFork(parent.id, *id, running, now_us_);
  }
  return scheduler_->CheckInvariants();
}

absl::Status Simulation::DisturbCache() {
  if (draw_.PerMille(settings_.reset)) {
    const bool force = draw_.OneIn(2);
    const absl::Status status = scheduler_->ResetPrefixCache(
        force ? PageAllocator::ResetMode::kForce
              : PageAllocator::ResetMode::kRefuseWhileInUse);
    if (force && !status.ok()) return status;
  }
  if (!draw_.PerMille(settings_.pin)) return absl::OkStatus();
  if (!pins_.empty() && draw_.OneIn(2)) {
    scheduler_->Unpin(pins_.back().handle);
    pins_.pop_back();
  } else if (!requests_.live().empty()) {
    const NaiveRequest& request = requests_.nth(draw_.Below(1 << 20));
    const absl::StatusOr<PageAllocator::Pin> pin = scheduler_->PinPrefix(
        request.stream, Key(draw_.Below(settings_.num_salts)));
    if (pin.ok()) pins_.push_back(*pin);
  }
  return scheduler_->CheckInvariants();
}

StepPlan Simulation::Sabotaged(const StepPlan& original) {
  StepPlan plan = original;
  const auto copy = [](auto& span, auto& storage) {
    storage.assign(span.begin(), span.end());
    span = storage;
  };
  switch (settings_.sabotage) {
    case Sabotage::kTokenId:
      copy(plan.token_ids, token_ids_);
      ++token_ids_.back();
      break;
    case Sabotage::kPosition:
      copy(plan.positions, positions_);
      ++positions_.back();
      break;
    case Sabotage::kPageEntry: {
      copy(plan.batch.page_indices, page_indices_);
      const size_t second = static_cast<size_t>(plan.batch.pages_per_seq);
      if (plan.batch.num_seqs > 1) page_indices_[second] = page_indices_[0];
      break;
    }
    case Sabotage::kHiddenChange:
      copy(plan.changed_rows, changed_rows_);
      if (!changed_rows_.empty()) {
        plan.changed_rows = std::span(changed_rows_).first(0);
      }
      break;
    case Sabotage::kHiddenMove:
      plan.previous_rows = {};
      break;
    case Sabotage::kWrongSource:
      copy(plan.sampled_from, sampled_from_);
      if (sampled_from_.size() > 1) {
        std::swap(sampled_from_[0], sampled_from_[1]);
      }
      break;
    case Sabotage::kLogits:
      copy(plan.wants_logits, wants_logits_);
      wants_logits_.back() ^= 1;
      break;
    default:
      break;
  }
  return plan;
}

}  // namespace tidewheel
