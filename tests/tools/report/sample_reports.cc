#include "tests/tools/report/sample_reports.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include "allocator/check.h"
#include "tests/temporary_folder.h"
#include "tools/output_file.h"
#include "tools/report/run_report.h"
#include "tools/tune/tune_page.h"
#include "tools/workload/builtin_workload.h"

namespace tidewheel {
namespace {

Trace MakeTrace(const std::string& name, int64_t requests) {
  BuiltinWorkloadOptions options;
  options.num_requests = requests;
  options.request_rate = 20;
  options.fixed_lengths = FixedLengths{
      .input_tokens = 200, .output_tokens = 40, .range_ratio = 0.5};
  options.shared_prefixes = {.count = 12, .tokens = 400, .zipf_exponent = 1};
  options.seed = 5;
  absl::StatusOr<Trace> trace = GenerateBuiltinWorkload(options);
  TIDEWHEEL_CHECK(trace.ok());
  trace->name = name;
  return *std::move(trace);
}

ServingOptions SmallServer() {
  ServingOptions serving;
  serving.model = "qwen3-0.6b";
  serving.plan.page_size = 32;
  serving.plan.total_num_pages = 160;
  serving.plan.max_num_seqs = 16;
  serving.plan.max_num_batched_tokens = 512;
  serving.plan.max_model_len = 1024;
  serving.scheduler.max_waiting = 30;
  return serving;
}

Estimate Around(double value) { return {value, value * 0.95, value * 1.07}; }

LoadOutcome OutcomeAt(const Candidate& candidate, double strain) {
  LoadOutcome outcome;
  outcome.candidate = candidate;
  outcome.request_rate = 5.5;
  outcome.keeps_promise = strain <= 1;
  outcome.kept_ratio = {0.99, 0.985, 0.993};
  outcome.strain = Around(strain);
  outcome.ttft_ms = Around(500 * strain);
  outcome.tpot_ms = Around(31.4);
  outcome.e2el_ms = Around(9876.5);
  outcome.output_tokens_per_s = Around(4321);
  outcome.preemptions = strain > 1 ? 4812 : 12;
  outcome.recomputed_tokens = outcome.preemptions * 731;
  outcome.mean_used_pages = 0.81;
  outcome.waited_for_pages = 0.25;
  return outcome;
}

void AddCandidates(TuneResult& result) {
  for (const int32_t rows : {32, 64, 128, 256}) {
    for (const int64_t pages : {1500, 3000, 6000, 9000}) {
      CandidateResult one;
      one.candidate = {.page_size = 32,
                       .total_num_pages = pages,
                       .max_num_seqs = rows,
                       .max_num_batched_tokens = 2048,
                       .watermark_pages = static_cast<int32_t>(pages / 100)};
      one.reached_last_rung = one.keeps_promise = pages > 1500;
      one.objective = Around(std::sqrt(static_cast<double>(rows)) +
                             static_cast<double>(pages) / 4000);
      one.outcome = OutcomeAt(one.candidate, 0.9);
      one.is_on_front = rows == 256;
      result.front.points.push_back(
          {static_cast<int32_t>(result.candidates.size()), one.candidate,
           static_cast<double>(pages) / 1000, one.objective.value,
           one.is_on_front});
      result.candidates.push_back(std::move(one));
    }
  }
  result.front.cost_name = "KV cache, GiB";
  result.front.value_name = "requests/s";
  result.best = static_cast<int32_t>(result.candidates.size()) - 1;
  result.recommended = result.best - 1;
}

void AddCliff(TuneResult& result) {
  Cliff cliff;
  cliff.plateau_strain = 0.62;
  cliff.tolerance = 0.05;
  cliff.plateau_pages = 9000;
  cliff.edge_pages = 5688;
  cliff.below_pages = 5687;
  cliff.has_edge = true;
  cliff.promise_pages = 5600;
  cliff.recommended_pages = 6000;
  cliff.margin_pages = 312;
  cliff.margin_gib = 1.9;
  cliff.margin_ratio = 0.052;
  cliff.request_rate = 5.5;
  const Candidate& base = result.candidates[result.recommended].candidate;
  for (const auto& [pages, strain] :
       std::vector<std::pair<int64_t, double>>{{4000, 410},
                                               {4800, 38},
                                               {5400, 6.1},
                                               {5600, 0.98},
                                               {5687, 0.7},
                                               {5688, 0.65},
                                               {6000, 0.63},
                                               {7500, 0.62},
                                               {9000, 0.62}}) {
    Candidate candidate = base;
    candidate.total_num_pages = pages;
    cliff.points.push_back(OutcomeAt(candidate, strain));
  }
  cliff.below_edge = cliff.points[4];
  cliff.at_edge = cliff.points[5];
  cliff.at_recommended = cliff.points[6];
  result.cliff = std::move(cliff);
}

void AddSensitivity(TuneResult& result) {
  const Candidate& base = result.candidates[result.recommended].candidate;
  for (const auto& [name, change, effect] :
       std::vector<std::tuple<const char*, const char*, double>>{
           {"total_num_pages", "6000 -> 5400", 5.4},
           {"request rate", "+10 %", 0.51},
           {"request rate", "-10 %", -0.2},
           {"max_num_seqs", "256 -> 230", 0.02},
           {"kv_read_efficiency", "-10 %", 0.11}}) {
    SensitivityRow row;
    row.name = name;
    row.change = change;
    row.outcome = OutcomeAt(base, 0.63 + effect);
    row.strain_change = {effect, effect - 0.05, effect + 0.08};
    row.keeps_promise = 0.63 + effect <= 1;
    result.sensitivity.push_back(std::move(row));
  }
  SensitivityRow refused;
  refused.name = "max_num_seqs";
  refused.change = "256 -> 282";
  refused.is_refused = true;
  refused.refusal = "the page table exceeds scalar memory";
  result.sensitivity.push_back(std::move(refused));
}

std::string Written(const std::function<void(OutputFile&)>& write) {
  const TemporaryFolder folder;
  const std::string path = folder.File("report.html");
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  TIDEWHEEL_CHECK(file.ok());
  write(*file);
  TIDEWHEEL_CHECK(file->Close().ok());
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

SampleRun MakeSampleRun(const std::string& trace_name) {
  Trace trace = MakeTrace(trace_name, 60);
  // Some come at once, and are refused because too many wait.
  for (size_t i = 0; i < 45; ++i) trace.requests[i].arrival_us = 0;
  absl::StatusOr<ServingSetup> setup = PrepareServing(SmallServer());
  TIDEWHEEL_CHECK(setup.ok());
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = setup->MakeScheduler();
  TIDEWHEEL_CHECK(scheduler.ok());
  SimulatedRunner runner = setup->MakeRunner();
  SampleRun sample = {
      .run = {.setup = *std::move(setup),
              .workload = {},
              .trace = std::move(trace),
              .simulation = {},
              .metrics_options = {.percentiles = {90, 99},
                                  .goodput = {.ttft_ms = 500, .tpot_ms = 50}},
              .shown = {},
              .result = {},
              .metrics = {}},
      .page = ""};
  SimulationRun& run = sample.run;
  RunSeries series;
  SimulationOptions simulation;
  simulation.on_step = [&](const StepRecord& step) { series.OnStep(step); };
  simulation.on_idle = [&](const IdleRecord& idle) { series.OnIdle(idle); };
  absl::StatusOr<SimulationResult> result =
      RunSimulation(run.trace, simulation, **scheduler, runner);
  TIDEWHEEL_CHECK(result.ok());
  run.result = *std::move(result);
  run.metrics = ComputeMetrics(run.result, run.metrics_options);
  sample.page = RunReport(run, series);
  return sample;
}

CurveRun MakeSampleCurve(const std::string& trace_name) {
  CurveOptions options;
  options.serving = SmallServer();
  options.has_server = true;
  absl::StatusOr<CurveRun> run = MakeCurve(MakeTrace(trace_name, 400), options);
  TIDEWHEEL_CHECK(run.ok());
  return *std::move(run);
}

TuneResult MakeSampleResult(const std::string& workload) {
  TuneResult result;
  result.promise.bounds = {.ttft_ms = 500, .tpot_ms = 50};
  result.request_rate = 5.53;
  result.workload = workload;
  result.space_size = 240;
  result.exclusions = {{"oom_smem", 12, "the page table needs 2 MiB"}};
  result.rungs = {{500, 1, 228, 57, 228}, {4000, 3, 57, 16, 171}};
  result.confidence_method = "batch means at 95 %";
  result.runs = 399;
  result.simulated_requests = 798000;
  result.attainable = true;
  AddCandidates(result);
  AddCliff(result);
  AddSensitivity(result);
  result.reasons = {{Knob::kMaxNumSeqs, "128 reaches 12.81 requests/s"}};
  result.what_would_change = {"10 % fewer pages: the promise breaks"};
  result.vllm_flags = {{"page_size", "--block-size 32", ""},
                       {"admission", "", "vLLM admits optimistically"}};
  absl::StatusOr<ServingSetup> setup = PrepareServing(SmallServer());
  TIDEWHEEL_CHECK(setup.ok());
  result.setup = *std::move(setup);
  return result;
}

std::string TunePage(const TuneResult& result, const CurveRun* curve) {
  return Written(
      [&](OutputFile& file) { WriteTuneReport(result, curve, file); });
}

std::string CurvePage(const CurveRun& run) {
  return Written([&](OutputFile& file) { WriteCurveReport(run, file); });
}

}  // namespace tidewheel
