// BindingResource: what stands against a promise that can not be kept.
//
// It looks first at requests that no load helps: ones that are refused, and
// ones that are too slow with the server to themselves. What remains is load:
// the time in which requests wait, by what the first of them lacked, or steps
// that are too long with the batch that the rate needs.

#ifndef TIDEWHEEL_TOOLS_TUNE_BINDING_RESOURCE_H_
#define TIDEWHEEL_TOOLS_TUNE_BINDING_RESOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/tune/candidate_evaluator.h"
#include "tools/tune/tune_result.h"

namespace tidewheel {

struct Binding {
  Resource resource = Resource::kNone;
  std::string text;  // value, limit and remedy
};

// "rows", "pages", "tokens a step", "compute", ...
absl::string_view ResourceName(Resource resource);

// `alone` is an outcome at a rate so low that requests seldom meet, `loaded`
// one at the rate in question; neither keeps the promise, or only `alone`.
// Errors: those of PrepareServing.
absl::StatusOr<Binding> FindBinding(const CandidateEvaluator& evaluator,
                                    const LoadOutcome& alone,
                                    const LoadOutcome& loaded);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_BINDING_RESOURCE_H_
