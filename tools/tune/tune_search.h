// TuneSearch: from a space of configurations to the one to run.
//
//   1. Rungs (rung_search.h): successive halving (Jamieson and Talwalkar,
//      "Non-stochastic best arm identification and hyperparameter
//      optimization", AISTATS 2016), with 4 for 2.
//   2. Intervals for those that reached the last rung. Whose interval overlaps
//      that of the best is called equal to it. Recommended is the cheapest
//      (IsCheaper) of the equal ones whose figure is within 5 % of the best:
//      wide intervals are no reason to give more away.
//   3. Of the recommended one: the cliff, sensitivity, and reasons.
//
// It prints nothing and reads no clock. Same options, same result, whatever
// the number of threads; but not where should_stop ends it.

#ifndef TIDEWHEEL_TOOLS_TUNE_TUNE_SEARCH_H_
#define TIDEWHEEL_TOOLS_TUNE_TUNE_SEARCH_H_

#include "absl/status/statusor.h"
#include "tools/tune/traffic.h"
#include "tools/tune/tune_options.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

// Errors: InvalidArgument for a space of which nothing is left, or a rate that
// can not be; those of simulations.
absl::StatusOr<TuneResult> RunTuneSearch(const TuneOptions& options,
                                         const Traffic& traffic);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_TUNE_SEARCH_H_
