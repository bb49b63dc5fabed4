#include "tools/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/arrival_queue.h"
#include "tools/traces/token_content.h"

namespace tidewheel {
namespace {

// Contents begin at 16.
constexpr int32_t kEndToken = 1;
static_assert(kEndToken < kFirstContentToken);

constexpr int64_t kStepsBetweenProgress = 4096;

absl::Status CheckOptions(const SimulationOptions& options) {
  if (options.max_concurrency < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_concurrency ", options.max_concurrency,
                     " is negative; give 0 for no limit"));
  }
  const DeclaredTokens& declared = options.declared;
  if (declared.rule == DeclaredTokens::Rule::kAtLeast && declared.tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("declared tokens ", declared.tokens,
                     " are fewer than 1; give at least 1"));
  }
  if (declared.rule == DeclaredTokens::Rule::kFactor &&
      !(declared.factor >= 1 && std::isfinite(declared.factor))) {
    return absl::InvalidArgumentError(
        absl::StrCat("declared factor ", declared.factor,
                     " is not a finite number of at least 1"));
  }
  return absl::OkStatus();
}

std::optional<int32_t> Declare(const DeclaredTokens& declared,
                               int32_t true_length) {
  switch (declared.rule) {
    case DeclaredTokens::Rule::kTrueLength:
      return true_length;
    case DeclaredTokens::Rule::kAtLeast:
      return std::max(declared.tokens, true_length);
    case DeclaredTokens::Rule::kFactor:
      return static_cast<int32_t>(
          std::min(std::ceil(declared.factor * true_length),
                   double{std::numeric_limits<int32_t>::max()}));
    case DeclaredTokens::Rule::kUndeclared:
      return std::nullopt;
  }
  TIDEWHEEL_CHECK(false);
}

class Simulation {
 public:
  Simulation(const Trace& trace, const SimulationOptions& options,
             Scheduler& scheduler, SimulatedRunner& runner);

  absl::StatusOr<SimulationResult> Run() &&;

 private:
  // A row of the page table and the request in it at the last look.
  struct Row {
    RequestId id;
    int32_t request = -1;
  };

  void SendArrivals();
  void Send(int32_t request, int64_t sent_us);
  void KeepExample(int32_t request, const absl::Status& refusal);
  absl::Status RunStep(const StepPlan& plan);
  // Lets the clock jump to where something can happen. False: nowhere.
  bool SkipIdleTime();
  void RecordTokens(const StepPlan& plan, int64_t step_start_us);
  void RecordUsage(const StepPlan& plan, int64_t step_start_us);
  void TakeFinished();
  void CheckNothingLost() const;
  void ReportProgress() const;
  void Finish(const Scheduler::PlanResult& last);

  const Trace& trace_;
  const SimulationOptions& options_;
  Scheduler& scheduler_;
  SimulatedRunner& runner_;
  ArrivalQueue arrivals_;
  SimulationResult result_;

  absl::flat_hash_map<uint64_t, int32_t> in_flight_;  // RequestId -> request
  std::vector<Row> rows_;                             // [max_num_seqs]
  std::vector<int64_t> last_token_us_;                // by request; -1: none
  std::vector<int32_t> sampled_;                      // [max_num_seqs]
  std::vector<int32_t> prompt_;  // of the request that is being sent
  int64_t last_step_end_us_ = -1;
  int32_t free_clients_ = 0;  // since before the last step
  int64_t sent_ = 0;
  int64_t refused_ = 0;
  int64_t ended_ = 0;
  uint64_t refusals_seen_ = 0;  // a bit for each kind
  // Sums of pages and of slots times microseconds.
  double page_us_ = 0;
  double promised_us_ = 0;
  double slot_us_ = 0;
  double busy_us_ = 0;
  int64_t peak_pages_ = 0;
  int64_t peak_promised_ = 0;
  int64_t peak_slots_ = 0;
};

Simulation::Simulation(const Trace& trace, const SimulationOptions& options,
                       Scheduler& scheduler, SimulatedRunner& runner)
    : trace_(trace),
      options_(options),
      scheduler_(scheduler),
      runner_(runner),
      arrivals_(trace),
      free_clients_(options.max_concurrency) {
  const size_t rows = static_cast<size_t>(scheduler.options().max_num_seqs);
  rows_.resize(rows);
  sampled_.resize(rows);
  result_.requests.resize(trace.requests.size());
  last_token_us_.assign(trace.requests.size(), -1);
  int32_t longest_prompt = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const int32_t tokens = trace.requests[i].prompt_tokens;
    result_.requests[i].prompt_tokens = tokens;
    longest_prompt = std::max(longest_prompt, tokens);
  }
  prompt_.resize(static_cast<size_t>(longest_prompt));
}

absl::StatusOr<SimulationResult> Simulation::Run() && {
  Scheduler::PlanResult planned;
  while (true) {
    SendArrivals();
    if (scheduler_.has_unfinished()) {
      planned = scheduler_.Plan(runner_.now_us());
      if (planned.step != nullptr) {
        TIDEWHEEL_RETURN_IF_ERROR(RunStep(*planned.step));
        continue;
      }
      // Planning may have ended requests, for which others have waited.
      const int64_t ended = ended_;
      TakeFinished();
      if (ended_ > ended) continue;
    }
    if (!SkipIdleTime()) break;
  }
  Finish(planned);
  return std::move(result_);
}

void Simulation::SendArrivals() {
  const int64_t now_us = runner_.now_us();
  const int32_t limit = options_.max_concurrency;
  while (!arrivals_.empty() && arrivals_.next().time_us <= now_us) {
    const int32_t flying = static_cast<int32_t>(in_flight_.size());
    if (limit > 0 && flying == limit) break;
    // A client that was free all along has sent when the request arrived; one
    // that the last step set free sends now.
    const bool was_free = limit == 0 || free_clients_ > 0;
    if (free_clients_ > 0) --free_clients_;
    const ArrivalQueue::Arrival arrival = arrivals_.next();
    arrivals_.Pop();
    result_.requests[arrival.request].arrival_us = arrival.time_us;
    Send(arrival.request, was_free ? arrival.time_us : now_us);
  }
  free_clients_ = std::max(limit - static_cast<int32_t>(in_flight_.size()), 0);
}

void Simulation::Send(int32_t index, int64_t sent_us) {
  const TraceRequest& request = trace_.requests[index];
  RequestRecord& record = result_.requests[index];
  const std::span<int32_t> prompt =
      std::span(prompt_).first(static_cast<size_t>(request.prompt_tokens));
  WriteContent(trace_.segments_of(request), prompt);
  Request submission;
  submission.prompt = prompt;
  submission.max_new_tokens = Declare(options_.declared, request.output_tokens);
  SimulatedRunner::Output output;
  output.content_id = request.output_content_id;
  output.prompt_tokens = request.prompt_tokens;
  output.length = request.output_tokens;
  if (submission.max_new_tokens != request.output_tokens) {
    submission.end_token = output.end_token = kEndToken;
  }
  record.sent_us = sent_us;
  ++sent_;
  const absl::StatusOr<RequestId> id =
      scheduler_.Submit(submission, runner_.now_us());
  if (!id.ok()) {
    record.state = RequestRecord::State::kRefused;
    record.refusal = RefusalOf(id.status());
    KeepExample(index, id.status());
    record.ended_us = runner_.now_us();
    ++refused_;
    if (options_.on_request) options_.on_request({index, {}, record});
    arrivals_.OnEnd(index, record.ended_us);
    return;
  }
  record.state = RequestRecord::State::kUnfinished;
  if (options_.on_request) options_.on_request({index, *id, record});
  runner_.Register(*id, output);
  in_flight_.emplace(id->value, index);
  result_.peak_in_flight =
      std::max(result_.peak_in_flight, static_cast<int32_t>(in_flight_.size()));
}

void Simulation::KeepExample(int32_t index, const absl::Status& refusal) {
  const uint64_t kind = uint64_t{1} << static_cast<int>(RefusalOf(refusal));
  if ((refusals_seen_ & kind) != 0) return;
  refusals_seen_ |= kind;
  result_.refusal_examples.push_back(
      absl::StrCat("request ", index, ": ", refusal.message()));
}

absl::Status Simulation::RunStep(const StepPlan& plan) {
  const int64_t start_us = runner_.now_us();
  const std::span<int32_t> sampled =
      std::span(sampled_).first(static_cast<size_t>(plan.batch.num_seqs));
  TIDEWHEEL_RETURN_IF_ERROR(runner_.Run(plan, sampled));
  RecordTokens(plan, start_us);
  RecordUsage(plan, start_us);
  TIDEWHEEL_RETURN_IF_ERROR(scheduler_.Commit(plan.step_id, sampled));
  TakeFinished();
  CheckNothingLost();
  if (runner_.totals().steps % kStepsBetweenProgress == 0) {
    if (options_.on_progress) ReportProgress();
    if (options_.should_stop && options_.should_stop()) {
      return absl::CancelledError("stopped");
    }
  }
  return absl::OkStatus();
}

bool Simulation::SkipIdleTime() {
  if (arrivals_.empty() || arrivals_.next().time_us <= runner_.now_us()) {
    return false;
  }
  if (options_.on_idle) {
    options_.on_idle({runner_.now_us(), arrivals_.next().time_us,
                      scheduler_.allocator().stats()});
  }
  runner_.AdvanceTo(arrivals_.next().time_us);
  return true;
}

void Simulation::RecordTokens(const StepPlan& plan, int64_t step_start_us) {
  const int64_t now_us = runner_.now_us();
  // The gap of every row that also got a token in the step before.
  const int64_t step_gap_us = now_us - last_step_end_us_;
  int64_t step_gaps = 0;
  for (int32_t i = 0; i < plan.batch.num_seqs; ++i) {
    if (plan.wants_logits[i] == 0) continue;
    Row& row = rows_[i];
    if (!(row.id == plan.requests[i])) {
      row = {plan.requests[i], in_flight_.at(plan.requests[i].value)};
    }
    int64_t& last_us = last_token_us_[row.request];
    if (last_us == last_step_end_us_ && last_us >= 0) {
      ++step_gaps;
    } else if (last_us >= 0) {
      result_.gaps.Add(now_us - last_us, 1);
    } else {
      result_.requests[row.request].first_token_us = now_us;
    }
    last_us = now_us;
  }
  if (step_gaps > 0) result_.gaps.Add(step_gap_us, step_gaps);
  last_step_end_us_ = now_us;
  result_.peak_running = std::max(result_.peak_running, plan.batch.num_seqs);
  busy_us_ += static_cast<double>(now_us - step_start_us);
}

void Simulation::RecordUsage(const StepPlan& plan, int64_t step_start_us) {
  const PageAllocator& allocator = scheduler_.allocator();
  const PageAllocator::Stats pages = allocator.stats();
  TIDEWHEEL_CHECK(pages.lent_pages >= 0 &&
                  pages.lent_pages <= pages.total_pages);
  int64_t pages_of_rows = 0;
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    pages_of_rows += allocator.table().num_pages(row);
  }
  // Pages that rows share are full, so what is empty is empty once. Rows that
  // have no token in this step count as if their last page were full.
  const int64_t page_size = allocator.page_size();
  const int64_t empty_slots = pages_of_rows * page_size - plan.kv_tokens;
  const int64_t used_slots = pages.lent_pages * page_size - empty_slots;
  TIDEWHEEL_CHECK(empty_slots >= 0 && used_slots > 0);
  peak_pages_ = std::max<int64_t>(peak_pages_, pages.lent_pages);
  peak_promised_ = std::max<int64_t>(peak_promised_, pages.promised_pages);
  peak_slots_ = std::max(peak_slots_, used_slots);
  const double step_us = static_cast<double>(runner_.now_us() - step_start_us);
  page_us_ += static_cast<double>(pages.lent_pages) * step_us;
  promised_us_ += static_cast<double>(pages.promised_pages) * step_us;
  slot_us_ += static_cast<double>(used_slots) * step_us;
  if (options_.on_step) {
    options_.on_step({plan, runner_.last_step(), step_start_us,
                      runner_.now_us(), scheduler_.num_waiting(),
                      scheduler_.num_running(), pages, used_slots,
                      scheduler_.stats().preemptions});
  }
}

void Simulation::TakeFinished() {
  for (const FinishedRequest& finished : scheduler_.TakeFinished()) {
    const auto found = in_flight_.find(finished.id.value);
    TIDEWHEEL_CHECK(found != in_flight_.end());
    const int32_t index = found->second;
    RequestRecord& record = result_.requests[index];
    record.state = RequestRecord::State::kEnded;
    record.finish_reason = finished.reason;
    record.admitted_us = finished.admitted_us;
    record.ended_us = runner_.now_us();
    record.generated_tokens = finished.generated_tokens;
    record.cached_tokens = finished.cached_tokens;
    record.preemptions = finished.preemptions;
    if (options_.on_request) options_.on_request({index, finished.id, record});
    runner_.Forget(finished.id);
    in_flight_.erase(found);
    ++ended_;
    arrivals_.OnEnd(index, record.ended_us);
  }
}

void Simulation::CheckNothingLost() const {
  TIDEWHEEL_CHECK_EQ(sent_, refused_ + ended_ + scheduler_.num_waiting() +
                                scheduler_.num_running());
}

void Simulation::ReportProgress() const {
  options_.on_progress({refused_ + ended_,
                        static_cast<int64_t>(trace_.requests.size()),
                        runner_.now_us()});
}

void Simulation::Finish(const Scheduler::PlanResult& last) {
  CheckNothingLost();
  if (scheduler_.has_unfinished()) {
    result_.blocked = scheduler_.Explain(last.blocked).text;
  }
  for (const RequestRecord& record : result_.requests) {
    result_.end_us = std::max(result_.end_us, record.ended_us);
  }
  const PageAllocator::Stats pages = scheduler_.allocator().stats();
  const double all_pages = pages.total_pages;
  const double all_slots = all_pages * scheduler_.allocator().page_size();
  PoolUsage& usage = result_.usage;
  usage.busy_s = busy_us_ / 1e6;
  if (busy_us_ > 0) {
    usage.mean_pages = page_us_ / busy_us_ / all_pages;
    usage.mean_promised = promised_us_ / busy_us_ / all_pages;
    usage.mean_slots = slot_us_ / busy_us_ / all_slots;
  }
  usage.peak_pages = static_cast<double>(peak_pages_) / all_pages;
  usage.peak_promised = static_cast<double>(peak_promised_) / all_pages;
  usage.peak_slots = static_cast<double>(peak_slots_) / all_slots;
  result_.pages_evicted = pages.pages_evicted;
  result_.scheduler = scheduler_.stats();
  result_.runner = runner_.totals();
  if (options_.on_progress) ReportProgress();
}

}  // namespace

absl::StatusOr<SimulationResult> RunSimulation(const Trace& trace,
                                               const SimulationOptions& options,
                                               Scheduler& scheduler,
                                               SimulatedRunner& runner) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckOptions(options));
  TIDEWHEEL_CHECK_EQ(runner.now_us(), 0);
  TIDEWHEEL_CHECK_EQ(scheduler.stats().accepted, 0);
  return Simulation(trace, options, scheduler, runner).Run();
}

}  // namespace tidewheel
