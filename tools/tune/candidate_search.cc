#include "tools/tune/candidate_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/tune/block_bootstrap.h"
#include "tools/tune/confidence.h"
#include "tools/tune/edge_search.h"

namespace tidewheel {
namespace {

// Runs loads and keeps what came of them.
class Prober {
 public:
  Prober(const CandidateEvaluator& evaluator, const SearchRung& rung,
         const StopCheck& stop)
      : evaluator_(evaluator), rung_(rung), stop_(stop) {}

  absl::StatusOr<bool> Holds(const Candidate& candidate, double rate,
                             double load) {
    if (stop_ && stop_()) return absl::CancelledError("stopped");
    ProbePoint point;
    point.load = load;
    TIDEWHEEL_ASSIGN_OR_RETURN(
        point.samples,
        evaluator_.RunReplications(
            candidate, {.request_rate = rate, .requests = rung_.requests},
            rung_.replications));
    point.outcome = Summarize(point.samples, evaluator_.options().promise, {});
    const bool holds = point.outcome.keeps_promise;
    points_.push_back(std::move(point));
    return holds;
  }

  CandidateEdge Finish() && {
    std::sort(points_.begin(), points_.end(),
              [](const ProbePoint& a, const ProbePoint& b) {
                return a.load < b.load;
              });
    CandidateEdge edge;
    edge.points = std::move(points_);
    return edge;
  }

 private:
  const CandidateEvaluator& evaluator_;
  const SearchRung& rung_;
  const StopCheck& stop_;
  std::vector<ProbePoint> points_;
};

// A load and its strain, of one resample.
struct StrainAt {
  double load = 0;
  double strain = 0;
};

// The load at which strain is 1 on the line through two points, linear in the
// logarithms, and at most `reach` times beyond them.
double LoadAtOne(const StrainAt& from, const StrainAt& to, double reach) {
  constexpr double kSmall = 1e-9;  // a strain of 0 has no logarithm
  const double rise = std::log(std::max(to.strain, kSmall)) -
                      std::log(std::max(from.strain, kSmall));
  const double run = std::log(to.load) - std::log(from.load);
  const double slope = rise / run;
  const double limit = std::log(reach);
  const double low = std::min(std::log(from.load), std::log(to.load)) - limit;
  const double high = std::max(std::log(from.load), std::log(to.load)) + limit;
  if (slope == 0) return to.load;
  const double at =
      std::log(from.load) - std::log(std::max(from.strain, kSmall)) / slope;
  return std::exp(std::clamp(at, low, high));
}

// Where strain passes 1, `harder` loads last. Beyond what was run it goes on
// as between the two nearest loads, but not far.
double EdgeOf(const std::vector<StrainAt>& harder) {
  constexpr double kReach = 1.1;
  const size_t count = harder.size();
  if (count == 1) return harder[0].load;
  if (harder[0].strain > 1) {
    return harder[1].strain > harder[0].strain
               ? LoadAtOne(harder[0], harder[1], kReach)
               : harder[0].load;
  }
  for (size_t i = 1; i < count; ++i) {
    if (harder[i].strain > 1) return LoadAtOne(harder[i - 1], harder[i], 1);
  }
  return harder[count - 1].strain > harder[count - 2].strain
             ? LoadAtOne(harder[count - 2], harder[count - 1], kReach)
             : harder[count - 1].load;
}

double StrainOfSample(const ProbePoint& point, std::span<float> strain,
                      double percentile) {
  // What is not stationary keeps nothing, whatever its requests say.
  if (point.outcome.overloaded) return kBrokenStrain;
  return UpperPercentile(strain, percentile);
}

// Points from the easiest load to the hardest.
std::vector<const ProbePoint*> ByHardness(const CandidateEdge& edge) {
  std::vector<const ProbePoint*> points;
  for (const ProbePoint& point : edge.points) points.push_back(&point);
  if (!edge.more_is_harder) std::reverse(points.begin(), points.end());
  return points;
}

std::vector<double> EdgesOfReplications(
    const std::vector<const ProbePoint*>& points, double percentile) {
  std::vector<double> edges;
  for (size_t k = 0; k < points[0]->samples.size(); ++k) {
    std::vector<StrainAt> harder;
    for (const ProbePoint* point : points) {
      const RunSample& sample = point->samples[k];
      std::vector<float> strain(sample.strain.begin() + sample.warm_up,
                                sample.strain.end());
      harder.push_back(
          {point->load, StrainOfSample(*point, strain, percentile)});
    }
    edges.push_back(EdgeOf(harder));
  }
  return edges;
}

std::vector<double> ResampledEdges(const std::vector<const ProbePoint*>& points,
                                   const ProbePoint& at_edge, double percentile,
                                   const IntervalOptions& options) {
  // The same requests at every load: all cut where the longest warm-up ends.
  int64_t warm_up = 0;
  size_t requests = at_edge.samples[0].strain.size();
  for (const ProbePoint* point : points) {
    warm_up = std::max(warm_up, point->samples[0].warm_up);
    requests = std::min(requests, point->samples[0].strain.size());
  }
  const auto tail = [&](const ProbePoint& point) {
    return std::span(point.samples[0].strain)
        .first(requests)
        .subspan(static_cast<size_t>(warm_up));
  };
  const std::span<const float> edge_tail = tail(at_edge);
  std::vector<float> scratch(edge_tail.begin(), edge_tail.end());
  const double at = UpperPercentile(scratch, percentile);
  std::vector<double> exceeds(edge_tail.size());
  for (size_t i = 0; i < exceeds.size(); ++i) exceeds[i] = edge_tail[i] > at;
  const BlockBootstrap bootstrap({
      .length = static_cast<int64_t>(exceeds.size()),
      .block_length = ChooseBlockLength(exceeds),
      .resamples = options.resamples,
      .seed = options.seed,
  });
  std::vector<double> edges;
  for (int32_t i = 0; i < options.resamples; ++i) {
    std::vector<StrainAt> harder;
    for (const ProbePoint* point : points) {
      bootstrap.Resample(i, tail(*point), scratch);
      harder.push_back(
          {point->load, StrainOfSample(*point, scratch, percentile)});
    }
    edges.push_back(EdgeOf(harder));
  }
  return edges;
}

}  // namespace

const ProbePoint& CandidateEdge::best_point() const {
  const auto found = std::find_if(
      points.begin(), points.end(),
      [this](const ProbePoint& point) { return point.load == best; });
  TIDEWHEEL_CHECK(found != points.end());
  return *found;
}

absl::StatusOr<CandidateEdge> SearchRate(const CandidateEvaluator& evaluator,
                                         const Candidate& candidate,
                                         const SearchRung& rung,
                                         const RateRange& range,
                                         const StopCheck& stop) {
  Prober prober(evaluator, rung, stop);
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const RateEdge found,
      FindHighestRate(
          {.start = range.start,
           .floor = range.floor,
           .cap = range.cap,
           .resolution = rung.resolution},
          [&](double rate) { return prober.Holds(candidate, rate, rate); }));
  CandidateEdge edge = std::move(prober).Finish();
  edge.keeps_promise = found.holds.has_value();
  edge.best = found.holds.value_or(edge.points.front().load);
  edge.broken = found.breaks.value_or(0);
  return edge;
}

absl::StatusOr<CandidateEdge> SearchPages(const CandidateEvaluator& evaluator,
                                          const Candidate& candidate,
                                          const SearchRung& rung, double rate,
                                          const StopCheck& stop) {
  Prober prober(evaluator, rung, stop);
  const int32_t max_model_len =
      evaluator.options().serving.plan.max_model_len.value_or(1);
  const int64_t high = candidate.total_num_pages;
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const CountEdge found,
      FindLowestCount(
          {.low = std::min(FewestPages(candidate, max_model_len), high),
           .high = high,
           .resolution = rung.resolution},
          [&](int64_t pages) {
            return prober.Holds(WithPages(candidate, pages), rate,
                                static_cast<double>(pages));
          }));
  CandidateEdge edge = std::move(prober).Finish();
  edge.more_is_harder = false;
  edge.keeps_promise = found.holds.has_value();
  edge.best = static_cast<double>(found.holds.value_or(high));
  edge.broken = static_cast<double>(found.breaks.value_or(0));
  return edge;
}

int64_t FewestPages(const Candidate& candidate, int32_t max_model_len) {
  const auto pages_of = [&](int64_t tokens) {
    return (tokens + candidate.page_size - 1) / candidate.page_size;
  };
  return 1 + std::max({pages_of(max_model_len),
                       pages_of(candidate.max_num_batched_tokens),
                       int64_t{candidate.max_num_seqs}});
}

double InterpolatedEdge(const CandidateEdge& edge) {
  if (!edge.keeps_promise) return 0;
  if (edge.broken == 0) return edge.best;
  double kept = 0;
  double broken = 0;
  for (const ProbePoint& point : edge.points) {
    const double strain =
        point.outcome.overloaded ? kBrokenStrain : point.outcome.strain.value;
    if (point.load == edge.best) kept = strain;
    if (point.load == edge.broken) broken = strain;
  }
  return LoadAtOne({edge.best, kept}, {edge.broken, broken}, 1);
}

Estimate EdgeEstimate(const CandidateEdge& edge, const Promise& promise,
                      const IntervalOptions& options) {
  TIDEWHEEL_CHECK(edge.keeps_promise);
  const std::vector<const ProbePoint*> points = ByHardness(edge);
  const ProbePoint& best = edge.best_point();
  if (best.samples.size() > 1) {
    return StudentFactorEstimate(
        edge.best, EdgesOfReplications(points, promise.percentile));
  }
  return BootstrapEstimate(
      edge.best, ResampledEdges(points, best, promise.percentile, options));
}

}  // namespace tidewheel
