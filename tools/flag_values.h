// Flag values that are more than a number, from the text that a user gives.
//
// Each reader says in its error which value, what is allowed, and what to give
// instead.

#ifndef TIDEWHEEL_TOOLS_FLAG_VALUES_H_
#define TIDEWHEEL_TOOLS_FLAG_VALUES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/report/serving_metrics.h"
#include "tools/simulation.h"
#include "tools/simulation_run.h"

namespace tidewheel {

// "ttft:500", "tpot:50", "e2el:2000", in milliseconds, each name once.
// Errors: InvalidArgument.
absl::StatusOr<GoodputTargets> ParseGoodput(
    const std::vector<std::string>& targets);

// Of ttft, tpot, itl and e2el, separated by commas.
// Errors: InvalidArgument.
absl::StatusOr<ShownMetrics> ParsePercentileMetrics(absl::string_view names);

// Numbers in [0, 100], separated by commas.
// Errors: InvalidArgument.
absl::StatusOr<std::vector<double>> ParsePercentiles(absl::string_view text);

// "4096": at least so many; "x1.5": so many times the true length; "none":
// undeclared.
// Errors: InvalidArgument.
absl::StatusOr<DeclaredTokens> ParseDeclaredTokens(absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_FLAG_VALUES_H_
