// EdgeSearch: where a condition that holds on one side stops holding.
//
// Bisection takes the condition to be monotone: who keeps a promise at some
// rate keeps it at a lower one, who keeps it with some pages keeps it with
// more. Where noise makes it not so, what is found is still an edge: a place
// where the condition was seen to hold beside one where it was seen not to.
//
// Distances are ratios, so midpoints are geometric.
//
// Thread-safety: pure functions of their probe.

#ifndef TIDEWHEEL_TOOLS_TUNE_EDGE_SEARCH_H_
#define TIDEWHEEL_TOOLS_TUNE_EDGE_SEARCH_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"

namespace tidewheel {

struct RateEdge {
  std::optional<double> holds;   // the highest rate seen to hold
  std::optional<double> breaks;  // the lowest rate above it seen to break
};

struct RateEdgeOptions {
  double start = 1;  // a guess
  // What breaks at the floor is given up, what holds at the cap is not
  // exceeded.
  double floor = 0;
  double cap = 0;
  double first_step = 1.2;   // away from the guess; the next are squares of it
  double resolution = 1.02;  // the largest breaks / holds at the end
};

// Steps away from the guess in growing steps until the edge is passed, then
// bisects. Errors: those of `holds`.
// REQUIRES: 0 < floor <= start <= cap; resolution > 1 and
// first_step > 1.
absl::StatusOr<RateEdge> FindHighestRate(
    const RateEdgeOptions& options,
    const std::function<absl::StatusOr<bool>(double)>& holds);

struct CountEdge {
  std::optional<int64_t> holds;   // the lowest count seen to hold
  std::optional<int64_t> breaks;  // the highest count below it seen to break
};

struct CountEdgeOptions {
  int64_t low = 1;
  int64_t high = 1;
  // Bisection ends where holds <= breaks * resolution; 1: where they are
  // neighbours.
  double resolution = 1;
};

// Errors: those of `holds`. REQUIRES: 1 <= low <= high; resolution >= 1.
absl::StatusOr<CountEdge> FindLowestCount(
    const CountEdgeOptions& options,
    const std::function<absl::StatusOr<bool>(int64_t)>& holds);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_EDGE_SEARCH_H_
