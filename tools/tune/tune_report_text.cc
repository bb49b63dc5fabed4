#include "tools/tune/tune_report_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/report/header_line.h"
#include "tools/report/number_text.h"
#include "tools/tune/binding_resource.h"
#include "tools/tune/cliff_search.h"
#include "tools/tune/explain_choice.h"
#include "tools/tune/front_plot.h"

namespace tidewheel {
namespace {

constexpr int kWidth = 78;

// "------------------ title -------------------".
std::string Title(absl::string_view title) {
  const int side = std::max(0, kWidth - static_cast<int>(title.size()) - 2);
  return absl::StrCat(
      "\n", std::string(static_cast<size_t>(side / 2), '-'), " ", title, " ",
      std::string(static_cast<size_t>(side - side / 2), '-'), "\n");
}

// Values that have an interval are shown with it.
std::string WithInterval(const Estimate& estimate, absl::string_view unit,
                         int digits) {
  const auto number = [digits](double x) {
    return absl::StrFormat("%.*f", digits, x);
  };
  return absl::StrCat(number(estimate.value), unit.empty() ? "" : " ", unit,
                      "  (", number(estimate.low), " to ",
                      number(estimate.high), ")");
}

// Beyond this, how late is late does not matter.
constexpr double kMostShown = 100;

std::string StrainText(double strain) {
  return strain < kMostShown ? absl::StrFormat("%.2f", strain) : ">99";
}

std::string ChangeText(double change) {
  if (change >= kMostShown) return "> +99";
  if (change <= -kMostShown) return "< -99";
  return absl::StrFormat("%+.2f", change);
}

std::string KeptText(const Estimate& kept) {
  return absl::StrFormat("%.2f %%  (%.2f to %.2f)", 100 * kept.value,
                         100 * kept.low, 100 * kept.high);
}

std::string ObjectiveName(TuneObjective objective) {
  switch (objective) {
    case TuneObjective::kHighestRate:
      return "the highest rate that keeps it";
    case TuneObjective::kFewestPages:
      return "the fewest pages that keep it";
    case TuneObjective::kFewestChips:
      return "the fewest chips that keep it";
  }
  return "";
}

std::string AnswerText(const TuneResult& result,
                       const CandidateResult& chosen) {
  const Estimate& found = chosen.objective;
  switch (result.objective) {
    case TuneObjective::kHighestRate:
      if (chosen.broken_at == 0) {
        return absl::StrFormat(
            "kept at every rate that was tried, up to %.2f requests/s",
            found.value);
      }
      return absl::StrCat(WithInterval(found, "requests/s", 2),
                          "; plan for the lower end");
    case TuneObjective::kFewestPages: {
      return absl::StrCat(WithThousands(chosen.candidate.total_num_pages),
                          " pages of ", chosen.candidate.page_size, " tokens, ",
                          WithInterval(found, "GiB of KV", 2),
                          "; plan for the upper end");
    }
    case TuneObjective::kFewestChips:
      return absl::StrCat(
          WithInterval(found, found.value == 1 ? "chip" : "chips", 0), ": ",
          chosen.copies, " cop", chosen.copies == 1 ? "y" : "ies",
          " of the model on ", chosen.candidate.chips,
          ", each with an even share of the requests");
  }
  return "";
}

std::string Answer(const TuneResult& result) {
  const CandidateResult& chosen =
      result.candidates[static_cast<size_t>(result.recommended)];
  const CandidateResult& best =
      result.candidates[static_cast<size_t>(result.best)];
  std::string text = Title("Answer");
  absl::StrAppend(&text, HeaderLine("Found", AnswerText(result, chosen)));
  if (!chosen.reached_last_rung) {
    absl::StrAppend(
        &text,
        HeaderLine("Beware", "stopped early: short runs alone, no intervals"));
    return text;
  }
  const auto equal = std::count_if(
      result.candidates.begin(), result.candidates.end(),
      [](const CandidateResult& candidate) { return candidate.is_equal; });
  std::string why =
      absl::StrCat("the best figure is ",
                   ObjectiveText(result.objective, best.objective.value), "; ",
                   equal, equal == 1 ? " candidate" : " candidates",
                   " can not be told from it (intervals overlap), ");
  absl::StrAppend(&why, "and of those within 5 % of it this has ",
                  result.objective == TuneObjective::kFewestPages
                      ? "the fewest rows, then the smallest token budget"
                      : "the fewest chips, then the smallest pool, the fewest "
                        "rows, the smallest token budget");
  absl::StrAppend(&text, HeaderLine("Chosen", why));
  return text;
}

std::string OutcomeLines(const LoadOutcome& outcome, const Promise& promise) {
  const std::string p = absl::StrCat("P", PercentileName(promise.percentile));
  std::string text;
  const auto line = [&text](const std::string& name, const std::string& value) {
    absl::StrAppend(&text, absl::StrFormat("%-29s %s\n", name, value));
  };
  line("Rate:", absl::StrFormat("%.2f requests/s", outcome.request_rate));
  if (outcome.overloaded) {
    line("Overloaded:",
         "the queue grows to the end; what follows is no "
         "average of anything");
  }
  line("Requests that keep it:", KeptText(outcome.kept_ratio));
  line(p + " TTFT:", WithInterval(outcome.ttft_ms, "ms", 1));
  line(p + " TPOT:", WithInterval(outcome.tpot_ms, "ms", 1));
  line(p + " E2EL:", WithInterval(outcome.e2el_ms, "ms", 0));
  line(p + " strain:", WithInterval(outcome.strain, "of the bound", 3));
  line("Output tokens/s:", WithInterval(outcome.output_tokens_per_s, "", 0));
  line("Pages in use, mean and peak:",
       absl::StrCat(AsPercent(outcome.mean_used_pages), ", ",
                    AsPercent(outcome.peak_used_pages)));
  line("Preemptions:", absl::StrCat(WithThousands(outcome.preemptions), ", ",
                                    WithThousands(outcome.recomputed_tokens),
                                    " tokens computed again"));
  line("Time with requests waiting:",
       absl::StrCat("rows ", AsPercent(outcome.waited_for_rows), ", pages ",
                    AsPercent(outcome.waited_for_pages), ", tokens ",
                    AsPercent(outcome.waited_for_tokens)));
  line("Warm-up cut:",
       absl::StrCat(WithThousands(outcome.warm_up_requests), " of ",
                    WithThousands(outcome.requests), " requests"));
  return text;
}

std::string Configuration(const TuneResult& result) {
  const Candidate& chosen =
      result.candidates[static_cast<size_t>(result.recommended)].candidate;
  std::string text = Title("Configuration, and what other values reached");
  for (const Knob knob : AllKnobs()) {
    std::string others = "not varied";
    for (const KnobReason& reason : result.reasons) {
      if (reason.knob == knob) others = reason.text;
    }
    if (knob == Knob::kWatermarkPages &&
        chosen.admission == AdmissionPolicy::kReserve) {
      others = "no effect where admission reserves";
    }
    if (knob == Knob::kTotalNumPages &&
        result.objective == TuneObjective::kFewestPages) {
      others = "what was looked for";
    }
    absl::StrAppend(&text,
                    absl::StrFormat("%s = %s\n", std::string(KnobName(knob)),
                                    KnobText(chosen, knob)),
                    HeaderLine("", others));
  }
  absl::StrAppend(&text, "max_model_len = ", result.max_model_len, "\n",
                  HeaderLine("", "not varied; longer requests are refused"));
  return text;
}

std::string Front(const TuneResult& result) {
  if (result.front.points.empty()) return "";
  std::string text =
      Title(absl::StrCat("Pareto front: ", result.front.value_name, " for ",
                         result.front.cost_name));
  absl::StrAppend(&text, FrontPlot(result.front, result.recommended),
                  "  R recommended, * not beaten in both, . beaten\n\n");
  absl::StrAppend(
      &text,
      absl::StrFormat(
          "%9s %11s  %s\n",
          result.objective == TuneObjective::kFewestChips ? "chips" : "KV GiB",
          result.front.value_name, "configuration"));
  // Points that cost or bring hardly more than the one before are left out.
  constexpr double kStep = 0.02;
  int left_out = 0;
  double shown_value = 0;
  bool has_shown = false;
  for (const FrontPoint& point : result.front.points) {
    if (!point.is_on_front) continue;
    const bool is_recommended = point.candidate == result.recommended;
    const bool is_step =
        !has_shown || std::abs(point.value / shown_value - 1) > kStep;
    if (!is_step && !is_recommended) {
      ++left_out;
      continue;
    }
    has_shown = true;
    shown_value = point.value;
    absl::StrAppend(
        &text, absl::StrFormat("%c %7.2f %11.2f  %s\n",
                               is_recommended ? 'R' : ' ', point.cost,
                               point.value, CandidateText(point.settings)));
  }
  if (left_out > 0) {
    absl::StrAppend(&text, "and ", left_out,
                    " on the front that bring less than 2 % more each\n");
  }
  return text;
}

std::string CliffSide(absl::string_view name, const LoadOutcome& outcome) {
  return absl::StrFormat(
      "%-12s %8s  %-22s %9s %11s\n", std::string(name),
      WithThousands(outcome.candidate.total_num_pages),
      outcome.overloaded ? std::string("overloaded")
                         : absl::StrCat(StrainText(outcome.strain.value), " (",
                                        StrainText(outcome.strain.low), " to ",
                                        StrainText(outcome.strain.high), ")"),
      WithThousands(outcome.preemptions),
      WithThousands(outcome.recomputed_tokens));
}

std::string CliffText(const TuneResult& result) {
  const Cliff& cliff = *result.cliff;
  std::string text = Title("Cliff");
  absl::StrAppend(&text, HeaderLine("Margin", CliffMarginText(cliff)));
  absl::StrAppend(
      &text,
      HeaderLine("Plateau",
                 absl::StrFormat(
                     "P%s strain %.3f, measured with %s pages; a pool is on "
                     "it up to %.3f (+%.0f %%)",
                     PercentileName(result.promise.percentile),
                     cliff.plateau_strain, WithThousands(cliff.plateau_pages),
                     cliff.plateau_strain * (1 + cliff.tolerance),
                     100 * cliff.tolerance)));
  absl::StrAppend(&text,
                  absl::StrFormat("%-12s %8s  %-22s %9s %11s\n", "", "pages",
                                  "strain", "preempted", "recomputed"));
  absl::StrAppend(&text, CliffSide("this pool", cliff.at_recommended));
  absl::StrAppend(&text, CliffSide("at the edge", cliff.at_edge));
  if (cliff.has_edge) {
    absl::StrAppend(&text, CliffSide("below it", cliff.below_edge));
  }
  if (cliff.promise_pages > 0 && cliff.promise_pages != cliff.edge_pages) {
    absl::StrAppend(
        &text, HeaderLine("Promise",
                          absl::StrCat("kept down to ",
                                       WithThousands(cliff.promise_pages),
                                       " pages, of the sizes that were run")));
  }
  return text;
}

std::string Sensitivity(const TuneResult& result) {
  std::string text = Title("Sensitivity: strain after a change of 10 %");
  absl::StrAppend(&text,
                  absl::StrFormat("%-26s %-21s %6s %7s  %s\n", "", "change",
                                  "strain", "promise", "difference"));
  for (const SensitivityRow& row : result.sensitivity) {
    if (row.is_refused) {
      const std::string rule = row.refusal.substr(0, row.refusal.find(':'));
      absl::StrAppend(&text,
                      absl::StrFormat("%-26s %-21s %6s %7s  %s\n", row.name,
                                      row.change, "-", "refused", rule));
      continue;
    }
    absl::StrAppend(
        &text,
        absl::StrFormat("%-26s %-21s %6s %7s  %s to %s\n", row.name, row.change,
                        row.outcome.overloaded
                            ? std::string("overl.")
                            : StrainText(row.outcome.strain.value),
                        row.keeps_promise ? "kept" : "broken",
                        ChangeText(row.strain_change.low),
                        ChangeText(row.strain_change.high)));
  }
  return text;
}

std::string Lines(absl::string_view title,
                  const std::vector<std::string>& lines, size_t most) {
  std::string text = Title(title);
  for (size_t i = 0; i < std::min(most, lines.size()); ++i) {
    absl::StrAppend(&text, lines[i], "\n");
  }
  if (lines.empty()) absl::StrAppend(&text, "none of the changes tried\n");
  if (lines.size() > most) {
    absl::StrAppend(&text, "and ", lines.size() - most, " more\n");
  }
  return text;
}

std::string Vllm(const TuneResult& result) {
  std::string text = Title("The same with vLLM");
  for (const VllmFlag& flag : result.vllm_flags) {
    if (flag.flag.empty()) {
      absl::StrAppend(
          &text, HeaderLine("", absl::StrCat("(no flag for ", flag.knob, ": ",
                                             flag.note, ")")));
      continue;
    }
    absl::StrAppend(&text, "  ", flag.flag, "\n");
    if (!flag.note.empty()) {
      absl::StrAppend(&text, HeaderLine("", absl::StrCat("(", flag.note, ")")));
    }
  }
  return text;
}

std::string HowFound(const TuneResult& result) {
  std::string text = Title("How this was found");
  std::string space =
      absl::StrCat(WithThousands(result.space_size), " combinations");
  for (const Exclusion& exclusion : result.exclusions) {
    absl::StrAppend(&space, ", ", WithThousands(exclusion.count),
                    " refused by ", exclusion.rule);
  }
  absl::StrAppend(&space, "; ",
                  WithThousands(static_cast<int64_t>(result.candidates.size())),
                  " different ones were run");
  absl::StrAppend(&text, HeaderLine("Space", space));
  for (const Exclusion& exclusion : result.exclusions) {
    absl::StrAppend(&text, HeaderLine("", absl::StrCat(exclusion.rule, ": ",
                                                       exclusion.example)));
  }
  std::vector<std::string> rungs;
  for (const RungSummary& rung : result.rungs) {
    rungs.push_back(absl::StrCat(
        rung.candidates, " x ", WithThousands(rung.requests), " requests",
        rung.replications > 1 ? absl::StrCat(" x ", rung.replications, " seeds")
                              : "",
        " (", rung.runs, " runs)"));
  }
  absl::StrAppend(&text, HeaderLine("Rungs", absl::StrJoin(rungs, ", then ")));
  absl::StrAppend(&text, HeaderLine("Search", result.search_method));
  absl::StrAppend(&text, HeaderLine("Intervals", result.confidence_method));
  absl::StrAppend(&text, HeaderLine("Warm-up", result.warm_up_method));
  absl::StrAppend(&text, HeaderLine("Overload", result.stationarity_method));
  for (const std::string& note : result.notes) {
    absl::StrAppend(&text, HeaderLine("Note", note));
  }
  absl::StrAppend(
      &text, HeaderLine("Work",
                        absl::StrFormat(
                            "%s runs, %s requests, %.1f s, %.1f s of CPU on %d "
                            "thread%s",
                            WithThousands(result.runs),
                            WithThousands(result.simulated_requests),
                            result.wall_seconds, result.cpu_seconds,
                            result.threads, result.threads == 1 ? "" : "s")));
  return text;
}

std::string NotAttainable(const TuneResult& result) {
  std::string text = Title("The promise can not be kept");
  if (result.interrupted) {
    return absl::StrCat(text, HeaderLine("Found",
                                         "nothing before the search "
                                         "was interrupted"));
  }
  absl::StrAppend(
      &text, HeaderLine("Binding", absl::StrCat(ResourceName(result.binding),
                                                ": ", result.binding_text)));
  if (!result.base.has_value()) return text;
  absl::StrAppend(&text,
                  HeaderLine("Closest", CandidateText(result.base->candidate)),
                  "\n", OutcomeLines(*result.base, result.promise));
  return text;
}

}  // namespace

std::string PromiseText(const Promise& promise) {
  std::vector<std::string> bounds;
  const auto add = [&bounds](absl::string_view name,
                             const std::optional<double>& bound) {
    if (!bound.has_value()) return;
    bounds.push_back(
        absl::StrFormat("%s at most %g ms", std::string(name), *bound));
  };
  add("TTFT", promise.bounds.ttft_ms);
  add("TPOT", promise.bounds.tpot_ms);
  add("E2EL", promise.bounds.e2el_ms);
  return absl::StrCat(PercentileName(promise.percentile),
                      " % of requests: ", absl::StrJoin(bounds, ", "));
}

std::string TuneHeader(const TuneOptions& options, const Traffic& traffic) {
  const ServingOptions& serving = options.server.serving;
  const Trace& trace = traffic.trace();
  std::string workload =
      absl::StrCat(trace.name, " (", trace.format,
                   "): ", WithThousands(traffic.num_requests()), " requests");
  if (traffic.replications() > 1) {
    absl::StrAppend(&workload, ", drawn with ", traffic.replications(),
                    " seeds");
  }
  if (traffic.own_rate().has_value()) {
    absl::StrAppend(&workload,
                    absl::StrFormat(", %.2f a second", *traffic.own_rate()));
  }
  std::string objective = ObjectiveName(options.objective);
  if (options.objective != TuneObjective::kHighestRate) {
    const std::optional<double> rate = options.request_rate.has_value()
                                           ? options.request_rate
                                           : traffic.own_rate();
    absl::StrAppend(&objective, " at ",
                    absl::StrFormat("%.2f requests/s", rate.value_or(0)));
  } else {
    absl::StrAppend(&objective, " on ", serving.plan.chips, " x ",
                    serving.chip);
  }
  std::string text = absl::StrCat(
      HeaderLine("Model", absl::StrCat(serving.model, " on ", serving.chip)),
      HeaderLine("Workload", workload),
      HeaderLine("Promise", PromiseText(options.server.promise)),
      HeaderLine("Looked for", objective),
      HeaderLine("Space", absl::StrCat(WithThousands(options.space.size()),
                                       " combinations")));
  for (const std::string& note : trace.notes) {
    absl::StrAppend(&text, HeaderLine("Note", note));
  }
  return text;
}

std::string TuneReportText(const TuneResult& result) {
  std::string text;
  if (result.interrupted) {
    absl::StrAppend(
        &text, HeaderLine("Interrupted", "what follows is the best so far"));
  }
  if (result.recommended < 0) {
    return absl::StrCat(text, NotAttainable(result), HowFound(result));
  }
  absl::StrAppend(&text, Answer(result), "\n",
                  OutcomeLines(*result.base, result.promise),
                  Configuration(result), Front(result));
  if (result.cliff.has_value()) absl::StrAppend(&text, CliffText(result));
  if (!result.sensitivity.empty()) {
    constexpr size_t kMostChanges = 8;
    absl::StrAppend(&text, Sensitivity(result),
                    Lines("What would change the answer",
                          result.what_would_change, kMostChanges));
  }
  absl::StrAppend(&text, Vllm(result), HowFound(result));
  return text;
}

}  // namespace tidewheel
