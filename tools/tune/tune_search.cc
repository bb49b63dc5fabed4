#include "tools/tune/tune_search.h"

#include <algorithm>
#include <cmath>
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
#include "tools/tune/rung_search.h"
#include "tools/tune/search_progress.h"
#include "tools/tune/sensitivity.h"

namespace tidewheel {
namespace {

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
  absl::Status Prepare();
  absl::Status RunRungs();
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
  bool IsPreferred(const CandidateResult& a, const CandidateResult& b) const;
  bool stopped() const {
    return options_.should_stop && options_.should_stop();
  }

  const TuneOptions& options_;
  const Traffic& traffic_;
  const CandidateEvaluator& evaluator_;
  SearchProgress progress_;
  TuneResult result_;
  size_t num_rungs_ = 0;
  std::vector<SearchedCandidate> searched_;  // by candidate
  int32_t devices_per_chip_ = 1;
};

absl::StatusOr<TuneResult> TuneSearch::Run() && {
  TIDEWHEEL_RETURN_IF_ERROR(Prepare());
  TIDEWHEEL_RETURN_IF_ERROR(RunRungs());
  result_.interrupted = stopped();
  Judge();
  if (result_.recommended >= 0) {
    TIDEWHEEL_RETURN_IF_ERROR(Explain());
  } else if (!result_.interrupted) {
    const absl::Status status = Diagnose();
    if (!absl::IsCancelled(status)) TIDEWHEEL_RETURN_IF_ERROR(status);
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
    SearchedCandidate searched;
    searched.result.candidate = candidate;
    searched.result.kv_bytes = setup.plan.capacity.kv_bytes;
    searched.bytes_per_page = setup.plan.capacity.bytes_per_page;
    searched_.push_back(std::move(searched));
  }
  result_.candidates.resize(searched_.size());
  return absl::OkStatus();
}

absl::Status TuneSearch::RunRungs() {
  const RungSearch rungs({.tune = options_,
                          .request_rate = result_.request_rate,
                          .devices_per_chip = devices_per_chip_},
                         traffic_, evaluator_, progress_);
  num_rungs_ = rungs.Rungs(searched_.size()).size();
  return rungs.Run(searched_, result_.rungs);
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
  for (const SearchedCandidate& searched : searched_) {
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
        CostOf(options_.objective, result) <
            CostOf(options_.objective,
                   searched_[static_cast<size_t>(result_.best)].result)) {
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
        CostOf(options_.objective, result) <=
        CostOf(options_.objective, best) +
            kGivenAway * std::abs(CostOf(options_.objective, best));
    if (!result.is_equal || !gives_little) continue;
    const CandidateResult& known =
        searched_[static_cast<size_t>(result_.recommended)].result;
    if (IsPreferred(result, known)) {
      result_.recommended = static_cast<int32_t>(i);
    }
  }
  result_.attainable = static_cast<size_t>(furthest) == num_rungs_ || stopped();
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
    const SearchedCandidate& searched = searched_[i];
    const CandidateResult& result = searched.result;
    if (static_cast<size_t>(result.rungs) != result_.rungs.size()) continue;
    FrontPoint point;
    point.candidate = static_cast<int32_t>(i);
    if (is_rate) {
      if (!result.keeps_promise) continue;
      point.settings = result.candidate;
      point.cost =
          PoolGib(result.kv_bytes, result.candidate.chips, devices_per_chip_);
      point.value = result.objective.value;
      front.points.push_back(point);
      continue;
    }
    for (const LoadOutcome& outcome : searched.outcomes) {
      if (!outcome.keeps_promise) continue;
      point.settings = outcome.candidate;
      point.value = outcome.strain.value;
      point.cost = options_.objective == TuneObjective::kFewestChips
                       ? std::ceil(given_rate() / outcome.request_rate - 1e-9) *
                             outcome.candidate.chips
                       : PoolGib(searched.bytes_per_page *
                                     outcome.candidate.total_num_pages,
                                 outcome.candidate.chips, devices_per_chip_);
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
  const SearchedCandidate* closest = nullptr;
  for (const SearchedCandidate& searched : searched_) {
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
  FollowTraffic(traffic, filled.server);
  filled.server.should_stop = options.should_stop;
  const CandidateEvaluator evaluator(filled.server, traffic);
  return TuneSearch(filled, traffic, evaluator).Run();
}

}  // namespace tidewheel
