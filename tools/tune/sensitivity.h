// Sensitivity: what a change of 10 % does to the promise.
//
// One at a time: each knob, the rate, the lengths of prompts and outputs, and
// the constants of the cost model that matter on one device or on several.
// A page size has no 10 %: it is halved and doubled, with as many tokens in the
// pool. Admission is exchanged. Changed and unchanged server meet the same
// requests, and the interval is that of the difference, so it is narrower than
// that of either.

#ifndef TIDEWHEEL_TOOLS_TUNE_SENSITIVITY_H_
#define TIDEWHEEL_TOOLS_TUNE_SENSITIVITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/model_config.h"
#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/candidate_search.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// One change, and what is run for it.
struct Variation {
  std::string name;    // "max_num_seqs"
  std::string change;  // "128 -> 115", "+10 %"
  Candidate candidate;
  Load load;
  ConstantChange constant;
};

// All changes of `candidate` under `load`.
std::vector<Variation> Variations(const Candidate& candidate, const Load& load,
                                  bool has_several_devices);

// What `variation` does, beside `base`, the samples without it. A configuration
// that the TPU refuses is not run.
// Errors: those of CandidateEvaluator::Run.
absl::StatusOr<SensitivityRow> RunVariation(const CandidateEvaluator& evaluator,
                                            const Variation& variation,
                                            const std::vector<RunSample>& base,
                                            const ModelConfig& model,
                                            const IntervalOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_SENSITIVITY_H_
