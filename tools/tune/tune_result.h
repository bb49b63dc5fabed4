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

namespace tidewheel {

// The strain of a request that was refused or cut short, and the most that
// any request is given: beyond this, how late is late does not matter.
inline constexpr double kBrokenStrain = 1000;

// A figure with its interval; low <= value <= high.
struct Estimate {
  double value = 0;
  double low = 0;
  double high = 0;

  bool Overlaps(const Estimate& other) const {
    return low <= other.high && other.low <= high;
  }
};

struct Promise {
  GoodputTargets bounds;   // at least one
  double percentile = 99;  // of requests that keep all bounds, at least
};

enum class TuneObjective {
  kHighestRate,  // on the given chips
  kFewestPages,  // at a given rate
  kFewestChips,  // at a given rate; copies of the model included
};

// What requests wait for, or what makes steps long.
enum class Resource {
  kNone,
  kRows,             // max_num_seqs
  kPages,            // of the pool
  kTokens,           // max_num_batched_tokens
  kCompute,          // a prefill alone takes longer than the bound
  kMemoryBandwidth,  // a step of one sequence takes longer than the bound
  kOverhead,         // constants a step
  kSequenceLength,   // requests longer than max_model_len or the pool
  kStepTime,         // steps with the batch that the rate needs are too long
};

// One configuration under one load.
struct LoadOutcome {
  Candidate candidate;
  double request_rate = 0;  // that one copy of the model gets
  bool keeps_promise = false;
  // Not stationary: the queue grows to the end. The figures below then say
  // nothing about a longer run.
  bool overloaded = false;
  Estimate kept_ratio;  // of requests, those that keep every bound
  Estimate strain;      // its promised percentile
  // The promised percentile of each latency.
  Estimate ttft_ms;
  Estimate tpot_ms;
  Estimate e2el_ms;
  Estimate output_tokens_per_s;
  // Of the whole run.
  int64_t requests = 0;
  int64_t warm_up_requests = 0;  // cut off in front
  int64_t not_completed = 0;
  std::string refusal;  // of the first request that was refused
  int64_t preemptions = 0;
  int64_t recomputed_tokens = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  double mean_used_pages = 0;  // fraction of the pool, while steps ran
  double peak_used_pages = 0;
  int32_t peak_running = 0;
  // Fractions of the time in which steps ran: with requests that wait, by what
  // the first of them lacked.
  double waited_for_rows = 0;
  double waited_for_pages = 0;
  double waited_for_tokens = 0;
};

// How far a candidate came.
struct CandidateResult {
  Candidate candidate;
  int64_t kv_bytes = 0;  // of the pool, on each device
  // Rungs of the search that it ran in, from 1; only those that reached the
  // last have intervals and can be recommended.
  int32_t rungs = 0;
  bool reached_last_rung = false;
  // The objective on each rung that it ran in; 0 where it kept no promise.
  // Figures of different rungs do not compare: shorter runs, other requests.
  std::vector<double> by_rung;
  bool keeps_promise = false;  // at some load, on the last rung it ran in
  // What the objective counts: requests per second of one copy, GiB of KV on
  // all devices, or chips of all copies. Without reached_last_rung
  // low = value = high.
  Estimate objective;
  // Fewest chips: copies of the model, each on candidate.chips.
  int32_t copies = 1;
  // Seen to break the promise: a rate above, or a pool below, the best; 0: none
  // was.
  double broken_at = 0;
  LoadOutcome outcome;    // at its best load, on the last rung it ran in
  bool is_equal = false;  // to the best: their intervals overlap
  bool is_on_front = false;
};

// A point of what can be had for what: more of `benefit`, or less of `cost`.
struct FrontPoint {
  int32_t candidate = 0;  // index into candidates
  Candidate settings;
  double cost = 0;   // GiB of KV of all devices; fewest chips: chips
  double value = 0;  // requests per second, or strain (smaller is better)
  bool is_on_front = false;
};

struct ParetoFront {
  std::string cost_name;   // "KV cache, GiB"
  std::string value_name;  // "requests/s"
  bool larger_is_better = true;
  std::vector<FrontPoint> points;  // by cost
};

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
  int64_t margin_pages = 0;  // recommended - edge; negative: beyond the edge
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
