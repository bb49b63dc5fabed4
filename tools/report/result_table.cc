#include "tools/report/result_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

// As in vLLM's block.
constexpr size_t kTableWidth = 50;
constexpr size_t kLabelWidth = 40;

std::string Banner(absl::string_view title, char fill) {
  const std::string text = title.empty() ? "" : absl::StrCat(" ", title, " ");
  const size_t rest = kTableWidth - std::min(kTableWidth, text.size());
  return absl::StrCat(std::string(rest / 2, fill), text,
                      std::string(rest - rest / 2, fill), "\n");
}

class Table {
 public:
  void Begin(absl::string_view title) {
    sections_.push_back({std::string(title), {}});
  }
  void Add(absl::string_view label, absl::string_view value) {
    sections_.back().lines.emplace_back(label, value);
  }
  void AddCount(absl::string_view label, int64_t value) {
    Add(label, absl::StrCat(value));
  }
  void AddValue(absl::string_view label, double value) {
    Add(label, absl::StrFormat("%.2f", value));
  }
  // Mean, median and the percentiles that were asked for.
  void AddLatency(absl::string_view title, absl::string_view name,
                  const Distribution& ms, const std::vector<double>& percents) {
    Begin(title);
    const auto add = [&](absl::string_view statistic, double value) {
      const std::string label = absl::StrCat(statistic, " ", name, " (ms)");
      if (ms.count == 0) {
        Add(label, "none");
      } else {
        AddValue(label, value);
      }
    };
    add("Mean", ms.mean);
    add("Median", ms.median);
    for (size_t i = 0; i < percents.size(); ++i) {
      add(absl::StrCat("P", PercentileName(percents[i])),
          ms.count == 0 ? 0 : ms.percentiles[i]);
    }
  }
  std::vector<ResultSection> sections() && { return std::move(sections_); }

 private:
  std::vector<ResultSection> sections_;
};

void AddServing(const SimulationRun& run, Table& table) {
  const ServingMetrics& m = run.metrics;
  table.Begin("Serving Benchmark Result");
  table.AddCount("Successful requests", m.completed);
  if (m.not_completed > 0) table.AddCount("Failed requests", m.not_completed);
  if (run.simulation.max_concurrency > 0) {
    table.AddCount("Maximum request concurrency",
                   run.simulation.max_concurrency);
  }
  if (run.workload.request_rate.has_value()) {
    table.AddValue("Request rate configured (RPS)", *run.workload.request_rate);
  }
  table.AddValue("Benchmark duration (s)", m.duration_s);
  table.AddCount("Total input tokens", m.input_tokens);
  table.AddCount("Total generated tokens", m.output_tokens);
  table.AddValue("Request throughput (req/s)", m.request_throughput);
  if (m.request_goodput.has_value()) {
    table.AddValue("Request goodput (req/s)", *m.request_goodput);
  }
  table.AddValue("Output token throughput (tok/s)", m.output_throughput);
  table.AddValue("Total Token throughput (tok/s)", m.total_token_throughput);
  const std::vector<double>& percents = run.metrics_options.percentiles;
  if (run.shown.ttft) {
    table.AddLatency("Time to First Token", "TTFT", m.ttft_ms, percents);
  }
  if (run.shown.tpot) {
    table.AddLatency("Time per Output Token (excl. 1st token)", "TPOT",
                     m.tpot_ms, percents);
  }
  if (run.shown.itl) {
    table.AddLatency("Inter-token Latency", "ITL", m.itl_ms, percents);
  }
  if (run.shown.e2el) {
    table.AddLatency("End-to-end Latency", "E2EL", m.e2el_ms, percents);
  }
}

std::string HitsText(int64_t hits, int64_t queries) {
  if (queries == 0) return "none looked up";
  return absl::StrCat(
      WithThousands(hits), " (",
      AsPercent(static_cast<double>(hits) / static_cast<double>(queries)), ")");
}

void AddScheduling(const SimulationRun& run, Table& table) {
  const SchedulerStats& stats = run.result.scheduler;
  const PoolUsage& usage = run.result.usage;
  table.AddLatency("Queue", "queue time", run.metrics.queue_ms,
                   run.metrics_options.percentiles);
  table.Begin("Scheduler");
  table.AddCount("Steps", stats.steps);
  if (stats.steps > 0) {
    table.AddValue("Mean tokens generated a step",
                   static_cast<double>(stats.generated_tokens) /
                       static_cast<double>(stats.steps));
  }
  table.AddCount("Most sequences in a step", run.result.peak_running);
  table.AddCount("Most requests in flight", run.result.peak_in_flight);
  table.AddCount("Preemptions", stats.preemptions);
  table.AddCount("Recomputed tokens", stats.recomputed_tokens);
  table.Add("Prefix cache hits (tokens)",
            HitsText(stats.prefix_cache_hits, stats.prefix_cache_queries));
  if (stats.preemptions > 0) {
    table.Add("  after preemption",
              HitsText(stats.preempted_prefix_cache_hits,
                       stats.preempted_prefix_cache_queries));
  }
  table.Add("Pages in use, mean and peak",
            absl::StrCat(AsPercent(usage.mean_pages), ", ",
                         AsPercent(usage.peak_pages)));
  table.Add("Pages promised besides",
            absl::StrCat(AsPercent(usage.mean_promised), ", ",
                         AsPercent(usage.peak_promised)));
  table.Add("Token slots in use, mean and peak",
            absl::StrCat(AsPercent(usage.mean_slots), ", ",
                         AsPercent(usage.peak_slots)));
}

void AddStepTimes(const SimulationRun& run, Table& table) {
  const SimulatedRunner::Totals& totals = run.result.runner;
  if (totals.steps == 0) return;
  table.Begin("Step times");
  table.AddValue("Mean step time (ms)", totals.parts.total_s * 1e3 /
                                            static_cast<double>(totals.steps));
  table.Add("Time in which steps ran",
            run.metrics.duration_s > 0
                ? AsPercent(run.result.usage.busy_s / run.metrics.duration_s)
                : "none");
  for (const StepBound bound :
       {StepBound::kMemory, StepBound::kCompute, StepBound::kOverhead}) {
    const size_t i = static_cast<size_t>(bound);
    table.Add(absl::StrCat("Steps bound by ", StepBoundName(bound)),
              absl::StrCat(totals.bound_steps[i], ", ",
                           AsPercent(totals.bound_s[i] / totals.parts.total_s),
                           " of the time"));
  }
  const StepTime& parts = totals.parts;
  const std::array<std::pair<absl::string_view, double>, 6> shares = {{
      {"  reading weights", parts.weights_s},
      {"  matrix products, overlapping it", parts.matmul_s},
      {"  reading KV", parts.kv_read_s},
      {"  attention, overlapping it", parts.attention_s},
      {"  collectives", parts.collectives_s},
      {"  overhead", parts.overhead_s},
  }};
  for (const auto& [label, seconds] : shares) {
    table.Add(label, AsPercent(seconds / parts.total_s));
  }
}

void AddSimulator(const SimulationRun& run, Table& table) {
  table.Begin("Simulator");
  table.Add("Wall time (s)", absl::StrFormat("%.3f", run.wall_seconds));
  table.Add("Speed-up over real time", absl::StrFormat("%.0fx", run.speedup()));
}

}  // namespace

std::vector<ResultSection> ResultSections(const SimulationRun& run) {
  Table table;
  AddServing(run, table);
  AddScheduling(run, table);
  AddStepTimes(run, table);
  AddSimulator(run, table);
  return std::move(table).sections();
}

std::vector<std::string> ResultWarnings(const SimulationRun& run) {
  std::vector<std::string> warnings;
  if (run.all_completed()) return warnings;
  warnings.push_back(absl::StrCat(
      "NOT ALL COMPLETED: ", WithThousands(run.metrics.not_completed), " of ",
      WithThousands(static_cast<int64_t>(run.trace.requests.size())),
      " requests did not"));
  for (const auto& [reason, count] : run.metrics.not_completed_by_reason) {
    warnings.push_back(
        absl::StrFormat("  %-30s %s", reason, WithThousands(count)));
  }
  for (const std::string& example : run.result.refusal_examples) {
    warnings.push_back(absl::StrCat("First refused: ", example));
  }
  if (!run.result.blocked.empty()) {
    warnings.push_back(
        absl::StrCat("The scheduler is blocked: ", run.result.blocked));
  }
  return warnings;
}

std::string ResultTable(const SimulationRun& run) {
  std::string text;
  char fill = '=';  // vLLM's block begins with a double line
  for (const ResultSection& section : ResultSections(run)) {
    absl::StrAppend(&text, Banner(section.title, fill));
    for (const auto& [label, value] : section.lines) {
      absl::StrAppend(
          &text, absl::StrFormat("%-*s %s\n", static_cast<int>(kLabelWidth),
                                 absl::StrCat(label, ":"), value));
    }
    fill = '-';
  }
  absl::StrAppend(&text, Banner("", '='));
  for (const std::string& warning : ResultWarnings(run)) {
    absl::StrAppend(&text, warning, "\n");
  }
  return text;
}

}  // namespace tidewheel
