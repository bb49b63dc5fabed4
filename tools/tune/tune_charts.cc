#include "tools/tune/tune_charts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

using Shape = ChartSeries::Shape;
using Direction = ChartMark::Direction;

constexpr double kGiB = 1 << 30;
constexpr int kCurvePoints = 200;
// Where a curve's largest size is this many times its smallest, it is drawn by
// ratio.
constexpr double kLogRatio = 10;
constexpr const char* kStrainLabel = "strain (1 is on the bound)";

ChartPoint CurvePoint(const CurveRun& run, int64_t total_num_pages) {
  const HitCurve& curve = run.curve;
  ChartPoint point = {static_cast<double>(total_num_pages),
                      100 * curve.TokenRatio(curve.HitPages(total_num_pages))};
  if (run.server.has_value()) {
    point.text = absl::StrFormat(
        "%.2f GiB on each device",
        static_cast<double>(total_num_pages) *
            static_cast<double>(run.server->bytes_per_page) / kGiB);
  }
  return point;
}

ChartPoint StrainPoint(const LoadOutcome& outcome, std::string text) {
  return {.x = static_cast<double>(outcome.candidate.total_num_pages),
          .y = outcome.strain.value,
          .low = outcome.strain.low,
          .high = outcome.strain.high,
          .text = std::move(text)};
}

ChartPoint CountPoint(const LoadOutcome& outcome, int64_t count) {
  return {static_cast<double>(outcome.candidate.total_num_pages),
          static_cast<double>(count)};
}

std::string ObjectiveLabel(TuneObjective objective) {
  switch (objective) {
    case TuneObjective::kHighestRate:
      return "requests/s";
    case TuneObjective::kFewestPages:
      return "KV cache of all devices, GiB";
    case TuneObjective::kFewestChips:
      return "chips";
  }
  return "";
}

}  // namespace

Chart HitCurveChart(const CurveRun& run, std::optional<int64_t> chosen_pages) {
  const HitCurve& curve = run.curve;
  Chart chart;
  chart.id = "hit-curve";
  chart.title = "Prefix hits by pool size";
  chart.description =
      absl::StrCat("Prompt tokens found in the cache, of ",
                   WithThousands(curve.queries().prompt_tokens),
                   ", in pools of pages of ", curve.queries().page_size,
                   " tokens. The last value is an infinite cache's.");
  chart.x.label = "total_num_pages";
  chart.x.begins_at_zero = false;
  chart.y.label = "hit ratio of prompt tokens, %";
  const double first = static_cast<double>(curve.smallest());
  const double last = static_cast<double>(
      std::max(curve.ceiling().total_num_pages, chosen_pages.value_or(0)));
  chart.x.is_log = last / first > kLogRatio;
  ChartSeries line;
  line.shape = Shape::kStep;
  for (int i = 0; i <= kCurvePoints; ++i) {
    const double share = static_cast<double>(i) / kCurvePoints;
    const double size = chart.x.is_log ? first * std::pow(last / first, share)
                                       : first + (last - first) * share;
    const int64_t pages =
        std::clamp(static_cast<int64_t>(std::llround(size)), curve.smallest(),
                   static_cast<int64_t>(last));
    if (!line.points.empty() &&
        line.points.back().x == static_cast<double>(pages)) {
      continue;
    }
    line.points.push_back(CurvePoint(run, pages));
  }
  chart.series.push_back(std::move(line));
  const std::optional<HitCurve::Point> knee = curve.Knee();
  if (knee.has_value()) {
    chart.marks.push_back(
        {Direction::kAtX, static_cast<double>(knee->total_num_pages),
         absl::StrCat("knee ", WithThousands(knee->total_num_pages))});
  }
  if (chosen_pages.has_value() && *chosen_pages >= curve.smallest()) {
    chart.marks.push_back(
        {Direction::kAtX, static_cast<double>(*chosen_pages),
         absl::StrCat("recommended ", WithThousands(*chosen_pages))});
  }
  return chart;
}

Chart FrontChart(const TuneResult& result) {
  const ParetoFront& front = result.front;
  Chart chart;
  chart.id = "front";
  chart.title = "What can be had for what";
  chart.description = absl::StrCat(
      "Every candidate that has both figures. Those on the front are beaten by "
      "none in both; ",
      front.larger_is_better ? "higher" : "lower", " and further left is ",
      "better.");
  chart.x.label = front.cost_name;
  chart.y.label = front.value_name;
  ChartSeries on_front = {"on the front", Shape::kPoints, {}};
  ChartSeries others = {"others", Shape::kPoints, {}};
  ChartSeries recommended = {"recommended", Shape::kPoints, {}};
  for (const FrontPoint& point : front.points) {
    if (!std::isfinite(point.cost) || !std::isfinite(point.value)) continue;
    ChartPoint shown = {point.cost, point.value};
    shown.text = CandidateText(point.settings);
    ChartSeries& series = point.candidate == result.recommended ? recommended
                          : point.is_on_front                   ? on_front
                                                                : others;
    series.points.push_back(std::move(shown));
  }
  chart.series = {std::move(on_front), std::move(others),
                  std::move(recommended)};
  return chart;
}

std::vector<Chart> CliffCharts(const TuneResult& result) {
  TIDEWHEEL_CHECK(result.cliff.has_value());
  const Cliff& cliff = *result.cliff;
  Chart strain;
  strain.id = "cliff";
  strain.title = "The cliff";
  strain.description = absl::StrFormat(
      "P%s of strain, a latency as a part of its bound, in pools of different "
      "sizes at %.2f requests/s.",
      PercentileName(result.promise.percentile), cliff.request_rate);
  strain.x = {.label = "total_num_pages", .begins_at_zero = false};
  strain.y.label = kStrainLabel;
  const auto cost = [&strain](std::string id, std::string title,
                              std::string description, std::string unit) {
    Chart chart = strain;
    chart.id = std::move(id);
    chart.title = std::move(title);
    chart.description = std::move(description);
    chart.y.label = std::move(unit);
    chart.series = {{"", Shape::kLine, {}}};
    return chart;
  };
  Chart preemptions =
      cost("cliff-preemptions", "Preemptions",
           "Requests that had to give up their pages, in the whole run.",
           "preemptions");
  Chart recomputed = cost(
      "cliff-recomputed", "Recomputed tokens",
      "Tokens that are computed again after preemptions, in the whole run.",
      "tokens");
  ChartSeries points = {"pool size", Shape::kPoints, {}};
  double min = std::numeric_limits<double>::infinity();
  double max = 0;
  for (const LoadOutcome& outcome : cliff.points) {
    std::string text =
        absl::StrCat(WithThousands(outcome.candidate.total_num_pages),
                     " pages, ", WithThousands(outcome.preemptions),
                     " preemptions", outcome.overloaded ? ", overloaded" : "");
    points.points.push_back(StrainPoint(outcome, std::move(text)));
    preemptions.series[0].points.push_back(
        CountPoint(outcome, outcome.preemptions));
    recomputed.series[0].points.push_back(
        CountPoint(outcome, outcome.recomputed_tokens));
    min = std::min(min, outcome.strain.low);
    max = std::max(max, outcome.strain.high);
  }
  strain.y.is_log = min > 0 && max / min > kLogRatio;
  strain.series = {std::move(points)};
  strain.marks.push_back({Direction::kAtY, 1, "the bound"});
  if (cliff.has_edge) {
    strain.marks.push_back(
        {Direction::kAtX, static_cast<double>(cliff.edge_pages),
         absl::StrCat("edge ", WithThousands(cliff.edge_pages))});
  }
  strain.marks.push_back(
      {Direction::kAtX, static_cast<double>(cliff.recommended_pages),
       absl::StrCat("recommended ", WithThousands(cliff.recommended_pages))});
  for (Chart* chart : {&preemptions, &recomputed}) {
    chart->marks.assign(strain.marks.begin() + 1, strain.marks.end());
  }
  return {std::move(strain), std::move(preemptions), std::move(recomputed)};
}

RowChart SensitivityChart(const TuneResult& result) {
  RowChart chart;
  chart.id = "sensitivity";
  chart.title = "Sensitivity";
  chart.description = absl::StrFormat(
      "How much P%s of strain changes with each change alone, on the same "
      "requests. Intervals at 95 %%. Right of the line is worse.",
      PercentileName(result.promise.percentile));
  chart.axis_label = "change of strain (1 is a whole bound)";
  chart.has_zero_line = true;
  chart.emphasis = "breaks the promise";
  for (const SensitivityRow& row : result.sensitivity) {
    if (row.is_refused) continue;
    const Estimate& change = row.strain_change;
    chart.rows.push_back({.name = absl::StrCat(row.name, ": ", row.change),
                          .value = change.value,
                          .low = change.low,
                          .high = change.high,
                          .is_emphasised = !row.keeps_promise,
                          .text = row.keeps_promise ? "keeps the promise"
                                                    : "breaks the promise"});
  }
  return chart;
}

RowChart CandidateChart(const TuneResult& result, size_t limit) {
  RowChart chart;
  chart.id = "candidates";
  chart.title = "The best candidates";
  chart.description =
      "Candidates of the last rung with their intervals at 95 %. Those that "
      "overlap the best are equal to it; the cheapest of them is recommended.";
  chart.axis_label = ObjectiveLabel(result.objective);
  chart.emphasis = "recommended";
  std::vector<int32_t> order;
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    const CandidateResult& candidate = result.candidates[i];
    if (candidate.reached_last_rung && candidate.keeps_promise) {
      order.push_back(static_cast<int32_t>(i));
    }
  }
  const bool larger_is_better = result.objective == TuneObjective::kHighestRate;
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const double first = result.candidates[a].objective.value;
    const double second = result.candidates[b].objective.value;
    return larger_is_better ? first > second : first < second;
  });
  // The recommended one is shown even where others are ahead of it.
  if (order.size() > limit) {
    const auto chosen =
        std::find(order.begin(), order.end(), result.recommended);
    if (chosen - order.begin() >= static_cast<std::ptrdiff_t>(limit) &&
        chosen != order.end()) {
      order[limit - 1] = result.recommended;
    }
    order.resize(limit);
  }
  for (const int32_t i : order) {
    const CandidateResult& candidate = result.candidates[i];
    chart.rows.push_back(
        {.name = CandidateText(candidate.candidate),
         .value = candidate.objective.value,
         .low = candidate.objective.low,
         .high = candidate.objective.high,
         .is_emphasised = i == result.recommended,
         .text = candidate.is_equal ? "equal to the best" : ""});
  }
  return chart;
}

}  // namespace tidewheel
