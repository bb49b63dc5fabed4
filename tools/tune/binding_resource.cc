#include "tools/tune/binding_resource.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

// The latency that is furthest beyond its bound.
enum class Latency { kTtft, kTpot, kE2el };

struct Worst {
  Latency latency = Latency::kTtft;
  absl::string_view name;
  double ms = 0;
  double bound_ms = 0;
};

Worst WorstLatency(const LoadOutcome& outcome, const GoodputTargets& bounds) {
  Worst worst;
  double ratio = -1;
  const auto consider = [&](Latency latency, absl::string_view name, double ms,
                            const std::optional<double>& bound) {
    if (!bound.has_value() || ms / *bound <= ratio) return;
    ratio = ms / *bound;
    worst = {latency, name, ms, *bound};
  };
  consider(Latency::kTtft, "TTFT", outcome.ttft_ms.value, bounds.ttft_ms);
  consider(Latency::kTpot, "TPOT", outcome.tpot_ms.value, bounds.tpot_ms);
  consider(Latency::kE2el, "E2EL", outcome.e2el_ms.value, bounds.e2el_ms);
  return worst;
}

std::string BoundText(const Worst& worst, const Promise& promise) {
  return absl::StrFormat("P%s %s %.1f ms, bound %.1f ms",
                         PercentileName(promise.percentile),
                         std::string(worst.name), worst.ms, worst.bound_ms);
}

// Prompt tokens of which `percentile` % of the requests have at most so many.
int32_t PromptPercentile(const Trace& trace, double percentile) {
  std::vector<int32_t> prompts;
  for (const TraceRequest& request : trace.requests) {
    prompts.push_back(request.prompt_tokens);
  }
  const size_t rank =
      std::min(prompts.size() - 1,
               static_cast<size_t>(static_cast<double>(prompts.size()) *
                                   percentile / 100));
  const auto nth = prompts.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(prompts.begin(), nth, prompts.end());
  return *nth;
}

// The time of a prompt's prefill alone, in steps of the budget.
struct PrefillTime {
  double total_s = 0;
  double compute_s = 0;  // of it, in steps that compute bounds
  double memory_s = 0;
  int32_t steps = 0;
};

PrefillTime TimePrefill(const TpuCostModel& cost, int32_t prompt,
                        int32_t budget) {
  PrefillTime time;
  for (int32_t done = 0; done < prompt; done += budget) {
    const int32_t chunk = std::min(budget, prompt - done);
    StepShape step;
    step.num_seqs = 1;
    step.num_decode_rows = chunk == 1 ? 1 : 0;
    step.q_tokens = chunk;
    step.kv_tokens = done + chunk;
    step.attention_pairs =
        int64_t{chunk} * done + int64_t{chunk} * (chunk + 1) / 2;
    step.logits_rows = done + chunk == prompt ? 1 : 0;
    const StepTime estimate = cost.Estimate(step);
    time.total_s += estimate.total_s;
    if (estimate.bound == StepBound::kCompute) {
      time.compute_s += estimate.total_s;
    } else if (estimate.bound == StepBound::kMemory) {
      time.memory_s += estimate.total_s;
    }
    ++time.steps;
  }
  return time;
}

Binding SlowPrefill(const CandidateEvaluator& evaluator,
                    const ServingSetup& setup, const std::string& bound) {
  const int32_t prompt = PromptPercentile(
      evaluator.traffic().trace(), evaluator.options().promise.percentile);
  const int32_t budget = setup.plan.max_num_batched_tokens;
  const PrefillTime time = TimePrefill(setup.cost_model, prompt, budget);
  Binding binding;
  binding.resource = time.compute_s >= time.total_s / 2 ? Resource::kCompute
                     : time.memory_s >= time.total_s / 2
                         ? Resource::kMemoryBandwidth
                         : Resource::kOverhead;
  binding.text = absl::StrCat(
      "with the server to itself a request is too slow already (", bound,
      "): the prefill of a prompt of ", WithThousands(prompt), " tokens alone ",
      absl::StrFormat("takes %.1f ms in %d steps of up to ", 1e3 * time.total_s,
                      time.steps),
      WithThousands(budget),
      " tokens; raise the bound, use more or faster chips, or shorten prompts");
  return binding;
}

Binding SlowDecode(const CandidateEvaluator& evaluator,
                   const ServingSetup& setup, const std::string& bound) {
  StepShape step;
  step.num_seqs = step.num_decode_rows = step.q_tokens = step.logits_rows = 1;
  step.kv_tokens = step.attention_pairs = std::max<int64_t>(
      1, static_cast<int64_t>(evaluator.traffic().mean_request_tokens()));
  const StepTime time = setup.cost_model.Estimate(step);
  Binding binding;
  binding.resource = time.bound == StepBound::kMemory
                         ? Resource::kMemoryBandwidth
                     : time.bound == StepBound::kCompute ? Resource::kCompute
                                                         : Resource::kOverhead;
  binding.text = absl::StrCat(
      "with the server to itself a request is too slow already (", bound,
      "): a step of one sequence takes ",
      absl::StrFormat("%.1f ms, of which reading the weights is %.1f ms",
                      1e3 * time.total_s, 1e3 * time.weights_s),
      "; raise the bound, or use more or faster chips or smaller weights");
  return binding;
}

Binding Refused(const LoadOutcome& outcome) {
  Binding binding;
  binding.resource = Resource::kSequenceLength;
  binding.text = absl::StrCat(WithThousands(outcome.not_completed), " of ",
                              WithThousands(outcome.requests),
                              " requests do not complete");
  if (!outcome.refusal.empty()) {
    absl::StrAppend(&binding.text, ", the first because: ", outcome.refusal);
  }
  return binding;
}

Binding Waiting(const LoadOutcome& loaded, const std::string& bound) {
  const Candidate& candidate = loaded.candidate;
  Binding binding;
  double share = loaded.waited_for_rows;
  binding.resource = Resource::kRows;
  std::string what =
      absl::StrCat("rows (max_num_seqs ", candidate.max_num_seqs, ")");
  if (loaded.waited_for_pages > share) {
    share = loaded.waited_for_pages;
    binding.resource = Resource::kPages;
    what = absl::StrCat("pages (total_num_pages ", candidate.total_num_pages,
                        " of ", candidate.page_size, " tokens)");
  }
  if (loaded.waited_for_tokens > share) {
    share = loaded.waited_for_tokens;
    binding.resource = Resource::kTokens;
    what = absl::StrCat("tokens of a step (max_num_batched_tokens ",
                        candidate.max_num_batched_tokens, ")");
  }
  binding.text = absl::StrCat(
      "requests wait for ", what, " in ", AsPercent(share), " of the time (",
      bound,
      "); give more of them if the space has no more, or ask for less: a "
      "lower rate, a looser bound, more chips");
  return binding;
}

}  // namespace

absl::string_view ResourceName(Resource resource) {
  switch (resource) {
    case Resource::kNone:
      return "none";
    case Resource::kRows:
      return "rows";
    case Resource::kPages:
      return "pages";
    case Resource::kTokens:
      return "tokens a step";
    case Resource::kCompute:
      return "compute";
    case Resource::kMemoryBandwidth:
      return "memory bandwidth";
    case Resource::kOverhead:
      return "overhead of a step";
    case Resource::kSequenceLength:
      return "sequence length";
    case Resource::kStepTime:
      return "step time";
  }
  TIDEWHEEL_CHECK(false);
}

absl::StatusOr<Binding> FindBinding(const CandidateEvaluator& evaluator,
                                    const LoadOutcome& alone,
                                    const LoadOutcome& loaded) {
  const Promise& promise = evaluator.options().promise;
  const double allowed =
      (1 - promise.percentile / 100) * static_cast<double>(alone.requests);
  if (static_cast<double>(alone.not_completed) > allowed) {
    return Refused(alone);
  }
  ServingOptions serving =
      ServingOf(alone.candidate, evaluator.options().serving);
  TIDEWHEEL_ASSIGN_OR_RETURN(const ServingSetup setup, PrepareServing(serving));
  if (!alone.keeps_promise) {
    const Worst worst = WorstLatency(alone, promise.bounds);
    const std::string bound = BoundText(worst, promise);
    return worst.latency == Latency::kTtft
               ? SlowPrefill(evaluator, setup, bound)
               : SlowDecode(evaluator, setup, bound);
  }
  const Worst worst = WorstLatency(loaded, promise.bounds);
  std::string bound = BoundText(worst, promise);
  if (loaded.overloaded) {
    absl::StrAppend(&bound, "; overloaded: the queue grows to the end");
  }
  constexpr double kMatters = 0.05;  // of the time
  const double waited =
      std::max({loaded.waited_for_rows, loaded.waited_for_pages,
                loaded.waited_for_tokens});
  if (waited > kMatters &&
      (loaded.overloaded || worst.latency != Latency::kTpot)) {
    return Waiting(loaded, bound);
  }
  Binding binding;
  binding.resource = Resource::kStepTime;
  binding.text = absl::StrCat(
      "at ", absl::StrFormat("%.2f", loaded.request_rate), " requests/s up to ",
      loaded.peak_running,
      " sequences run at once, and steps with so many are too long (", bound,
      "); ask for a lower rate or a looser bound, or use more or faster chips");
  return binding;
}

}  // namespace tidewheel
