// TuneOptions: what a search is asked for.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_OPTIONS_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "tools/simulation.h"
#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/search_space.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

struct TuneOptions {
  // What all candidates share, and the promise. Its max_model_len, where
  // absent, becomes the longest request of the traffic.
  CandidateEvaluator::Options server;
  TuneObjective objective = TuneObjective::kHighestRate;
  // For the fewest pages or chips; absent: the traffic's own.
  std::optional<double> request_rate;
  SearchSpace space;
  int32_t threads = 1;
  uint64_t seed = 0;        // of the bootstrap
  int32_t resamples = 200;  // of the bootstrap
  // Asked before and during runs; true ends the search with the best so far.
  // May be empty. Called from several threads.
  std::function<bool()> should_stop;
  // Called now and then from the calling thread or another, never from two at
  // once. Requests simulated so far, of those expected in all. May be empty.
  std::function<void(const SimulationProgress&)> on_progress;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_OPTIONS_H_
