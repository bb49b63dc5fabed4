#include "tools/tune/explain_choice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

bool IsBetter(TuneObjective objective, const CandidateResult& a,
              const CandidateResult& b) {
  if (a.keeps_promise != b.keeps_promise) return a.keeps_promise;
  if (a.rungs != b.rungs) return a.rungs > b.rungs;
  if (!a.keeps_promise) {
    return a.outcome.strain.value < b.outcome.strain.value;
  }
  return objective == TuneObjective::kHighestRate
             ? a.objective.value > b.objective.value
             : a.objective.value < b.objective.value;
}

// What the values of a knob are compared as: pools of pages of different sizes
// by their tokens, watermarks by their share of the pool.
struct KnobClass {
  int64_t order = 0;
  std::string name;

  friend bool operator<(const KnobClass& a, const KnobClass& b) {
    return a.order < b.order;
  }
};

KnobClass ClassOf(const Candidate& candidate, const Candidate& chosen,
                  Knob knob) {
  const double usable = static_cast<double>(candidate.total_num_pages - 1);
  if (knob == Knob::kTotalNumPages) {
    // To a tenth: memory for activations depends on other knobs.
    const double share =
        static_cast<double>(candidate.total_num_pages) * candidate.page_size /
        static_cast<double>(chosen.total_num_pages) / chosen.page_size;
    const int64_t tenths = std::llround(10 * share);
    return {tenths, absl::StrCat(10 * tenths, " % of these tokens")};
  }
  if (knob == Knob::kWatermarkPages) {
    const int64_t percent =
        std::llround(100 * candidate.watermark_pages / usable);
    return {percent, absl::StrCat(percent, " % of the pool")};
  }
  return {KnobValue(candidate, knob), KnobText(candidate, knob)};
}

// The best candidate of each class of a knob's values.
std::map<KnobClass, const CandidateResult*> BestByClass(
    const TuneResult& result, const Candidate& chosen, Knob knob) {
  std::map<KnobClass, const CandidateResult*> best;
  for (const CandidateResult& candidate : result.candidates) {
    if (candidate.rungs == 0) continue;
    if (knob == Knob::kWatermarkPages &&
        candidate.candidate.admission != AdmissionPolicy::kOptimistic) {
      continue;
    }
    const CandidateResult*& known =
        best[ClassOf(candidate.candidate, chosen, knob)];
    if (known == nullptr || IsBetter(result.objective, candidate, *known)) {
      known = &candidate;
    }
  }
  return best;
}

// What a value reached; where it left early, beside what the chosen candidate
// reached there.
std::string ReachedText(const TuneResult& result, const CandidateResult& chosen,
                        const std::string& value,
                        const CandidateResult& candidate) {
  std::string text = absl::StrCat(value, ": ");
  if (!candidate.keeps_promise) return absl::StrCat(text, "not kept");
  absl::StrAppend(&text,
                  ObjectiveText(result.objective, candidate.objective.value));
  if (candidate.reached_last_rung) {
    return absl::StrCat(text, candidate.is_equal ? " (equal)" : "");
  }
  const size_t rung = static_cast<size_t>(candidate.rungs);
  absl::StrAppend(&text, " on rung ", rung, " of ", result.rungs.size());
  if (chosen.by_rung.size() >= rung && chosen.by_rung[rung - 1] > 0) {
    absl::StrAppend(&text, ", where this had ",
                    absl::StrFormat("%.2f", chosen.by_rung[rung - 1]));
  }
  return text;
}

bool IsSure(const SensitivityRow& row) {
  return row.strain_change.low > 0 || row.strain_change.high < 0 ||
         row.outcome.overloaded;
}

std::string SensitivityText(const SensitivityRow& row, double base) {
  const std::string after =
      row.outcome.overloaded ? std::string("overloaded")
      : row.outcome.strain.value < kBrokenStrain
          ? absl::StrFormat("%.2f", row.outcome.strain.value)
          : std::string("not completed");
  return absl::StrCat(row.name, " ", row.change, ": strain ",
                      absl::StrFormat("%.2f", base), " -> ", after,
                      row.keeps_promise ? ", kept" : ", broken",
                      IsSure(row) ? "" : ", unsure");
}

}  // namespace

std::string ObjectiveText(TuneObjective objective, double value) {
  switch (objective) {
    case TuneObjective::kHighestRate:
      return absl::StrFormat("%.2f requests/s", value);
    case TuneObjective::kFewestPages:
      return absl::StrFormat("%.2f GiB", value);
    case TuneObjective::kFewestChips:
      return absl::StrFormat("%.0f chip%s", value, value == 1 ? "" : "s");
  }
  TIDEWHEEL_CHECK(false);
}

std::vector<KnobReason> ReasonsOfKnobs(const TuneResult& result) {
  const CandidateResult& chosen =
      result.candidates[static_cast<size_t>(result.recommended)];
  std::vector<KnobReason> reasons;
  for (const Knob knob : AllKnobs()) {
    // The smallest pool is what is looked for, so each candidate has its own.
    if (knob == Knob::kTotalNumPages &&
        result.objective == TuneObjective::kFewestPages) {
      continue;
    }
    const bool reserves =
        chosen.candidate.admission == AdmissionPolicy::kReserve;
    if (knob == Knob::kWatermarkPages && reserves) continue;
    std::vector<std::string> others;
    const KnobClass own = ClassOf(chosen.candidate, chosen.candidate, knob);
    for (const auto& [value, candidate] :
         BestByClass(result, chosen.candidate, knob)) {
      if (value.order == own.order) continue;
      others.push_back(ReachedText(result, chosen, value.name, *candidate));
    }
    if (others.empty()) continue;
    constexpr size_t kMost = 6;
    const size_t more = others.size() > kMost ? others.size() - kMost : 0;
    others.resize(std::min(others.size(), kMost));
    std::string text = absl::StrJoin(others, "; ");
    if (more > 0) absl::StrAppend(&text, "; ", more, " more values");
    reasons.push_back({knob, std::move(text)});
  }
  return reasons;
}

std::vector<std::string> WhatWouldChange(const TuneResult& result) {
  if (!result.base.has_value()) return {};
  std::vector<const SensitivityRow*> rows;
  for (const SensitivityRow& row : result.sensitivity) {
    if (row.is_refused) continue;
    if (row.keeps_promise != result.base->keeps_promise) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SensitivityRow* a, const SensitivityRow* b) {
                     if (IsSure(*a) != IsSure(*b)) return IsSure(*a);
                     return std::abs(a->strain_change.value) >
                            std::abs(b->strain_change.value);
                   });
  std::vector<std::string> lines;
  for (const SensitivityRow* row : rows) {
    lines.push_back(SensitivityText(*row, result.base->strain.value));
  }
  return lines;
}

std::vector<VllmFlag> VllmFlags(const ServingSetup& setup) {
  const ServerPlan& plan = setup.plan;
  const SchedulerOptions& scheduler = setup.scheduler;
  std::vector<VllmFlag> flags;
  const auto add = [&flags](absl::string_view knob, std::string flag,
                            absl::string_view note) {
    flags.push_back({std::string(knob), std::move(flag), std::string(note)});
  };
  add("page_size", absl::StrCat("--block-size ", plan.page_size), "");
  add("total_num_pages",
      absl::StrCat("--num-gpu-blocks-override ", plan.capacity.total_num_pages),
      "vLLM's number includes its null block too");
  const double utilization = static_cast<double>(plan.capacity.weight_bytes +
                                                 plan.capacity.reserve_bytes +
                                                 plan.capacity.kv_bytes) /
                             static_cast<double>(plan.capacity.hbm_bytes);
  add("hbm_utilization",
      absl::StrFormat("--gpu-memory-utilization %.2f",
                      std::min(1.0, std::ceil(utilization * 100) / 100)),
      "only as the room that the pages above need; the override decides");
  add("max_num_seqs", absl::StrCat("--max-num-seqs ", plan.max_num_seqs), "");
  add("max_num_batched_tokens",
      absl::StrCat("--max-num-batched-tokens ", plan.max_num_batched_tokens),
      "");
  add("max_model_len", absl::StrCat("--max-model-len ", plan.max_model_len),
      "");
  add("chips", absl::StrCat("--tensor-parallel-size ", plan.devices), "");
  add("policy",
      absl::StrCat("--scheduling-policy ",
                   std::string(OrderingPolicyName(scheduler.policy))),
      "");
  add("prefix_cache",
      setup.allocator.enable_prefix_cache ? "--enable-prefix-caching"
                                          : "--no-enable-prefix-caching",
      "");
  if (setup.plan_options.kv_dtype != KvDtype::kBf16) {
    add("kv_dtype",
        absl::StrCat("--kv-cache-dtype ",
                     std::string(KvDtypeName(setup.plan_options.kv_dtype))),
        "where vLLM has that type");
  }
  add("admission", "",
      scheduler.admission == AdmissionPolicy::kReserve
          ? "vLLM always admits optimistically, so it preempts where this "
            "server does not"
          : "vLLM always admits optimistically");
  add("watermark_pages", "", "the V1 engine leaves no pages for growth");
  return flags;
}

}  // namespace tidewheel
