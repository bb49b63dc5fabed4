#include "tools/tune/tune_json.h"

#include <nlohmann/json.hpp>

#include "tools/server_config_file.h"
#include "tools/tune/binding_resource.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Estimate& estimate) {
  return {{"value", estimate.value},
          {"low", estimate.low},
          {"high", estimate.high}};
}

std::string ObjectiveKey(TuneObjective objective) {
  switch (objective) {
    case TuneObjective::kHighestRate:
      return "highest_request_rate";
    case TuneObjective::kFewestPages:
      return "fewest_pages";
    case TuneObjective::kFewestChips:
      return "fewest_chips";
  }
  return "";
}

Json ToJson(const Candidate& candidate) {
  Json json;
  for (const Knob knob : AllKnobs()) {
    const std::string name(KnobName(knob));
    if (knob == Knob::kAdmission || knob == Knob::kPolicy) {
      json[name] = KnobText(candidate, knob);
    } else {
      json[name] = KnobValue(candidate, knob);
    }
  }
  return json;
}

Json ToJson(const LoadOutcome& outcome) {
  return {
      {"configuration", ToJson(outcome.candidate)},
      {"request_rate", outcome.request_rate},
      {"keeps_promise", outcome.keeps_promise},
      {"overloaded", outcome.overloaded},
      {"kept_ratio", ToJson(outcome.kept_ratio)},
      {"strain", ToJson(outcome.strain)},
      {"ttft_ms", ToJson(outcome.ttft_ms)},
      {"tpot_ms", ToJson(outcome.tpot_ms)},
      {"e2el_ms", ToJson(outcome.e2el_ms)},
      {"output_tokens_per_s", ToJson(outcome.output_tokens_per_s)},
      {"requests", outcome.requests},
      {"warm_up_requests", outcome.warm_up_requests},
      {"not_completed", outcome.not_completed},
      {"refusal", outcome.refusal},
      {"preemptions", outcome.preemptions},
      {"recomputed_tokens", outcome.recomputed_tokens},
      {"prompt_tokens", outcome.prompt_tokens},
      {"cached_tokens", outcome.cached_tokens},
      {"mean_used_pages", outcome.mean_used_pages},
      {"peak_used_pages", outcome.peak_used_pages},
      {"peak_running", outcome.peak_running},
      {"waited_for_rows", outcome.waited_for_rows},
      {"waited_for_pages", outcome.waited_for_pages},
      {"waited_for_tokens", outcome.waited_for_tokens},
  };
}

Json ToJson(const CandidateResult& result) {
  return {
      {"configuration", ToJson(result.candidate)},
      {"kv_bytes", result.kv_bytes},
      {"rungs", result.rungs},
      {"reached_last_rung", result.reached_last_rung},
      {"keeps_promise", result.keeps_promise},
      {"objective", ToJson(result.objective)},
      {"by_rung", result.by_rung},
      {"copies", result.copies},
      {"broken_at", result.broken_at},
      {"is_equal", result.is_equal},
      {"is_on_front", result.is_on_front},
      {"outcome", ToJson(result.outcome)},
  };
}

Json ToJson(const Cliff& cliff) {
  Json json = {
      {"plateau_strain", cliff.plateau_strain},
      {"tolerance", cliff.tolerance},
      {"plateau_pages", cliff.plateau_pages},
      {"has_edge", cliff.has_edge},
      {"edge_pages", cliff.edge_pages},
      {"below_pages", cliff.below_pages},
      {"promise_pages", cliff.promise_pages},
      {"recommended_pages", cliff.recommended_pages},
      {"margin_pages", cliff.margin_pages},
      {"margin_gib", cliff.margin_gib},
      {"margin_ratio", cliff.margin_ratio},
      {"request_rate", cliff.request_rate},
      {"at_recommended", ToJson(cliff.at_recommended)},
      {"at_edge", ToJson(cliff.at_edge)},
  };
  if (cliff.has_edge) json["below_edge"] = ToJson(cliff.below_edge);
  for (const LoadOutcome& point : cliff.points) {
    json["points"].push_back(ToJson(point));
  }
  return json;
}

Json ToJson(const SensitivityRow& row) {
  Json json = {{"name", row.name}, {"change", row.change}};
  if (row.is_refused) {
    json["refusal"] = row.refusal;
    return json;
  }
  json["keeps_promise"] = row.keeps_promise;
  json["strain_change"] = ToJson(row.strain_change);
  json["outcome"] = ToJson(row.outcome);
  return json;
}

Json Asked(const TuneResult& result) {
  Json bounds;
  const auto add = [&bounds](const char* name,
                             const std::optional<double>& bound) {
    if (bound.has_value()) bounds[name] = *bound;
  };
  add("ttft_ms", result.promise.bounds.ttft_ms);
  add("tpot_ms", result.promise.bounds.tpot_ms);
  add("e2el_ms", result.promise.bounds.e2el_ms);
  Json json = {{"objective", ObjectiveKey(result.objective)},
               {"bounds", bounds},
               {"percentile", result.promise.percentile},
               {"model", result.serving.model},
               {"chip", result.serving.chip},
               {"workload", result.workload},
               {"max_model_len", result.max_model_len},
               {"seed", result.seed}};
  if (result.request_rate.has_value()) {
    json["request_rate"] = *result.request_rate;
  }
  return json;
}

Json Done(const TuneResult& result) {
  Json json = {{"space_size", result.space_size},
               {"search_method", result.search_method},
               {"confidence_method", result.confidence_method},
               {"warm_up_method", result.warm_up_method},
               {"stationarity_method", result.stationarity_method},
               {"runs", result.runs},
               {"simulated_requests", result.simulated_requests},
               {"interrupted", result.interrupted}};
  json["exclusions"] = Json::array();
  for (const Exclusion& exclusion : result.exclusions) {
    json["exclusions"].push_back({{"rule", exclusion.rule},
                                  {"count", exclusion.count},
                                  {"example", exclusion.example}});
  }
  for (const RungSummary& rung : result.rungs) {
    json["rungs"].push_back({{"requests", rung.requests},
                             {"replications", rung.replications},
                             {"candidates", rung.candidates},
                             {"kept", rung.kept},
                             {"runs", rung.runs}});
  }
  return json;
}

Json Front(const ParetoFront& front) {
  Json json = {{"cost", front.cost_name},
               {"value", front.value_name},
               {"larger_is_better", front.larger_is_better},
               {"points", Json::array()}};
  for (const FrontPoint& point : front.points) {
    json["points"].push_back({{"candidate", point.candidate},
                              {"configuration", ToJson(point.settings)},
                              {"cost", point.cost},
                              {"value", point.value},
                              {"is_on_front", point.is_on_front}});
  }
  return json;
}

Json Found(const TuneResult& result) {
  Json json = {{"attainable", result.attainable},
               {"best", result.best},
               {"recommended", result.recommended}};
  if (!result.attainable) {
    json["binding"] = std::string(ResourceName(result.binding));
    json["binding_text"] = result.binding_text;
  }
  if (result.setup.has_value()) {
    json["configuration"] = Json::parse(ServerConfigJson(
        ConfigOf(*result.setup, result.serving.model, result.serving.chip)));
  }
  if (result.base.has_value()) json["outcome"] = ToJson(*result.base);
  json["front"] = Front(result.front);
  if (result.cliff.has_value()) json["cliff"] = ToJson(*result.cliff);
  json["sensitivity"] = Json::array();
  for (const SensitivityRow& row : result.sensitivity) {
    json["sensitivity"].push_back(ToJson(row));
  }
  for (const KnobReason& reason : result.reasons) {
    json["reasons"][std::string(KnobName(reason.knob))] = reason.text;
  }
  json["what_would_change"] = result.what_would_change;
  for (const VllmFlag& flag : result.vllm_flags) {
    json["vllm"].push_back(
        {{"knob", flag.knob}, {"flag", flag.flag}, {"note", flag.note}});
  }
  json["notes"] = result.notes;
  return json;
}

}  // namespace

std::string TuneJson(const TuneResult& result) {
  Json json;
  json["asked"] = Asked(result);
  json["found"] = Found(result);
  json["search"] = Done(result);
  json["candidates"] = Json::array();
  for (const CandidateResult& candidate : result.candidates) {
    json["candidates"].push_back(ToJson(candidate));
  }
  json["work"] = {{"wall_seconds", result.wall_seconds},
                  {"cpu_seconds", result.cpu_seconds},
                  {"threads", result.threads}};
  return json.dump(1) + "\n";
}

}  // namespace tidewheel
