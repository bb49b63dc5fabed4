#include "tools/report/simulation_charts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/number_text.h"
#include "tools/report/serving_metrics.h"

namespace tidewheel {
namespace {

constexpr double kUsPerSecond = 1e6;
// From this ratio of the largest to the smallest latency on, a linear axis
// shows most requests in its first tenth.
constexpr double kLogRatio = 10;

using Bin = RunSeries::Bin;

// A value of each span, at the middle of its time.
template <typename Value>
ChartSeries OverTime(const RunSeries& series, std::string name,
                     ChartSeries::Shape shape, Value value) {
  ChartSeries chart;
  chart.name = std::move(name);
  chart.shape = shape;
  for (size_t i = 0; i < series.bins().size(); ++i) {
    const Bin& bin = series.bins()[i];
    if (bin.covered_us <= 0) continue;
    const double middle_us =
        static_cast<double>(i) * series.width_us() + bin.covered_us / 2;
    chart.points.push_back({middle_us / kUsPerSecond, value(bin)});
  }
  return chart;
}

// A mean over the span of what is held for a time.
template <typename Member>
auto MeanOf(Member member) {
  return [member](const Bin& bin) { return bin.*member / bin.covered_us; };
}

template <typename Member>
auto PerSecond(Member member) {
  return [member](const Bin& bin) {
    return bin.*member / bin.covered_us * kUsPerSecond;
  };
}

std::string SpanText(const RunSeries& series) {
  return absl::StrFormat("Means over spans of %g s.",
                         series.width_us() / kUsPerSecond);
}

// Every per cent, and the tail in tenths.
std::vector<double> CurvePercents() {
  std::vector<double> percents;
  for (int i = 0; i < 99; ++i) percents.push_back(i);
  for (int i = 990; i <= 1000; ++i) percents.push_back(i / 10.0);
  return percents;
}

struct Latency {
  std::string id;
  std::string name;  // "TTFT"
  std::string title;
  std::string unit;  // of what is counted: "requests"
  const Distribution& curve;
  const Distribution& asked;
  std::optional<double> bound_ms;
};

Chart LatencyChart(const Latency& latency, const std::vector<double>& curve,
                   const std::vector<double>& asked) {
  Chart chart;
  chart.id = latency.id;
  chart.title = latency.title;
  chart.description =
      absl::StrCat("How many of ", WithThousands(latency.curve.count), " ",
                   latency.unit, " took at most so long.");
  chart.x.label = absl::StrCat(latency.name, ", ms");
  chart.y.label = absl::StrCat("share of ", latency.unit, ", %");
  chart.y.max = 100;
  ChartSeries line;
  line.name = absl::StrCat("share of ", latency.unit, ", %");
  if (latency.curve.count > 0) {
    for (size_t i = 0; i < curve.size(); ++i) {
      line.points.push_back({latency.curve.percentiles[i], curve[i]});
    }
    const double last =
        std::max(latency.curve.max, latency.bound_ms.value_or(0));
    chart.x.is_log =
        latency.curve.min > 0 && last / latency.curve.min > kLogRatio;
    chart.has_labels_at_bottom = true;
    const auto mark = [&chart](absl::string_view name, double ms) {
      chart.marks.push_back({ChartMark::Direction::kAtX, ms,
                             absl::StrFormat("%s %.2f ms", name, ms)});
    };
    mark("Median", latency.asked.median);
    for (size_t i = 0; i < asked.size(); ++i) {
      mark(absl::StrCat("P", PercentileName(asked[i])),
           latency.asked.percentiles[i]);
    }
    if (latency.bound_ms.has_value() &&
        (*latency.bound_ms > 0 || !chart.x.is_log)) {
      mark("bound", *latency.bound_ms);
    }
  }
  chart.series.push_back(std::move(line));
  return chart;
}

}  // namespace

std::vector<Chart> TimeCharts(const RunSeries& series) {
  using Shape = ChartSeries::Shape;
  const std::string span = SpanText(series);
  const ChartAxis time = {.label = "time, s"};
  std::vector<Chart> charts;
  charts.push_back({.id = "generated",
                    .title = "Tokens generated",
                    .description = span,
                    .x = time,
                    .y = {.label = "output tokens/s"},
                    .series = {OverTime(series, "", Shape::kLine,
                                        PerSecond(&Bin::generated_tokens))}});
  charts.push_back({.id = "computed",
                    .title = "Tokens computed",
                    .description = absl::StrCat(
                        "Prompts, outputs and what is computed again. ", span),
                    .x = time,
                    .y = {.label = "query tokens/s"},
                    .series = {OverTime(series, "", Shape::kLine,
                                        PerSecond(&Bin::computed_tokens))}});
  charts.push_back({.id = "queue",
                    .title = "Requests running and waiting",
                    .description = span,
                    .x = time,
                    .y = {.label = "requests"},
                    .series = {OverTime(series, "running", Shape::kLine,
                                        MeanOf(&Bin::running_us)),
                               OverTime(series, "waiting", Shape::kLine,
                                        MeanOf(&Bin::waiting_us))}});
  charts.push_back(
      {.id = "pages",
       .title = "KV pages",
       .description = absl::StrCat(
           "Running: held by running requests. Cached: held by nobody, may be "
           "found again. On top of each other they are the pool. ",
           span),
       .x = time,
       .y = {.label = "pages"},
       .series = {
           OverTime(series, "running", Shape::kArea, MeanOf(&Bin::lent_us)),
           OverTime(series, "cached", Shape::kArea, MeanOf(&Bin::cached_us)),
           OverTime(series, "free", Shape::kArea, MeanOf(&Bin::free_us))}});
  return charts;
}

std::vector<Chart> LatencyCharts(const SimulationRun& run) {
  const std::vector<double> percents = CurvePercents();
  const ServingMetrics curves =
      ComputeMetrics(run.result, {.percentiles = percents});
  const ServingMetrics& asked = run.metrics;
  const GoodputTargets& bounds = run.metrics_options.goodput;
  std::vector<Chart> charts;
  const auto add = [&](const Latency& latency) {
    charts.push_back(
        LatencyChart(latency, percents, run.metrics_options.percentiles));
  };
  add({"ttft", "TTFT", "Time to first token", "requests", curves.ttft_ms,
       asked.ttft_ms, bounds.ttft_ms});
  add({"tpot", "TPOT", "Time per output token, without the first", "requests",
       curves.tpot_ms, asked.tpot_ms, bounds.tpot_ms});
  add({"itl", "ITL", "Inter-token latency", "gaps between tokens",
       curves.itl_ms, asked.itl_ms, std::nullopt});
  add({"e2el", "E2EL", "End-to-end latency", "requests", curves.e2el_ms,
       asked.e2el_ms, bounds.e2el_ms});
  return charts;
}

}  // namespace tidewheel
