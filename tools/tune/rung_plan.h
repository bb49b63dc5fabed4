// RungPlan: how long the runs of each rung of a search are.
//
// Each rung runs four times as many requests of a candidate as the one before,
// and the last runs all of them, in all replications. The first is not shorter
// than what an estimate of the promised percentile needs: ten requests beyond
// it. Candidates so few that nothing would be saved go to the last at once.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_TUNE_RUNG_PLAN_H_
#define TIDEWHEEL_TOOLS_TUNE_RUNG_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/tune/candidate_search.h"

namespace tidewheel {

struct RungPlanOptions {
  int64_t requests = 0;  // of a replication
  int32_t replications = 1;
  int64_t candidates = 0;
  double percentile = 99;
};

// At most three rungs, the shortest first.
std::vector<SearchRung> PlanRungs(const RungPlanOptions& options);

// Of so many candidates, those that go to the next rung: a quarter, and no
// fewer than eight.
size_t KeptOf(size_t candidates);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_RUNG_PLAN_H_
