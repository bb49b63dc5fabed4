#include "tools/tune/tune_search.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/tune/binding_resource.h"
#include "tools/tune/candidate_search.h"
#include "tools/tune/cliff_search.h"
#include "tools/tune/explain_choice.h"
#include "tools/tune/parallel_for.h"
#include "tools/tune/pareto_front.h"
#include "tools/tune/rung_plan.h"
#include "tools/tune/search_progress.h"
#include "tools/tune/sensitivity.h"

namespace tidewheel {
namespace {

constexpr double kGib = 1 << 30;
// Of the best figure, what simplicity may cost.
constexpr double kGivenAway = 0.05;
constexpr const char* kSearchMethod =
    "successive halving (Jamieson and Talwalkar, 2016): each rung keeps a "
    "quarter and runs four times the requests; every candidate is judged at "
    "its own best load";
constexpr const char* kTraceConfidence =
    "95 %, moving block bootstrap (Kuensch, 1989) of the requests, block "
    "length by Politis and White (2004)";
constexpr const char* kDrawnConfidence =
    "95 %, Student's t over replications with different seeds";
constexpr const char* kWarmUp =
    "MSER-5 (White, 1997) on the requests in flight";
constexpr const char* kStationarity =
    "waiting times rise to the end: Mann-Kendall at 1 %, and by Sen's slope "
    "more than a request is served; never averaged";

// So low that requests seldom meet, and so high that they all do: of the
// traffic's own rate.
constexpr double kAloneRate = 1e-4;
constexpr double kHighestRate = 1e6;

class TuneSearch {
 public:
  TuneSearch(const TuneOptions& options, const Traffic& traffic,
             const CandidateEvaluator& evaluator)
      : options_(options),
        traffic_(traffic),
        evaluator_(evaluator),
        progress_(options, evaluator) {}

  absl::StatusOr<TuneResult> Run() &&;

 private:
  // What a candidate's rung found, without its requests.
  struct Searched {
    CandidateResult result;
    double next_start = 0;              // rate to begin with on the next rung
    std::vector<LoadOutcome> outcomes;  // of every load tried
  };

  absl::Status Prepare();
  absl::Status GuessRate();
  absl::Status RunRungs();
  absl::Status RunRung(size_t index, const std::vector<size_t>& candidates);
  absl::Status SearchOne(const SearchRung& rung, bool is_last,
                         Searched& searched) const;
  absl::Status Estimate(const CandidateEdge& edge, Searched& searched) const;
  std::vector<size_t> Keep(const std::vector<size_t>& candidates,
                           size_t count) const;
  void Judge();
  void BuildFront();
  absl::Status Explain();
  absl::Status StudyRecommended();
  absl::Status Diagnose();

  double given_rate() const { return *result_.request_rate; }
  double base_rate() const {
    return result_.request_rate.value_or(traffic_.own_rate().value_or(1));
  }
  bool is_rate_search() const {
    return options_.objective != TuneObjective::kFewestPages;
  }
  IntervalOptions intervals() const {
    return {.resamples = options_.resamples, .seed = options_.seed};
  }
  // Smaller is better.
  double Cost(const CandidateResult& result) const {
    return options_.objective == TuneObjective::kHighestRate
               ? -result.objective.value
               : result.objective.value;
  }
  double PoolGib(const CandidateResult& result) const {
    return static_cast<double>(result.kv_bytes) * result.candidate.chips *
           devices_per_chip_ / kGib;
  }
  bool IsPreferred(const CandidateResult& a, const CandidateResult& b) const;
  bool stopped() const {
    return options_.should_stop && options_.should_stop();
  }

  const TuneOptions& options_;
  const Traffic& traffic_;
  const CandidateEvaluator& evaluator_;
  SearchProgress progress_;
  TuneResult result_;
  std::vector<SearchRung> rungs_;
  std::vector<Searched> searched_;       // by candidate
  std::vector<int64_t> bytes_per_page_;  // by candidate, on each device
  int32_t devices_per_chip_ = 1;
};

absl::StatusOr<TuneResult> TuneSearch::Run() && {
  TIDEWHEEL_RETURN_IF_ERROR(Prepare());
  TIDEWHEEL_RETURN_IF_ERROR(GuessRate());
  TIDEWHEEL_RETURN_IF_ERROR(RunRungs());
  result_.interrupted = stopped();
  Judge();
  if (result_.recommended >= 0) {
    TIDEWHEEL_RETURN_IF_ERROR(Explain());
  } else if (!result_.interrupted) {
    TIDEWHEEL_RETURN_IF_ERROR(Diagnose());
  }
  BuildFront();
  for (size_t i = 0; i < searched_.size(); ++i) {
    result_.candidates[i] = searched_[i].result;
  }
  result_.interrupted = stopped();
  result_.runs = evaluator_.runs();
  result_.simulated_requests = evaluator_.simulated_requests();
  return std::move(result_);
}

absl::Status TuneSearch::Prepare() {
  const ServingOptions& serving = options_.server.serving;
  result_.promise = options_.server.promise;
  result_.objective = options_.objective;
  result_.serving = serving;
  result_.max_model_len = *serving.plan.max_model_len;
  result_.seed = options_.seed;
  result_.threads = options_.threads;
  result_.search_method = kSearchMethod;
  const bool is_drawn = traffic_.replications() > 1;
  result_.confidence_method = is_drawn ? kDrawnConfidence : kTraceConfidence;
  result_.warm_up_method = absl::StrCat(kWarmUp, is_drawn ? ", at most half"
                                                          : ", at most a tenth "
                                                            "of a trace");
  result_.stationarity_method = kStationarity;
  result_.workload = traffic_.trace().name;
  if (options_.objective != TuneObjective::kHighestRate) {
    result_.request_rate = options_.request_rate.has_value()
                               ? options_.request_rate
                               : traffic_.own_rate();
    if (!result_.request_rate.has_value()) {
      return absl::InvalidArgumentError(
          "the trace has no rate of its own; give a --request-rate");
    }
  }
  result_.space_size = options_.space.size();
  TIDEWHEEL_ASSIGN_OR_RETURN(
      CandidateList list,
      ListCandidates(options_.space, serving, options_.objective));
  result_.exclusions = std::move(list.exclusions);
  TIDEWHEEL_ASSIGN_OR_RETURN(const TpuChip chip, FindTpuChip(serving.chip));
  devices_per_chip_ = chip.devices;
  for (const Candidate& candidate : list.candidates) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const ServingSetup setup,
                               PrepareServing(ServingOf(candidate, serving)));
    Searched searched;
    searched.result.candidate = candidate;
    searched.result.kv_bytes = setup.plan.capacity.kv_bytes;
    bytes_per_page_.push_back(setup.plan.capacity.bytes_per_page);
    searched_.push_back(std::move(searched));
  }
  result_.candidates.resize(searched_.size());
  rungs_ = PlanRungs({.requests = traffic_.num_requests(),
                      .replications = traffic_.replications(),
                      .candidates = static_cast<int64_t>(searched_.size()),
                      .percentile = result_.promise.percentile});
  progress_.Plan(rungs_, static_cast<int64_t>(searched_.size()));
  return absl::OkStatus();
}

// All candidates begin with what the first one reaches, whichever runs first.
absl::Status TuneSearch::GuessRate() {
  double start = base_rate();
  if (is_rate_search()) {
    SearchRung coarse = rungs_.front();
    coarse.resolution = 1.3;
    Searched first = searched_.front();
    first.next_start = start;
    const absl::Status status = SearchOne(coarse, /*is_last=*/false, first);
    if (status.ok() && first.result.keeps_promise) start = first.next_start;
    if (!status.ok() && !absl::IsCancelled(status)) return status;
  }
  for (Searched& searched : searched_) searched.next_start = start;
  return absl::OkStatus();
}

absl::Status TuneSearch::RunRungs() {
  std::vector<size_t> left(searched_.size());
  std::iota(left.begin(), left.end(), size_t{0});
  for (size_t i = 0; i < rungs_.size() && !stopped(); ++i) {
    const int64_t runs = evaluator_.runs();
    TIDEWHEEL_RETURN_IF_ERROR(RunRung(i, left));
    RungSummary summary;
    summary.requests = rungs_[i].requests;
    summary.replications = rungs_[i].replications;
    summary.candidates = static_cast<int32_t>(left.size());
    if (i + 1 < rungs_.size()) left = Keep(left, KeptOf(left.size()));
    summary.kept = static_cast<int32_t>(left.size());
    summary.runs = evaluator_.runs() - runs;
    result_.rungs.push_back(summary);
  }
  return absl::OkStatus();
}

absl::Status TuneSearch::RunRung(size_t index,
                                 const std::vector<size_t>& candidates) {
  const SearchRung& rung = rungs_[index];
  const bool is_last = index + 1 == rungs_.size();
  progress_.Begin(static_cast<int64_t>(candidates.size()));
  return ParallelFor(
      static_cast<int64_t>(candidates.size()), options_.threads,
      [&](int64_t i) -> absl::Status {
        Searched searched = searched_[candidates[static_cast<size_t>(i)]];
        const absl::Status status = SearchOne(rung, is_last, searched);
        if (absl::IsCancelled(status)) return absl::OkStatus();
        TIDEWHEEL_RETURN_IF_ERROR(status);
        searched.result.rungs = static_cast<int32_t>(index) + 1;
        searched.result.reached_last_rung = is_last;
        searched.result.by_rung.push_back(searched.result.keeps_promise
                                              ? searched.result.objective.value
                                              : 0);
        searched_[candidates[static_cast<size_t>(i)]] = std::move(searched);
        progress_.EndTask();
        return absl::OkStatus();
      });
}

absl::Status TuneSearch::SearchOne(const SearchRung& rung, bool is_last,
                                   Searched& searched) const {
  CandidateResult& result = searched.result;
  CandidateEdge edge;
  if (is_rate_search()) {
    const bool has_cap = options_.objective == TuneObjective::kFewestChips;
    RateRange range;
    range.floor = base_rate() * kAloneRate;
    range.cap = has_cap ? given_rate() : base_rate() * kHighestRate;
    range.start = std::clamp(searched.next_start, range.floor, range.cap);
    TIDEWHEEL_ASSIGN_OR_RETURN(
        edge, SearchRate(evaluator_, result.candidate, rung, range,
                         options_.should_stop));
  } else {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        edge, SearchPages(evaluator_, result.candidate, rung, given_rate(),
                          options_.should_stop));
  }
  result.keeps_promise = edge.keeps_promise;
  result.broken_at = edge.broken;
  result.outcome = edge.best_point().outcome;
  // On the last rung what was seen to hold counts; before it a better guess.
  const double best = is_last ? edge.best : InterpolatedEdge(edge);
  if (edge.keeps_promise && is_rate_search()) searched.next_start = best;
  result.objective = {best, best, best};
  if (is_last && edge.keeps_promise) {
    result.objective =
        EdgeEstimate(edge, evaluator_.options().promise, intervals());
    result.outcome = Summarize(edge.best_point().samples,
                               evaluator_.options().promise, intervals());
  }
  searched.outcomes.clear();
  for (const ProbePoint& point : edge.points) {
    searched.outcomes.push_back(point.outcome);
  }
  return Estimate(edge, searched);
}

// From the edge's unit to the objective's.
absl::Status TuneSearch::Estimate(const CandidateEdge& edge,
                                  Searched& searched) const {
  CandidateResult& result = searched.result;
  tidewheel::Estimate& objective = result.objective;
  if (options_.objective == TuneObjective::kFewestPages) {
    const double bytes = static_cast<double>(result.kv_bytes) /
                         static_cast<double>(result.candidate.total_num_pages);
    const double gib =
        bytes * result.candidate.chips * devices_per_chip_ / kGib;
    objective = {objective.value * gib, objective.low * gib,
                 objective.high * gib};
    return absl::OkStatus();
  }
  if (options_.objective != TuneObjective::kFewestChips ||
      !edge.keeps_promise) {
    return absl::OkStatus();
  }
  const auto chips = [&](double rate) {
    const double copies = std::ceil(
        given_rate() / std::max(rate, base_rate() * kAloneRate) - 1e-9);
    return std::max(copies, 1.0) * result.candidate.chips;
  };
  objective = {chips(objective.value), chips(objective.high),
               chips(objective.low)};
  result.copies =
      static_cast<int32_t>(objective.value) / result.candidate.chips;
  return absl::OkStatus();
}

std::vector<size_t> TuneSearch::Keep(const std::vector<size_t>& candidates,
                                     size_t count) const {
  std::vector<CostPair> pairs;
  for (const size_t i : candidates) {
    const CandidateResult& result = searched_[i].result;
    // Where memory or chips are what is counted, that is the only cost.
    const bool by_memory = options_.objective == TuneObjective::kHighestRate;
    pairs.push_back({result.keeps_promise ? Cost(result) : 0,
                     by_memory ? PoolGib(result) : 0});
  }
  const std::vector<int32_t> fronts = FrontNumbers(pairs);
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const CandidateResult& x = searched_[candidates[a]].result;
    const CandidateResult& y = searched_[candidates[b]].result;
    if (x.keeps_promise != y.keeps_promise) return x.keeps_promise;
    if (!x.keeps_promise) {
      return x.outcome.strain.value < y.outcome.strain.value;
    }
    if (fronts[a] != fronts[b]) return fronts[a] < fronts[b];
    return Cost(x) < Cost(y);
  });
  std::vector<size_t> kept;
  for (size_t k = 0; k < std::min(count, order.size()); ++k) {
    kept.push_back(candidates[order[k]]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

bool TuneSearch::IsPreferred(const CandidateResult& a,
                             const CandidateResult& b) const {
  if (options_.objective == TuneObjective::kFewestChips) {
    const int32_t chips_a = a.candidate.chips * a.copies;
    const int32_t chips_b = b.candidate.chips * b.copies;
    if (chips_a != chips_b) return chips_a < chips_b;
  }
  if (options_.objective == TuneObjective::kFewestPages) {
    // Pools whose sizes can not be told apart: what else is simpler.
    Candidate alike = a.candidate;
    alike.total_num_pages = 1;
    Candidate other = b.candidate;
    other.total_num_pages = 1;
    alike.page_size = other.page_size = 1;
    if (IsCheaper(alike, other)) return true;
    if (IsCheaper(other, alike)) return false;
  }
  return IsCheaper(a.candidate, b.candidate);
}

void TuneSearch::Judge() {
  // Of those that came furthest: figures of different rungs do not compare.
  int32_t furthest = 0;
  for (const Searched& searched : searched_) {
    if (searched.result.keeps_promise) {
      furthest = std::max(furthest, searched.result.rungs);
    }
  }
  if (furthest == 0) return;
  const auto counts = [&](const CandidateResult& result) {
    return result.keeps_promise && result.rungs == furthest;
  };
  for (size_t i = 0; i < searched_.size(); ++i) {
    CandidateResult& result = searched_[i].result;
    if (!counts(result)) continue;
    if (options_.objective == TuneObjective::kFewestPages) {
      const Candidate found = result.outcome.candidate;
      result.kv_bytes = result.kv_bytes / result.candidate.total_num_pages *
                        found.total_num_pages;
      result.candidate = found;
    }
    if (result_.best < 0 ||
        Cost(result) <
            Cost(searched_[static_cast<size_t>(result_.best)].result)) {
      result_.best = static_cast<int32_t>(i);
    }
  }
  const CandidateResult& best =
      searched_[static_cast<size_t>(result_.best)].result;
  result_.recommended = result_.best;
  for (size_t i = 0; i < searched_.size(); ++i) {
    CandidateResult& result = searched_[i].result;
    if (!counts(result)) continue;
    result.is_equal = result.objective.Overlaps(best.objective);
    const bool gives_little =
        Cost(result) <= Cost(best) + kGivenAway * std::abs(Cost(best));
    if (!result.is_equal || !gives_little) continue;
    const CandidateResult& known =
        searched_[static_cast<size_t>(result_.recommended)].result;
    if (IsPreferred(result, known)) {
      result_.recommended = static_cast<int32_t>(i);
    }
  }
  result_.attainable =
      static_cast<size_t>(furthest) == rungs_.size() || stopped();
  if (!result_.attainable) result_.best = result_.recommended = -1;
}

void TuneSearch::BuildFront() {
  ParetoFront& front = result_.front;
  const bool is_rate = options_.objective == TuneObjective::kHighestRate;
  front.cost_name = options_.objective == TuneObjective::kFewestChips
                        ? "chips"
                        : "KV cache, GiB";
  front.value_name = is_rate ? "requests/s" : "strain";
  front.larger_is_better = is_rate;
  for (size_t i = 0; i < searched_.size(); ++i) {
    const Searched& searched = searched_[i];
    const CandidateResult& result = searched.result;
    if (static_cast<size_t>(result.rungs) != result_.rungs.size()) continue;
    FrontPoint point;
    point.candidate = static_cast<int32_t>(i);
    if (is_rate) {
      if (!result.keeps_promise) continue;
      point.settings = result.candidate;
      point.cost = PoolGib(result);
      point.value = result.objective.value;
      front.points.push_back(point);
      continue;
    }
    for (const LoadOutcome& outcome : searched.outcomes) {
      if (!outcome.keeps_promise) continue;
      point.settings = outcome.candidate;
      point.value = outcome.strain.value;
      point.cost =
          options_.objective == TuneObjective::kFewestChips
              ? std::ceil(given_rate() / outcome.request_rate - 1e-9) *
                    outcome.candidate.chips
              : static_cast<double>(bytes_per_page_[i]) *
                    static_cast<double>(outcome.candidate.total_num_pages) *
                    outcome.candidate.chips * devices_per_chip_ / kGib;
      front.points.push_back(point);
    }
  }
  MarkFront(front);
  for (const FrontPoint& point : front.points) {
    if (!point.is_on_front) continue;
    searched_[static_cast<size_t>(point.candidate)].result.is_on_front = true;
  }
}

absl::Status TuneSearch::Explain() {
  const CandidateResult& chosen =
      searched_[static_cast<size_t>(result_.recommended)].result;
  TIDEWHEEL_ASSIGN_OR_RETURN(
      result_.setup,
      PrepareServing(ServingOf(chosen.candidate, result_.serving)));
  result_.vllm_flags = VllmFlags(*result_.setup);
  result_.base = chosen.outcome;
  if (!result_.interrupted) {
    const absl::Status status = StudyRecommended();
    if (!absl::IsCancelled(status)) TIDEWHEEL_RETURN_IF_ERROR(status);
  }
  for (size_t i = 0; i < searched_.size(); ++i) {
    result_.candidates[i] = searched_[i].result;
  }
  result_.reasons = ReasonsOfKnobs(result_);
  result_.what_would_change = WhatWouldChange(result_);
  return absl::OkStatus();
}

absl::Status TuneSearch::StudyRecommended() {
  const CandidateResult& chosen =
      searched_[static_cast<size_t>(result_.recommended)].result;
  const int32_t replications = traffic_.replications();
  Load load;
  load.request_rate =
      is_rate_search() ? chosen.outcome.request_rate : given_rate();
  if (options_.objective == TuneObjective::kFewestChips) {
    load.request_rate = given_rate() / chosen.copies;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::vector<RunSample> base,
      evaluator_.RunReplications(chosen.candidate, load, replications));
  result_.base = Summarize(base, result_.promise, intervals());
  CliffOptions cliff;
  cliff.request_rate = load.request_rate;
  cliff.replications = replications;
  cliff.bytes_per_page = result_.setup->plan.capacity.bytes_per_page;
  cliff.intervals = intervals();
  const std::vector<Variation> variations = Variations(
      chosen.candidate, load, result_.setup->cost_model.devices() > 1);
  std::vector<SensitivityRow> rows(variations.size());
  progress_.Begin(static_cast<int64_t>(variations.size()) + 1);
  // The cliff is one long chain of runs, so it goes first.
  const absl::Status status = ParallelFor(
      static_cast<int64_t>(variations.size()) + 1, options_.threads,
      [&](int64_t i) -> absl::Status {
        if (stopped()) return absl::CancelledError("stopped");
        if (i == 0) {
          TIDEWHEEL_ASSIGN_OR_RETURN(
              result_.cliff, FindCliff(evaluator_, chosen.candidate, cliff,
                                       options_.should_stop));
        } else {
          const size_t v = static_cast<size_t>(i - 1);
          TIDEWHEEL_ASSIGN_OR_RETURN(
              rows[v], RunVariation(evaluator_, variations[v], base,
                                    result_.setup->model, intervals()));
        }
        progress_.EndTask();
        return absl::OkStatus();
      });
  TIDEWHEEL_RETURN_IF_ERROR(status);
  result_.sensitivity = std::move(rows);
  return absl::OkStatus();
}

absl::Status TuneSearch::Diagnose() {
  // The candidate that came closest on the longest run.
  const Searched* closest = nullptr;
  for (const Searched& searched : searched_) {
    if (closest == nullptr || searched.result.rungs > closest->result.rungs ||
        (searched.result.rungs == closest->result.rungs &&
         searched.result.outcome.strain.value <
             closest->result.outcome.strain.value)) {
      closest = &searched;
    }
  }
  TIDEWHEEL_CHECK(closest != nullptr);
  const Candidate& candidate = closest->result.candidate;
  const auto outcome = [&](double rate) -> absl::StatusOr<LoadOutcome> {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        const std::vector<RunSample> samples,
        evaluator_.RunReplications(candidate, {.request_rate = rate},
                                   traffic_.replications()));
    return Summarize(samples, result_.promise, intervals());
  };
  TIDEWHEEL_ASSIGN_OR_RETURN(const LoadOutcome alone,
                             outcome(base_rate() * kAloneRate));
  LoadOutcome loaded = alone;
  if (!is_rate_search()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(loaded, outcome(given_rate()));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const Binding binding,
                             FindBinding(evaluator_, alone, loaded));
  result_.base = std::move(loaded);
  result_.binding = binding.resource;
  result_.binding_text = binding.text;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TuneResult> RunTuneSearch(const TuneOptions& options,
                                         const Traffic& traffic) {
  TIDEWHEEL_CHECK_GT(options.threads, 0);
  TuneOptions filled = options;
  ServerPlanOptions& plan = filled.server.serving.plan;
  if (!plan.max_model_len.has_value()) {
    plan.max_model_len = traffic.longest_request_tokens();
  }
  const CandidateEvaluator evaluator(filled.server, traffic);
  return TuneSearch(filled, traffic, evaluator).Run();
}

}  // namespace tidewheel
