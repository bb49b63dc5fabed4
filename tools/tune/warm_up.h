// WarmUp: how much of a series to cut off in front, by MSER-5.
//
// A simulation starts with an empty server, so what it measures first is not
// what a server in operation shows. MSER-5 averages the series in batches of
// five and cuts where the standard error of the mean of what remains,
//
//   sum over i >= d of (Z_i - mean)^2 / (batches - d)^2,
//
// is smallest: a cut that removes bias narrows the estimate, one that removes
// good data widens it. Source: White, "An effective truncation heuristic for
// bias reduction in simulation output", Simulation 69(6), 1997; White, Cobb
// and Spratt, "A comparison of five steady-state truncation heuristics for
// simulation", WSC 2000, which recommends batches of five.
//
// It is not a test whether there is a steady state (stationarity.h).
//
// Thread-safety: a pure function. O(n).

#ifndef TIDEWHEEL_TOOLS_TUNE_WARM_UP_H_
#define TIDEWHEEL_TOOLS_TUNE_WARM_UP_H_

#include <cstdint>
#include <span>

namespace tidewheel {

// The observations to cut, a multiple of five, at most `max_fraction` of all.
// White allows half; less is for series whose later parts are the traffic
// itself and not a start.
//
// REQUIRES: max_fraction in [0, 0.5].
int64_t WarmUpLength(std::span<const double> series, double max_fraction);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_WARM_UP_H_
