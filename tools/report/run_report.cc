#include "tools/report/run_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/capacity_section.h"
#include "tools/report/html_page.h"
#include "tools/report/number_text.h"
#include "tools/report/result_table.h"
#include "tools/report/run_header.h"
#include "tools/report/simulation_charts.h"

namespace tidewheel {
namespace {

std::vector<HtmlCard> Cards(const SimulationRun& run) {
  const ServingMetrics& m = run.metrics;
  std::vector<HtmlCard> cards;
  const auto add = [&cards](std::string value, std::string label) {
    cards.push_back({std::move(value), std::move(label)});
  };
  const auto number = [](double value) {
    return absl::StrFormat("%.2f", value);
  };
  add(absl::StrCat(
          WithThousands(m.completed), " of ",
          WithThousands(static_cast<int64_t>(run.trace.requests.size()))),
      "requests completed");
  add(number(m.output_throughput), "output tokens/s");
  if (m.request_goodput.has_value()) {
    add(number(*m.request_goodput), "good requests/s");
  } else {
    add(number(m.request_throughput), "requests/s");
  }
  const std::vector<double>& percents = run.metrics_options.percentiles;
  const auto latency = [&](absl::string_view name, const Distribution& ms) {
    if (ms.count == 0) return;
    if (percents.empty()) {
      add(number(ms.median), absl::StrCat("median ", name, ", ms"));
    } else {
      add(number(ms.percentiles.back()),
          absl::StrCat("P", PercentileName(percents.back()), " ", name,
                       ", ms"));
    }
  };
  latency("TTFT", m.ttft_ms);
  latency("TPOT", m.tpot_ms);
  latency("queue time", m.queue_ms);
  add(AsPercent(run.result.usage.mean_pages), "mean pages in use");
  add(WithThousands(run.result.scheduler.preemptions), "preemptions");
  return cards;
}

HtmlTable WhatRan(const SimulationRun& run) {
  HtmlTable table;
  for (const auto& [label, text] : RunHeaderLines(run)) {
    table.rows.push_back({label, text});
  }
  return table;
}

}  // namespace

std::string RunReport(const SimulationRun& run, const RunSeries& series) {
  HtmlPage page(absl::StrCat("Simulation of ", run.trace.name),
                "A trace through the scheduler and page allocator that "
                "servers embed, with the time of each step from a cost model "
                "of TPU chips. Made by tidewheel simulate.");
  page.AddWarning(ResultWarnings(run));
  page.AddCards(Cards(run));
  page.AddHeading("What ran");
  page.AddTable(WhatRan(run));
  page.AddHeading("Over time");
  page.BeginGrid();
  for (const Chart& chart : TimeCharts(series)) page.AddChart(chart);
  page.EndGrid();
  page.AddHeading("Latencies");
  page.BeginGrid();
  for (const Chart& chart : LatencyCharts(run)) page.AddChart(chart);
  page.EndGrid();
  page.AddHeading("Figures");
  page.BeginGrid();
  for (const ResultSection& section : ResultSections(run)) {
    page.AddPairs(section.title, section.lines);
  }
  page.EndGrid();
  AddCapacitySection(run.setup, page);
  return std::move(page).text();
}

}  // namespace tidewheel
