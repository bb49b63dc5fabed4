// ExplainChoice: why each knob has its value, what would change the answer, and
// how the same server is started with vLLM.
//
// Thread-safety: pure functions of a result.

#ifndef TIDEWHEEL_TOOLS_TUNE_EXPLAIN_CHOICE_H_
#define TIDEWHEEL_TOOLS_TUNE_EXPLAIN_CHOICE_H_

#include <string>
#include <vector>

#include "tools/serving_setup.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// "10.42 requests/s", "8.25 GiB", "4 chips".
std::string ObjectiveText(TuneObjective objective, double value);

// For each knob that had more than one value in the candidates: what the best
// candidate with each other value reached, on the rung that it reached.
// REQUIRES: result.recommended is set.
std::vector<KnobReason> ReasonsOfKnobs(const TuneResult& result);

// The changes that break a promise that is kept, or keep one that is broken:
// those that are sure first, then by how much they change.
std::vector<std::string> WhatWouldChange(const TuneResult& result);

// The flags of `vllm serve` (V1 engine), and which knobs have none.
std::vector<VllmFlag> VllmFlags(const ServingSetup& setup);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_EXPLAIN_CHOICE_H_
