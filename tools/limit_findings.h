// LimitFindings: what a TPU generation says to one call, beyond JAX's checks.
//
// The bridge from a call as a file describes it (dtypes by name, options that
// may be absent) to attention/tpu_limits. Where block sizes are absent it asks
// about the ones that JAX would choose on that generation, since those run.
// Mask values that the TPU kernel answers wrongly are named here too.
//
// Thread-safety: pure functions. They allocate.

#ifndef TIDEWHEEL_TOOLS_LIMIT_FINDINGS_H_
#define TIDEWHEEL_TOOLS_LIMIT_FINDINGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "attention/contract.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

// The device kind that JAX reports there: "TPU v6 lite".
absl::string_view DeviceKind(TpuGeneration generation);

// One sentence each, with value, limit and remedy; empty if all holds.
// REQUIRES: the static checks pass.
std::vector<std::string> LimitFindings(const ContractInputs& inputs,
                                       const ContractOptions& options,
                                       TpuGeneration generation);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_LIMIT_FINDINGS_H_
