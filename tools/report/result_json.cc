#include "tools/report/result_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tools/report/number_text.h"
#include "tools/report/percentile.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(absl::string_view text) { return std::string(text); }

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

// JSON has no infinity.
Json Rate(const std::optional<double>& rate) {
  if (!rate.has_value()) return nullptr;
  return std::isfinite(*rate) ? Json(*rate) : Json("inf");
}

void AddLatency(Json& json, absl::string_view name, const Distribution& ms,
                const std::vector<double>& percents) {
  const auto value = [&ms](double v) {
    return ms.count > 0 ? Json(v) : Json(nullptr);
  };
  const auto key = [&name](absl::string_view statistic) {
    return absl::StrCat(statistic, "_", name, "_ms");
  };
  json[key("mean")] = value(ms.mean);
  json[key("median")] = value(ms.median);
  json[key("std")] = value(ms.std_dev);
  for (size_t i = 0; i < percents.size(); ++i) {
    json[key(absl::StrCat("p", PercentileName(percents[i])))] =
        ms.count > 0 ? Json(ms.percentiles[i]) : Json(nullptr);
  }
}

void AddServing(Json& json, const SimulationRun& run) {
  const ServingMetrics& m = run.metrics;
  json["model_id"] = run.setup.model.shape.options().name;
  json["num_prompts"] = run.trace.requests.size();
  json["request_rate"] = Rate(run.workload.request_rate);
  json["burstiness"] = Rate(run.workload.burstiness);
  json["max_concurrency"] = run.simulation.max_concurrency > 0
                                ? Json(run.simulation.max_concurrency)
                                : Json(nullptr);
  json["duration"] = m.duration_s;
  json["completed"] = m.completed;
  json["total_input_tokens"] = m.input_tokens;
  json["total_output_tokens"] = m.output_tokens;
  json["request_throughput"] = m.request_throughput;
  json["request_goodput"] = OrNull(m.request_goodput);
  json["output_throughput"] = m.output_throughput;
  json["total_token_throughput"] = m.total_token_throughput;
  const std::vector<double>& percents = run.metrics_options.percentiles;
  if (run.shown.ttft) AddLatency(json, "ttft", m.ttft_ms, percents);
  if (run.shown.tpot) AddLatency(json, "tpot", m.tpot_ms, percents);
  if (run.shown.itl) AddLatency(json, "itl", m.itl_ms, percents);
  if (run.shown.e2el) AddLatency(json, "e2el", m.e2el_ms, percents);
  json["percentile_method"] = Text(kPercentileMethod);
}

void AddOutcomes(Json& json, const SimulationRun& run) {
  json["refused"] = run.metrics.refused;
  json["not_completed"] = run.metrics.not_completed;
  Json reasons = Json::object();
  for (const auto& [reason, count] : run.metrics.not_completed_by_reason) {
    reasons[reason] = count;
  }
  json["not_completed_by_reason"] = std::move(reasons);
  json["refusal_examples"] = run.result.refusal_examples;
  json["blocked"] =
      run.result.blocked.empty() ? Json(nullptr) : Json(run.result.blocked);
}

void AddScheduling(Json& json, const SimulationRun& run) {
  const SchedulerStats& stats = run.result.scheduler;
  const PoolUsage& usage = run.result.usage;
  json["steps"] = stats.steps;
  json["preemptions"] = stats.preemptions;
  json["recomputed_tokens"] = stats.recomputed_tokens;
  json["prefix_cache_queries"] = stats.prefix_cache_queries;
  json["prefix_cache_hits"] = stats.prefix_cache_hits;
  json["preempted_prefix_cache_queries"] = stats.preempted_prefix_cache_queries;
  json["preempted_prefix_cache_hits"] = stats.preempted_prefix_cache_hits;
  json["page_utilization"] = usage.mean_pages;
  json["peak_page_utilization"] = usage.peak_pages;
  json["promised_page_utilization"] = usage.mean_promised;
  json["peak_promised_page_utilization"] = usage.peak_promised;
  json["token_slot_utilization"] = usage.mean_slots;
  json["peak_token_slot_utilization"] = usage.peak_slots;
  json["pages_evicted"] = run.result.pages_evicted;
  json["max_running_sequences"] = run.result.peak_running;
  json["max_requests_in_flight"] = run.result.peak_in_flight;
  json["queue_time"] = run.metrics.queue_ms.count > 0
                           ? Json(run.metrics.queue_ms.mean / 1e3)
                           : Json(nullptr);
  AddLatency(json, "queue_time", run.metrics.queue_ms,
             run.metrics_options.percentiles);
}

void AddStepTimes(Json& json, const SimulationRun& run) {
  const SimulatedRunner::Totals& totals = run.result.runner;
  json["busy_seconds"] = run.result.usage.busy_s;
  for (const StepBound bound :
       {StepBound::kMemory, StepBound::kCompute, StepBound::kOverhead}) {
    const absl::string_view name = StepBoundName(bound);
    const size_t i = static_cast<size_t>(bound);
    json[absl::StrCat("steps_bound_by_", name)] = totals.bound_steps[i];
    json[absl::StrCat("seconds_bound_by_", name)] = totals.bound_s[i];
  }
  const StepTime& parts = totals.parts;
  json["step_seconds"] = {
      {"weights", parts.weights_s},
      {"matmul", parts.matmul_s},
      {"kv_read", parts.kv_read_s},
      {"attention", parts.attention_s},
      {"collectives", parts.collectives_s},
      {"overhead", parts.overhead_s},
      {"total", parts.total_s},
  };
}

Json Configuration(const SimulationRun& run) {
  const ServingSetup& setup = run.setup;
  const CapacityPlan& capacity = setup.plan.capacity;
  const SchedulerOptions& scheduler = setup.scheduler;
  Json json;
  json["chip"] = Text(setup.plan_options.chip.name);
  json["chips"] = setup.plan_options.chips;
  json["devices"] = setup.plan.devices;
  json["parameters"] = setup.model.shape.total_params();
  json["hbm_bytes"] = capacity.hbm_bytes;
  json["hbm_utilization"] = capacity.hbm_utilization;
  json["weight_bytes"] = capacity.weight_bytes;
  json["reserve_bytes"] = capacity.reserve_bytes;
  json["kv_bytes"] = capacity.kv_bytes;
  json["kv_dtype"] = Text(KvDtypeName(setup.plan_options.kv_dtype));
  json["page_size"] = setup.plan.page_size;
  json["total_num_pages"] = capacity.total_num_pages;
  json["usable_tokens"] = capacity.usable_tokens;
  json["max_num_seqs"] = scheduler.max_num_seqs;
  json["max_num_batched_tokens"] = scheduler.max_num_batched_tokens;
  json["max_model_len"] = scheduler.max_model_len;
  json["chunked_prefill"] = scheduler.chunked_prefill;
  json["max_prefill_chunk"] = scheduler.max_prefill_chunk;
  json["policy"] = Text(OrderingPolicyName(scheduler.policy));
  json["admission"] = Text(AdmissionPolicyName(scheduler.admission));
  json["watermark_pages"] = scheduler.watermark_pages;
  json["max_waiting"] = scheduler.max_waiting;
  json["prefix_cache"] = setup.allocator.enable_prefix_cache;
  json["trace"] = run.trace.name;
  json["trace_format"] = run.trace.format;
  json["seed"] = run.workload.seed;
  Json notes = Json::array();
  for (const std::string& note : setup.notes) notes.push_back(note);
  for (const std::string& note : run.trace.notes) notes.push_back(note);
  json["notes"] = std::move(notes);
  return json;
}

}  // namespace

std::string ResultJson(const SimulationRun& run) {
  Json json;
  AddServing(json, run);
  AddOutcomes(json, run);
  AddScheduling(json, run);
  AddStepTimes(json, run);
  json["wall_seconds"] = run.wall_seconds;
  json["speedup_over_real_time"] = run.speedup();
  json["configuration"] = Configuration(run);
  return absl::StrCat(json.dump(2), "\n");
}

}  // namespace tidewheel
