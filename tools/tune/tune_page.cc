#include "tools/tune/tune_page.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/capacity_section.h"
#include "tools/report/html_page.h"
#include "tools/report/number_text.h"
#include "tools/tune/cliff_search.h"
#include "tools/tune/curve_report.h"
#include "tools/tune/explain_choice.h"
#include "tools/tune/tune_charts.h"
#include "tools/tune/tune_report_text.h"

namespace tidewheel {
namespace {

// More rows than a person compares.
constexpr size_t kMostCandidates = 20;

std::string Interval(const Estimate& estimate, double factor = 1) {
  return absl::StrFormat("%.2f (%.2f to %.2f)", estimate.value * factor,
                         estimate.low * factor, estimate.high * factor);
}

HtmlCell Number(std::string text) { return HtmlCell::Number(std::move(text)); }

HtmlCell Count(int64_t count) { return Number(WithThousands(count)); }

const CandidateResult* Recommended(const TuneResult& result) {
  return result.recommended < 0 ? nullptr
                                : &result.candidates[result.recommended];
}

void AddAnswer(const TuneResult& result, HtmlPage& page) {
  std::vector<std::string> warnings;
  if (result.interrupted) {
    warnings.push_back(
        "The search was interrupted: what follows is the best so far.");
  }
  if (!result.attainable) {
    warnings.push_back(
        absl::StrCat("The promise can not be kept. ", result.binding_text));
  }
  page.AddWarning(warnings);
  std::vector<HtmlCard> cards;
  if (const CandidateResult* best = Recommended(result)) {
    cards.push_back(
        {ObjectiveText(result.objective, best->objective.value),
         absl::StrFormat(
             "95 %% interval: %s to %s",
             ObjectiveText(result.objective, best->objective.low),
             ObjectiveText(result.objective, best->objective.high))});
    cards.push_back(
        {absl::StrCat(WithThousands(best->candidate.total_num_pages), " x ",
                      best->candidate.page_size),
         "pages x tokens"});
    cards.push_back(
        {WithThousands(best->candidate.max_num_seqs), "max_num_seqs"});
    cards.push_back({WithThousands(best->candidate.max_num_batched_tokens),
                     "max_num_batched_tokens"});
  }
  if (result.cliff.has_value() && result.cliff->has_edge) {
    const Cliff& cliff = *result.cliff;
    const bool is_on_it = cliff.margin_pages >= 0;
    cards.push_back(
        {is_on_it ? AsPercent(cliff.margin_ratio) : "below it",
         absl::StrFormat("%s the cliff's edge: %s pages, %.2f GiB",
                         is_on_it ? "from" : "up to",
                         WithThousands(std::abs(cliff.margin_pages)),
                         std::abs(cliff.margin_gib))});
  }
  page.AddCards(cards);
  page.AddText(absl::StrCat("Promise: ", PromiseText(result.promise), "."));
  page.AddText(absl::StrCat("Workload: ", result.workload));
  page.AddList(result.notes);
}

void AddConfiguration(const TuneResult& result, HtmlPage& page) {
  const CandidateResult* best = Recommended(result);
  if (best == nullptr) return;
  page.AddHeading("Recommended configuration");
  HtmlTable knobs;
  knobs.columns = {"knob", "value", "why"};
  for (const Knob knob : AllKnobs()) {
    std::string why = "the only value of the space";
    for (const KnobReason& reason : result.reasons) {
      if (reason.knob == knob) why = reason.text;
    }
    knobs.rows.push_back({std::string(KnobName(knob)),
                          Number(KnobText(best->candidate, knob)), why});
  }
  page.AddTable(knobs);
  if (!result.vllm_flags.empty()) {
    HtmlTable flags;
    flags.caption = "The same server with vLLM";
    flags.columns = {"knob", "flag", "note"};
    for (const VllmFlag& flag : result.vllm_flags) {
      flags.rows.push_back({flag.knob,
                            flag.flag.empty() ? "no equivalent" : flag.flag,
                            flag.note});
    }
    page.AddTable(flags);
  }
  if (!result.what_would_change.empty()) {
    page.AddHeading("What would change the answer");
    page.AddList(result.what_would_change);
  }
}

void AddOutcomeColumn(const LoadOutcome& outcome, HtmlTable& table) {
  const std::vector<std::string> values = {
      WithThousands(outcome.candidate.total_num_pages),
      absl::StrFormat("%.2f", outcome.request_rate),
      outcome.overloaded      ? "overloaded"
      : outcome.keeps_promise ? "kept"
                              : "broken",
      Interval(outcome.kept_ratio, 100),
      Interval(outcome.strain),
      Interval(outcome.ttft_ms),
      Interval(outcome.tpot_ms),
      Interval(outcome.e2el_ms),
      Interval(outcome.output_tokens_per_s),
      WithThousands(outcome.preemptions),
      WithThousands(outcome.recomputed_tokens),
      AsPercent(outcome.mean_used_pages),
      AsPercent(outcome.waited_for_rows),
      AsPercent(outcome.waited_for_pages),
      AsPercent(outcome.waited_for_tokens)};
  for (size_t i = 0; i < values.size(); ++i) {
    table.rows[i].push_back(Number(values[i]));
  }
}

HtmlTable OutcomeTable(double percentile) {
  const std::string p = absl::StrCat("P", PercentileName(percentile), " ");
  HtmlTable table;
  table.columns = {""};
  for (const std::string& label :
       {std::string("total_num_pages"), std::string("requests/s"),
        std::string("promise"), std::string("requests that keep it, %"),
        absl::StrCat(p, "strain"), absl::StrCat(p, "TTFT, ms"),
        absl::StrCat(p, "TPOT, ms"), absl::StrCat(p, "E2EL, ms"),
        std::string("output tokens/s"), std::string("preemptions"),
        std::string("recomputed tokens"), std::string("mean pages in use"),
        std::string("time short of rows"), std::string("time short of pages"),
        std::string("time short of tokens")}) {
    table.rows.push_back({label});
  }
  return table;
}

void AddOutcomes(const TuneResult& result, HtmlPage& page) {
  HtmlTable table = OutcomeTable(result.promise.percentile);
  table.caption = "Figures, with their intervals at 95 %";
  const auto add = [&table](std::string name, const LoadOutcome& outcome) {
    table.columns.push_back(Number(std::move(name)));
    AddOutcomeColumn(outcome, table);
  };
  if (const CandidateResult* best = Recommended(result)) {
    add("recommended, at its best load", best->outcome);
  }
  if (result.cliff.has_value()) {
    add("recommended, at the cliff's load", result.cliff->at_recommended);
    if (result.cliff->has_edge) {
      add("at the edge", result.cliff->at_edge);
      add("below the edge", result.cliff->below_edge);
    }
  }
  if (table.columns.size() > 1) page.AddTable(table);
}

std::string CliffText(const Cliff& cliff) {
  std::string text = absl::StrCat("Margin: ", CliffMarginText(cliff), ".");
  if (!cliff.has_edge) return text;
  absl::StrAppend(&text, " From ", WithThousands(cliff.edge_pages),
                  " pages on, strain is within ", AsPercent(cliff.tolerance),
                  " of its plateau of ",
                  absl::StrFormat("%.2f", cliff.plateau_strain), "; with ",
                  WithThousands(cliff.below_pages), " pages it is not.");
  return text;
}

void AddPictures(const TuneResult& result, HtmlPage& page) {
  page.AddHeading("Candidates");
  page.BeginGrid();
  page.AddChart(FrontChart(result));
  page.AddRows(CandidateChart(result, kMostCandidates));
  page.EndGrid();
  if (result.cliff.has_value()) {
    page.AddHeading("The cliff");
    page.AddText(CliffText(*result.cliff));
    page.BeginGrid();
    for (const Chart& chart : CliffCharts(result)) page.AddChart(chart);
    page.EndGrid();
  }
  AddOutcomes(result, page);
  if (result.sensitivity.empty()) return;
  page.AddHeading("Sensitivity");
  page.BeginGrid();
  page.AddRows(SensitivityChart(result));
  page.EndGrid();
  std::vector<std::string> refused;
  for (const SensitivityRow& row : result.sensitivity) {
    if (!row.is_refused) continue;
    refused.push_back(
        absl::StrCat(row.name, ": ", row.change, " is refused: ", row.refusal));
  }
  page.AddList(refused);
}

void AddMethod(const TuneResult& result, HtmlPage& page) {
  page.AddHeading("How it was found");
  HtmlTable rungs;
  rungs.columns = {"rung",
                   Number("requests a run"),
                   Number("replications"),
                   Number("candidates"),
                   Number("kept"),
                   Number("runs")};
  for (size_t i = 0; i < result.rungs.size(); ++i) {
    const RungSummary& rung = result.rungs[i];
    rungs.rows.push_back({absl::StrCat(i + 1), Count(rung.requests),
                          Count(rung.replications), Count(rung.candidates),
                          Count(rung.kept), Count(rung.runs)});
  }
  page.AddTable(rungs);
  page.AddText(absl::StrCat(WithThousands(result.space_size), " combinations, ",
                            WithThousands(result.runs), " simulations of ",
                            WithThousands(result.simulated_requests),
                            " requests, seed ", result.seed, "."));
  std::vector<std::string> lines;
  for (const Exclusion& exclusion : result.exclusions) {
    lines.push_back(absl::StrCat(WithThousands(exclusion.count),
                                 " never run, since the TPU refuses them (",
                                 exclusion.rule, "): ", exclusion.example));
  }
  for (const std::string* method :
       {&result.search_method, &result.confidence_method,
        &result.warm_up_method, &result.stationarity_method}) {
    if (!method->empty()) lines.push_back(*method);
  }
  page.AddList(lines);
}

HtmlTable CurveRows(const CurveRun& run) {
  HtmlTable table;
  table.caption = "Sizes";
  table.columns = {Number("total_num_pages"),
                   Number("hit tokens"),
                   Number("of tokens"),
                   Number("of pages"),
                   Number("prefill left"),
                   Number("+1 GiB buys"),
                   ""};
  for (const CurveRow& row : run.rows) {
    const double ratio = row.token_ratio();
    std::string mark = row.mark;
    if (row.refused_requests > 0) {
      absl::StrAppend(&mark, mark.empty() ? "" : ", ", "refuses ",
                      WithThousands(row.refused_requests), " requests");
    }
    table.rows.push_back(
        {Count(row.total_num_pages),
         Count(row.hit_pages * row.queries.page_size), Number(AsPercent(ratio)),
         Number(AsPercent(row.page_ratio())), Number(AsPercent(1 - ratio)),
         Number(row.next_gib_ratio.has_value() ? AsPercent(*row.next_gib_ratio)
                                               : "-"),
         mark});
  }
  return table;
}

// The recommended pool, if its pages are of the curve's size.
std::optional<int64_t> PagesOnCurve(const TuneResult& result,
                                    const CurveRun& run) {
  const CandidateResult* best = Recommended(result);
  if (best == nullptr ||
      best->candidate.page_size != run.curve.queries().page_size) {
    return std::nullopt;
  }
  return best->candidate.total_num_pages;
}

void AddCurve(const CurveRun& run, std::optional<int64_t> chosen_pages,
              HtmlPage& page) {
  page.AddHeading("Prefix hits by pool size");
  if (!run.has_reuse()) {
    page.AddText(CurveTable(run));
    return;
  }
  page.BeginGrid();
  page.AddChart(HitCurveChart(run, chosen_pages));
  page.EndGrid();
  page.AddTable(CurveRows(run));
}

}  // namespace

void WriteTuneReport(const TuneResult& result, const CurveRun* curve,
                     OutputFile& file) {
  HtmlPage page("Capacity for a promise",
                "What this traffic needs to keep this promise, found by "
                "running candidates through the scheduler and page allocator "
                "that servers embed. Made by tidewheel tune.");
  AddAnswer(result, page);
  AddConfiguration(result, page);
  AddPictures(result, page);
  if (curve != nullptr) {
    AddCurve(*curve, PagesOnCurve(result, *curve), page);
  }
  if (result.setup.has_value()) AddCapacitySection(*result.setup, page);
  AddMethod(result, page);
  file.Write(std::move(page).text());
}

void WriteCurveReport(const CurveRun& run, OutputFile& file) {
  HtmlPage page(absl::StrCat("Prefix hits of ", run.trace.name),
                "The prefix hit ratio of every pool size, from one pass over "
                "the trace. Made by tidewheel tune --curve.");
  AddCurve(run, std::nullopt, page);
  page.AddHeading("What was counted, and how");
  page.AddCode(
      absl::StrCat(CurveHeader(run), "\n", CurveTable(run), CheckTable(run)));
  file.Write(std::move(page).text());
}

}  // namespace tidewheel
