// ParetoFront: which points are not beaten in both cost and value.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_TOOLS_TUNE_PARETO_FRONT_H_
#define TIDEWHEEL_TOOLS_TUNE_PARETO_FRONT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tools/tune/tune_result.h"

namespace tidewheel {

// Two figures of which less is better.
struct CostPair {
  double first = 0;
  double second = 0;
};

// For each point the number of its front: 0 where no point is at least as good
// in both figures and better in one, 1 where only those of front 0 are, and so
// on (non-dominated sorting: Deb et al., "A fast and elitist multiobjective
// genetic algorithm: NSGA-II", IEEE Trans. Evol. Comp. 6(2), 2002). Of points
// alike the first is on the lower front. O(n log n).
std::vector<int32_t> FrontNumbers(std::span<const CostPair> points);

// Sorts the points by cost and marks those on the front.
void MarkFront(ParetoFront& front);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_PARETO_FRONT_H_
