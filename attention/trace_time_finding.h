// TraceTimeFinding: why JAX refuses a call while it traces or lowers it, in
// words that name the value, the limit and the remedy.
//
// Half of JAX's refusals there are assertions without a text, and the rest
// speak of blocks and vectors that the caller never named. The verdict itself
// is CheckLowering's.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_TRACE_TIME_FINDING_H_
#define TIDEWHEEL_ATTENTION_TRACE_TIME_FINDING_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "attention/contract.h"

namespace tidewheel {

// Absent where the call traces and lowers.
// REQUIRES: the static checks pass.
std::optional<std::string> TraceTimeFinding(const ContractInputs& inputs,
                                            const ContractOptions& options,
                                            absl::string_view device_kind);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TRACE_TIME_FINDING_H_
