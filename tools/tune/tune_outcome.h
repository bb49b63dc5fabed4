// What one candidate configuration gave under load, in a search's result.
//
// Words and units are those of tune_result.h.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_OUTCOME_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
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

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_OUTCOME_H_
