#include "tools/tune/rung_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "allocator/status_macros.h"
#include "tools/tune/parallel_for.h"
#include "tools/tune/pareto_front.h"
#include "tools/tune/rung_plan.h"

namespace tidewheel {
namespace {

// Of the traffic's rate: so high that all requests meet.
constexpr double kHighestRate = 1e6;

IntervalOptions IntervalsOf(const TuneOptions& options) {
  return {.resamples = options.resamples, .seed = options.seed};
}

}  // namespace

double CostOf(TuneObjective objective, const CandidateResult& result) {
  return objective == TuneObjective::kHighestRate ? -result.objective.value
                                                  : result.objective.value;
}

double PoolGib(int64_t kv_bytes, int32_t chips, int32_t devices_per_chip) {
  constexpr double kGib = 1 << 30;
  return static_cast<double>(kv_bytes) * chips * devices_per_chip / kGib;
}

std::vector<SearchRung> RungSearch::Rungs(size_t candidates) const {
  return PlanRungs({.requests = traffic_.num_requests(),
                    .replications = traffic_.replications(),
                    .candidates = static_cast<int64_t>(candidates),
                    .percentile = tune_.server.promise.percentile});
}

absl::Status RungSearch::Run(std::vector<SearchedCandidate>& candidates,
                             std::vector<RungSummary>& summaries) const {
  const std::vector<SearchRung> rungs = Rungs(candidates.size());
  progress_.Plan(rungs, static_cast<int64_t>(candidates.size()));
  TIDEWHEEL_RETURN_IF_ERROR(GuessRate(rungs.front(), candidates));
  std::vector<size_t> left(candidates.size());
  std::iota(left.begin(), left.end(), size_t{0});
  for (size_t i = 0; i < rungs.size() && !stopped(); ++i) {
    const int64_t runs = evaluator_.runs();
    const bool is_last = i + 1 == rungs.size();
    RungSummary summary;
    summary.requests = rungs[i].requests;
    summary.replications = rungs[i].replications;
    summary.candidates = static_cast<int32_t>(left.size());
    TIDEWHEEL_RETURN_IF_ERROR(RunRung(rungs[i], static_cast<int32_t>(i) + 1,
                                      is_last, left, candidates));
    if (!is_last) left = Keep(left, candidates);
    summary.kept = static_cast<int32_t>(left.size());
    summary.runs = evaluator_.runs() - runs;
    summaries.push_back(summary);
  }
  return absl::OkStatus();
}

// All candidates begin with what the first one reaches, whichever runs first.
absl::Status RungSearch::GuessRate(
    const SearchRung& rung, std::vector<SearchedCandidate>& candidates) const {
  double start = base_rate();
  if (is_rate_search()) {
    SearchRung coarse = rung;
    coarse.resolution = 1.3;
    SearchedCandidate first = candidates.front();
    first.next_start = start;
    const absl::Status status = SearchOne(coarse, /*is_last=*/false, first);
    if (!status.ok() && !absl::IsCancelled(status)) return status;
    if (status.ok() && first.result.keeps_promise) start = first.next_start;
  }
  for (SearchedCandidate& candidate : candidates) candidate.next_start = start;
  return absl::OkStatus();
}

absl::Status RungSearch::RunRung(
    const SearchRung& rung, int32_t number, bool is_last,
    const std::vector<size_t>& indices,
    std::vector<SearchedCandidate>& candidates) const {
  progress_.Begin(static_cast<int64_t>(indices.size()));
  return ParallelFor(static_cast<int64_t>(indices.size()), tune_.threads,
                     [&](int64_t i) -> absl::Status {
                       SearchedCandidate& candidate =
                           candidates[indices[static_cast<size_t>(i)]];
                       SearchedCandidate searched = candidate;
                       const absl::Status status =
                           SearchOne(rung, is_last, searched);
                       if (absl::IsCancelled(status)) return absl::OkStatus();
                       TIDEWHEEL_RETURN_IF_ERROR(status);
                       CandidateResult& result = searched.result;
                       result.rungs = number;
                       result.reached_last_rung = is_last;
                       result.by_rung.push_back(
                           result.keeps_promise ? result.objective.value : 0);
                       candidate = std::move(searched);
                       progress_.EndTask();
                       return absl::OkStatus();
                     });
}

absl::Status RungSearch::SearchOne(const SearchRung& rung, bool is_last,
                                   SearchedCandidate& searched) const {
  CandidateResult& result = searched.result;
  CandidateEdge edge;
  if (is_rate_search()) {
    const bool has_cap = tune_.objective == TuneObjective::kFewestChips;
    RateRange range;
    range.floor = base_rate() * kAloneRate;
    range.cap = has_cap ? *request_rate_ : base_rate() * kHighestRate;
    range.start = std::clamp(searched.next_start, range.floor, range.cap);
    TIDEWHEEL_ASSIGN_OR_RETURN(
        edge, SearchRate(evaluator_, result.candidate, rung, range,
                         tune_.should_stop));
  } else {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        edge, SearchPages(evaluator_, result.candidate, rung, *request_rate_,
                          tune_.should_stop));
  }
  result.keeps_promise = edge.keeps_promise;
  result.broken_at = edge.broken;
  result.outcome = edge.best_point().outcome;
  // On the last rung what was seen to hold counts; before it a better guess.
  const double best = is_last ? edge.best : InterpolatedEdge(edge);
  if (edge.keeps_promise && is_rate_search()) searched.next_start = best;
  result.objective = {best, best, best};
  if (is_last && edge.keeps_promise) {
    const Promise& promise = tune_.server.promise;
    const IntervalOptions intervals = IntervalsOf(tune_);
    result.objective = EdgeEstimate(edge, promise, intervals);
    result.outcome = Summarize(edge.best_point().samples, promise, intervals);
  }
  searched.outcomes.clear();
  for (const ProbePoint& point : edge.points) {
    searched.outcomes.push_back(point.outcome);
  }
  ToObjective(edge.keeps_promise, result);
  return absl::OkStatus();
}

// From the edge's unit, a rate or pages, to the objective's.
void RungSearch::ToObjective(bool keeps_promise,
                             CandidateResult& result) const {
  Estimate& objective = result.objective;
  if (tune_.objective == TuneObjective::kFewestPages) {
    const double gib =
        PoolGib(result.kv_bytes, result.candidate.chips, devices_per_chip_) /
        static_cast<double>(result.candidate.total_num_pages);
    objective = {objective.value * gib, objective.low * gib,
                 objective.high * gib};
    return;
  }
  if (tune_.objective != TuneObjective::kFewestChips || !keeps_promise) return;
  const auto chips = [&](double rate) {
    // A hair is taken off, so that a third of a rate needs three copies.
    constexpr double kHair = 1e-9;
    const double copies = std::ceil(
        *request_rate_ / std::max(rate, base_rate() * kAloneRate) - kHair);
    return std::max(copies, 1.0) * result.candidate.chips;
  };
  objective = {chips(objective.value), chips(objective.high),
               chips(objective.low)};
  result.copies =
      static_cast<int32_t>(objective.value) / result.candidate.chips;
}

std::vector<size_t> RungSearch::Keep(
    const std::vector<size_t>& indices,
    const std::vector<SearchedCandidate>& candidates) const {
  // Where memory or chips are what is counted, that is the only cost.
  const bool by_memory = tune_.objective == TuneObjective::kHighestRate;
  std::vector<CostPair> pairs;
  for (const size_t i : indices) {
    const CandidateResult& result = candidates[i].result;
    const double pool =
        PoolGib(result.kv_bytes, result.candidate.chips, devices_per_chip_);
    pairs.push_back({CostOf(tune_.objective, result), by_memory ? pool : 0});
  }
  const std::vector<int32_t> fronts = FrontNumbers(pairs);
  std::vector<size_t> order(indices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const CandidateResult& x = candidates[indices[a]].result;
    const CandidateResult& y = candidates[indices[b]].result;
    if (x.keeps_promise != y.keeps_promise) return x.keeps_promise;
    if (!x.keeps_promise) {
      return x.outcome.strain.value < y.outcome.strain.value;
    }
    if (fronts[a] != fronts[b]) return fronts[a] < fronts[b];
    return CostOf(tune_.objective, x) < CostOf(tune_.objective, y);
  });
  std::vector<size_t> kept;
  for (size_t k = 0; k < KeptOf(indices.size()); ++k) {
    kept.push_back(indices[order[k]]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace tidewheel
