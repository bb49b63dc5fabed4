#include "tools/simulate_flags.h"

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "tools/flag_values.h"
#include "tools/traces/trace_format.h"

namespace tidewheel {
namespace {

void AddPolicyFlags(CLI::App& command, SimulateFlags& flags) {
  constexpr const char* kGroup = "Scheduling";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  group(command.add_option("--policy", flags.policy, "fcfs or priority")
            ->capture_default_str());
  group(command
            .add_option("--admission", flags.admission,
                        "optimistic (pages for what is known) or reserve "
                        "(pages for the longest that may come)")
            ->capture_default_str());
  group(command
            .add_option("--watermark", flags.serving.watermark,
                        "Fraction of pages that optimistic admission leaves "
                        "for growth, in [0, 1)")
            ->capture_default_str());
  group(command.add_flag("--no-prefix-cache", flags.no_prefix_cache,
                         "Share no pages"));
  group(command.add_flag("--no-chunked-prefill", flags.no_chunked_prefill,
                         "Run each prompt in one step, or refuse it"));
  group(command.add_option("--max-prefill-chunk", flags.max_prefill_chunk,
                           "Tokens of one prompt in one step (default: no "
                           "such bound)"));
  group(command.add_option("--max-waiting", flags.max_waiting,
                           "Requests that may wait; more are refused "
                           "(default: no such bound)"));
}

void AddBuiltinFlags(CLI::App& command, SimulateFlags& flags) {
  constexpr const char* kGroup = "Built-in workload";
  BuiltinWorkloadOptions& builtin = flags.workload.builtin;
  const auto add = [&](const char* name, auto& value, const char* text) {
    command.add_option(name, value, text)
        ->group(kGroup)
        ->each([&flags, name](const std::string&) {
          flags.given_builtin_flags.push_back(name);
        });
  };
  add("--input-len", flags.input_len,
      "Prompt tokens (default: as in the Azure 2023 conversation trace)");
  add("--output-len", flags.output_len, "Output tokens (default: likewise)");
  add("--range-ratio", flags.range_ratio,
      "With these lengths: each way by so much, in [0, 1)");
  add("--prefixes", builtin.shared_prefixes.count,
      "Shared prefixes (default: 0)");
  add("--prefix-len", builtin.shared_prefixes.tokens, "Tokens of a prefix");
  add("--prefix-zipf", builtin.shared_prefixes.zipf_exponent,
      "Skew of their popularity (default: 1)");
  add("--session-turns", builtin.sessions.mean_turns,
      "Mean turns of a session (default: 1, no sessions)");
  add("--session-max-turns", builtin.sessions.max_turns,
      "Most turns of a session (default: 20)");
  add("--think-time", builtin.sessions.mean_think_time_s,
      "Mean seconds from a turn's end to the next turn (default: 30)");
  add("--turn-len", builtin.sessions.mean_turn_tokens,
      "Mean new tokens of a later turn (default: 128)");
}

void AddTraceFlags(CLI::App& command, SimulateFlags& flags) {
  constexpr const char* kGroup = "Load";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  WorkloadChoice& workload = flags.workload;
  group(command.add_option("--trace", workload.trace_file,
                           "Trace to replay: Azure, Vidur or BurstGPT CSV, "
                           "Mooncake JSONL (default: a built-in workload)"));
  group(command
            .add_option("--trace-format", flags.trace_format,
                        "detect, azure, mooncake, vidur or burstgpt")
            ->capture_default_str());
  group(command.add_flag("--spread-ticks", workload.read.spread_ticks,
                         "Spread the requests of one timestamp over the gap "
                         "to the next"));
  group(command.add_flag("--skip-zero-lengths", flags.skip_zero_lengths,
                         "Leave out rows without prompt or output tokens"));
  group(command.add_option("--num-prompts", workload.num_prompts,
                           "Requests (default: all of a trace; 1000)"));
  group(command.add_option("--request-rate", workload.request_rate,
                           "Requests per second, or inf (default: a trace's "
                           "own times; 5.53)"));
  group(command.add_option("--burstiness", workload.burstiness,
                           "Shape of the gamma distribution of gaps; 1: "
                           "Poisson, inf: constant"));
  group(command
            .add_option("--time-scale", workload.time_scale,
                        "Multiplies a trace's own times")
            ->capture_default_str());
  group(command.add_option("--seed", workload.seed, "Of all randomness")
            ->capture_default_str());
}

void AddClientFlags(CLI::App& command, SimulateFlags& flags) {
  constexpr const char* kGroup = "Load";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  group(command.add_option("--max-concurrency", flags.max_concurrency,
                           "Requests in flight; the next is sent when one "
                           "ends (default: no limit)"));
  group(command.add_option("--declared-max-new-tokens", flags.declared,
                           "What requests declare: N (at least), xF (times "
                           "the true length) or none (default: the true "
                           "length)"));
}

void AddReportFlags(CLI::App& command, SimulateFlags& flags) {
  constexpr const char* kGroup = "Reports";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  group(command.add_option("--goodput", flags.goodput,
                           "Latencies of a good request, ms: ttft:500 "
                           "tpot:50 e2el:2000"));
  group(command
            .add_option("--percentile-metrics", flags.percentile_metrics,
                        "Latencies to report")
            ->capture_default_str());
  group(command
            .add_option("--metric-percentiles", flags.metric_percentiles,
                        "Percentiles to report")
            ->capture_default_str());
  group(command.add_option("--save-result", flags.result_file,
                           "Write the figures as JSON"));
  group(command.add_option("--per-request", flags.request_file,
                           "Write a CSV line for each request"));
  group(command.add_option("--per-step", flags.step_file,
                           "Write a CSV line for each step"));
  group(command.add_option("--report", flags.report_file,
                           "Write a page with tables and charts as HTML"));
  group(command.add_option("--timeline", flags.timeline_file,
                           "Write what each request waited for and did, for "
                           "ui.perfetto.dev"));
  group(command.add_option("--timeline-requests", flags.timeline_requests,
                           "Requests of the timeline: all, N (the first), or "
                           "a list as 17, or 3,40-59 (default: 1000)"));
  group(command.add_flag("--quiet", flags.quiet,
                         "Print the figures alone: no header, no progress"));
}

absl::Status CheckAtLeastOne(absl::string_view flag,
                             const std::optional<int32_t>& value) {
  if (!value.has_value() || *value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", *value,
                   " is below 1; give at least 1, or leave the flag out"));
}

}  // namespace

void AddServerFlags(CLI::App& command, SimulateFlags& flags) {
  ServingOptions& serving = flags.serving;
  ServerPlanOptions& plan = serving.plan;
  constexpr const char* kGroup = "Server";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  group(command
            .add_option("--model", serving.model,
                        "Built-in name, Hugging Face config.json, or its "
                        "folder")
            ->capture_default_str());
  group(command.add_option("--chip", serving.chip, "v4, v5e, v5p, v6e or v7x")
            ->capture_default_str());
  group(command
            .add_option("--chips", plan.chips,
                        "Chips that share one copy of the model")
            ->capture_default_str());
  group(command
            .add_option("--kv-dtype", flags.kv_dtype,
                        "auto (bf16), f32, bf16, fp8_e4m3, fp8_e5m2 or int8")
            ->capture_default_str());
  group(command.add_option("--page-size", plan.page_size,
                           "Tokens of a page (default: the smallest power of "
                           "two from 16 whose page table fits scalar memory)"));
  group(command.add_option("--num-pages", plan.total_num_pages,
                           "Pages, the null page included, whatever the "
                           "memory (default: all that fit)"));
  group(command
            .add_option("--hbm-utilization", plan.hbm_utilization,
                        "Fraction of a chip's whole HBM to use, in (0, 1]")
            ->capture_default_str());
  group(command
            .add_option("--max-num-seqs", plan.max_num_seqs,
                        "Sequences that run at once")
            ->capture_default_str());
  // What sglang-jax's published TPU results use (its chunk of prefill).
  group(command
            .add_option("--max-num-batched-tokens", plan.max_num_batched_tokens,
                        "Query tokens of a step")
            ->capture_default_str());
  group(command.add_option("--max-model-len", plan.max_model_len,
                           "Tokens of the longest request (default: the "
                           "model's own, or what the pool holds)"));
  group(command.add_flag("--no-smem-limit", flags.no_smem_limit,
                         "Allow page tables that no TPU's scalar memory "
                         "holds"));
  group(command.add_option("--cost-model", serving.cost_constants_file,
                           "JSON file that overrides constants of the cost "
                           "model"));
}

void AddWorkloadFlags(CLI::App& command, SimulateFlags& flags) {
  AddTraceFlags(command, flags);
  AddBuiltinFlags(command, flags);
}

void AddSimulateFlags(CLI::App& command, SimulateFlags& flags) {
  command
      .add_option("--config", flags.config_file,
                  "Server from a file, as tune --output writes it; flags "
                  "given beside it win")
      ->group("Server");
  AddServerFlags(command, flags);
  AddPolicyFlags(command, flags);
  AddWorkloadFlags(command, flags);
  AddClientFlags(command, flags);
  AddReportFlags(command, flags);
}

absl::Status ResolveServer(const SimulateFlags& flags,
                           SimulateOptions& options) {
  ServingOptions& serving = options.serving;
  serving = flags.serving;
  if (flags.kv_dtype != "auto") {
    TIDEWHEEL_ASSIGN_OR_RETURN(serving.plan.kv_dtype,
                               ParseKvDtype(flags.kv_dtype));
  }
  if (flags.no_smem_limit) serving.plan.smem_bytes.reset();
  serving.prefix_cache = !flags.no_prefix_cache;
  SchedulerOptions& scheduler = serving.scheduler;
  TIDEWHEEL_ASSIGN_OR_RETURN(scheduler.policy,
                             ParseOrderingPolicy(flags.policy));
  TIDEWHEEL_ASSIGN_OR_RETURN(scheduler.admission,
                             ParseAdmissionPolicy(flags.admission));
  scheduler.chunked_prefill = !flags.no_chunked_prefill;
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeastOne("--max-prefill-chunk", flags.max_prefill_chunk));
  scheduler.max_prefill_chunk = flags.max_prefill_chunk.value_or(0);
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeastOne("--max-waiting", flags.max_waiting));
  options.has_max_waiting = flags.max_waiting.has_value();
  if (options.has_max_waiting) scheduler.max_waiting = *flags.max_waiting;
  return absl::OkStatus();
}

absl::Status ResolveWorkload(const SimulateFlags& flags,
                             SimulateOptions& options) {
  WorkloadChoice& workload = options.workload;
  workload = flags.workload;
  TIDEWHEEL_ASSIGN_OR_RETURN(workload.read.format,
                             TraceFormatFromName(flags.trace_format));
  if (flags.skip_zero_lengths) {
    workload.read.zero_lengths = ZeroLengths::kSkip;
  }
  if (!workload.trace_file.empty() && !flags.given_builtin_flags.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        absl::StrJoin(flags.given_builtin_flags, ", "),
        " shapes the built-in workload, but --trace ", workload.trace_file,
        " brings its own requests; leave one of the two out"));
  }
  if (flags.input_len.has_value() != flags.output_len.has_value()) {
    return absl::InvalidArgumentError(
        "--input-len and --output-len go together; give both or neither");
  }
  if (flags.range_ratio.has_value() && !flags.input_len.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--range-ratio ", *flags.range_ratio,
                     " varies --input-len and --output-len; give them too"));
  }
  if (flags.input_len.has_value()) {
    workload.builtin.fixed_lengths = {
        .input_tokens = *flags.input_len,
        .output_tokens = *flags.output_len,
        .range_ratio = flags.range_ratio.value_or(0),
    };
  }
  return absl::OkStatus();
}

absl::StatusOr<SimulateOptions> ResolveSimulateFlags(
    const SimulateFlags& flags) {
  SimulateOptions options;
  TIDEWHEEL_RETURN_IF_ERROR(ResolveServer(flags, options));
  TIDEWHEEL_RETURN_IF_ERROR(ResolveWorkload(flags, options));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckAtLeastOne("--max-concurrency", flags.max_concurrency));
  options.simulation.max_concurrency = flags.max_concurrency.value_or(0);
  if (!flags.declared.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(options.simulation.declared,
                               ParseDeclaredTokens(flags.declared));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(options.metrics.goodput,
                             ParseGoodput(flags.goodput));
  TIDEWHEEL_ASSIGN_OR_RETURN(options.shown,
                             ParsePercentileMetrics(flags.percentile_metrics));
  TIDEWHEEL_ASSIGN_OR_RETURN(options.metrics.percentiles,
                             ParsePercentiles(flags.metric_percentiles));
  options.result_file = flags.result_file;
  options.request_file = flags.request_file;
  options.step_file = flags.step_file;
  options.report_file = flags.report_file;
  options.timeline_file = flags.timeline_file;
  if (!flags.timeline_requests.empty()) {
    if (flags.timeline_file.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--timeline-requests ", flags.timeline_requests,
                       " chooses tracks of a timeline; give --timeline FILE "
                       "too, or leave it out"));
    }
    TIDEWHEEL_ASSIGN_OR_RETURN(
        options.timeline_requests,
        TimelineRequests::Parse(flags.timeline_requests));
  }
  options.quiet = flags.quiet;
  return options;
}

}  // namespace tidewheel
