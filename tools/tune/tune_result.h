// TuneResult: what a search found, for every report.
//
// Plain values without a judgement beyond those named here. Times are in
// milliseconds, rates in requests per second, pages as total_num_pages (the
// null page included), bytes those of one device.
//
// *Strain* is the figure that the promise is about: of one request, its
// latency as a fraction of the bound, the largest of all bounds given (1 is
// exactly on the bound; a request that did not complete has the strain
// kBrokenStrain). The promise is kept where the promised percentile of strain
// is at most 1, which is the same as: at least that share of requests keeps
// every bound.
//
// Intervals are at 95 %: see confidence_method.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_RESULT_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/serving_metrics.h"
#include "tools/serving_setup.h"
#include "tools/tune/candidate.h"
#include "tools/tune/tune_outcome.h"

namespace tidewheel {

// The pool size below which the promised percentile leaves its plateau.
struct Cliff {
  // On the plateau strain is at most plateau_strain * (1 + tolerance).
  double plateau_strain = 0;
  double tolerance = 0;
  int64_t plateau_pages = 0;  // where the plateau was measured
  // The smallest pool on the plateau that was found, and the largest below it;
  // edge - 1 == below where bisection went to the end.
  int64_t edge_pages = 0;
  int64_t below_pages = 0;
  bool has_edge = false;  // false: even the smallest pool is on the plateau
  // The smallest pool that was seen to keep the promise.
  int64_t promise_pages = 0;
  int64_t recommended_pages = 0;
  int64_t margin_pages = 0;  // recommended - edge; negative: below the plateau
  double margin_gib = 0;     // on each device
  double margin_ratio = 0;   // of the recommended pages
  double request_rate = 0;
  LoadOutcome at_edge;
  LoadOutcome below_edge;
  LoadOutcome at_recommended;
  std::vector<LoadOutcome> points;  // every size that was run, by pages
};

struct SensitivityRow {
  std::string name;    // "max_num_seqs", "request rate", "kv_read_efficiency"
  std::string change;  // "256 -> 230", "-10 %"
  bool is_refused = false;  // by the TPU; then refusal says why
  std::string refusal;
  LoadOutcome outcome;
  Estimate strain_change;  // to the recommended outcome, same requests
  bool keeps_promise = false;
};

// Candidates that were never run because the TPU refuses them.
struct Exclusion {
  std::string rule;  // as in `tidewheel check`: "oom_smem"
  int64_t count = 0;
  std::string example;  // the finding of the first
};

struct KnobReason {
  Knob knob = Knob::kPageSize;
  std::string text;
};

struct VllmFlag {
  std::string knob;  // of tidewheel
  std::string flag;  // "--block-size 32"; empty: no equivalent
  std::string note;  // may be empty
};

struct RungSummary {
  int64_t requests = 0;  // of the trace's front, in each run
  int32_t replications = 1;
  int32_t candidates = 0;
  int32_t kept = 0;
  int64_t runs = 0;
};

struct TuneResult {
  // What was asked.
  Promise promise;
  TuneObjective objective = TuneObjective::kHighestRate;
  std::optional<double> request_rate;  // given, or the trace's own
  std::string workload;                // a sentence
  ServingOptions serving;              // what all candidates share
  int32_t max_model_len = 0;
  uint64_t seed = 0;

  // What was done.
  int64_t space_size = 0;  // combinations, before exclusion
  std::vector<Exclusion> exclusions;
  std::vector<RungSummary> rungs;
  std::vector<CandidateResult> candidates;  // in the space's order
  std::string confidence_method;
  std::string warm_up_method;
  std::string stationarity_method;
  std::string search_method;
  int64_t runs = 0;
  int64_t simulated_requests = 0;
  bool interrupted = false;  // by a signal; what follows is the best so far

  // What was found.
  bool attainable = false;
  int32_t best = -1;         // has the best figure; index into candidates
  int32_t recommended = -1;  // the cheapest of those equal to it
  Resource binding = Resource::kNone;  // not attainable: what stands against it
  std::string binding_text;
  ParetoFront front;
  std::optional<Cliff> cliff;
  std::optional<LoadOutcome> base;  // the recommended one, for sensitivity
  std::vector<SensitivityRow> sensitivity;
  std::vector<KnobReason> reasons;
  std::vector<std::string> what_would_change;
  std::vector<VllmFlag> vllm_flags;
  // The recommended server, with the arithmetic of its memory (plan.capacity).
  std::optional<ServingSetup> setup;
  std::vector<std::string> notes;

  // Not part of what a seed decides.
  double wall_seconds = 0;
  double cpu_seconds = 0;
  int32_t threads = 1;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_RESULT_H_
