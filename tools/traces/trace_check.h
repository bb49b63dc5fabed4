// The invariants of a Trace, for tests, the fuzzer and generators.

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_CHECK_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_CHECK_H_

#include "absl/status/status.h"
#include "tools/traces/trace.h"

namespace tidewheel {

// OK if every request has positive lengths whose sum fits int32; segments are
// in range, not empty, and add up to the prompt; requests that wait for none
// arrive in order from time 0 on, and those that wait stand after the request
// they wait for, with a think time that is not negative; outputs are of
// distinct contents in the output space, and no prompt segment is of a content
// in the output space unless an earlier request generates it, as far as it
// does.
// Errors: Internal, naming the first request that breaks one.
absl::Status CheckTrace(const Trace& trace);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_CHECK_H_
