#include "tools/report/run_header.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/byte_size.h"
#include "tools/report/header_line.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

std::string DescribePolicy(const ServingSetup& setup) {
  const SchedulerOptions& scheduler = setup.scheduler;
  std::string text =
      absl::StrCat(OrderingPolicyName(scheduler.policy), ", ",
                   AdmissionPolicyName(scheduler.admission), " admission");
  if (scheduler.admission == AdmissionPolicy::kOptimistic) {
    absl::StrAppend(&text, " (watermark ", scheduler.watermark_pages,
                    scheduler.watermark_pages == 1 ? " page)" : " pages)");
  }
  absl::StrAppend(&text, scheduler.chunked_prefill ? ", chunked prefill"
                                                   : ", no chunked prefill");
  if (scheduler.max_prefill_chunk > 0) {
    absl::StrAppend(&text, " of up to ", scheduler.max_prefill_chunk,
                    " tokens a prompt");
  }
  absl::StrAppend(&text, ", prefix cache ",
                  setup.allocator.enable_prefix_cache ? "on" : "off");
  return text;
}

std::string DescribeWorkload(const SimulationRun& run) {
  const Trace& trace = run.trace;
  int64_t last_us = 0;
  for (const TraceRequest& request : trace.requests) {
    if (request.after_request < 0) last_us = request.arrival_us;
  }
  std::string text = absl::StrCat(
      trace.name, " (", trace.format,
      "): ", WithThousands(static_cast<int64_t>(trace.requests.size())),
      " requests, the last at ",
      absl::StrFormat("%.1f s", static_cast<double>(last_us) / 1e6));
  if (run.simulation.max_concurrency > 0) {
    absl::StrAppend(&text, ", at most ", run.simulation.max_concurrency,
                    " in flight");
  }
  switch (run.simulation.declared.rule) {
    case DeclaredTokens::Rule::kTrueLength:
      break;
    case DeclaredTokens::Rule::kAtLeast:
      absl::StrAppend(&text, ", declaring at least ",
                      run.simulation.declared.tokens, " new tokens");
      break;
    case DeclaredTokens::Rule::kFactor:
      absl::StrAppend(&text, ", declaring ", run.simulation.declared.factor,
                      " times their output");
      break;
    case DeclaredTokens::Rule::kUndeclared:
      absl::StrAppend(&text, ", declaring no length");
      break;
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> RunHeaderLines(
    const SimulationRun& run) {
  const ServingSetup& setup = run.setup;
  const ServerPlan& plan = setup.plan;
  const CapacityPlan& capacity = plan.capacity;
  const TpuChip& chip = setup.plan_options.chip;
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&lines](absl::string_view label, std::string text) {
    lines.emplace_back(label, std::move(text));
  };
  add("Model", absl::StrCat(setup.model.shape.options().name, ": ",
                            WithThousands(setup.model.shape.total_params()),
                            " parameters, ",
                            FormatByteSize(setup.model.shape.weight_bytes())));
  std::string chips = absl::StrCat(setup.plan_options.chips, " x ", chip.name);
  if (plan.devices != setup.plan_options.chips) {
    absl::StrAppend(&chips, ", which are ", plan.devices, " devices");
  }
  absl::StrAppend(&chips, ", ", FormatByteSize(capacity.hbm_bytes),
                  " of HBM each");
  if (!setup.plan_options.total_num_pages.has_value()) {
    absl::StrAppend(&chips, ", ", AsPercent(capacity.hbm_utilization),
                    " of it used");
  }
  add("Chips", chips);
  add("KV pool",
      absl::StrCat(WithThousands(capacity.usable_num_pages), " pages of ",
                   plan.page_size, " tokens for ",
                   WithThousands(capacity.usable_tokens), " tokens, ",
                   FormatByteSize(capacity.kv_bytes), " on each device"));
  add("Limits",
      absl::StrCat(plan.max_num_seqs, " sequences, ",
                   WithThousands(plan.max_num_batched_tokens),
                   " tokens a step, ", WithThousands(plan.max_model_len),
                   " tokens a request"));
  add("Policy", DescribePolicy(setup));
  add("Workload", DescribeWorkload(run));
  for (const std::vector<std::string>* notes :
       {&run.setup.notes, &run.trace.notes}) {
    for (const std::string& note : *notes) add("Note", note);
  }
  return lines;
}

std::string RunHeader(const SimulationRun& run) {
  std::string text;
  for (const auto& [label, line] : RunHeaderLines(run)) {
    absl::StrAppend(&text, HeaderLine(label, line));
  }
  return text;
}

}  // namespace tidewheel
