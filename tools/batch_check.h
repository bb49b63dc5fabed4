// BatchCheck: everything that is known about one call of ragged paged
// attention before a TPU sees it.
//
// In this order: JAX's static and dynamic checks, with the verdict and the
// text of jax 0.10.2; what JAX refuses while it traces and lowers the kernel;
// the strict findings, which close what JAX leaves open; and the limits of a
// TPU generation. Later parts are asked only where the static checks pass,
// since the shapes mean nothing before.
//
// It judges one call. A server's configuration is config_check's.
//
// Thread-safety: pure functions but for the streams.

#ifndef TIDEWHEEL_TOOLS_BATCH_CHECK_H_
#define TIDEWHEEL_TOOLS_BATCH_CHECK_H_

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/contract_error.h"
#include "attention/tpu_generation.h"
#include "tools/batch_file.h"

namespace tidewheel {

// What JAX says, in the two spellings of index arrays.
struct SpelledVerdict {
  JaxVerdict jax;
  JaxVerdict numpy;
};

struct BatchCheck {
  TpuGeneration generation = TpuGeneration::kV6e;
  SpelledVerdict jax_static;
  SpelledVerdict jax_dynamic;
  // Of the call traced and lowered on that generation; begins with the static
  // checks.
  JaxVerdict jax_trace;
  std::vector<std::string> trace;   // what it means, at most one
  std::vector<std::string> strict;  // findings
  std::vector<std::string> limits;  // findings

  bool holds() const;
};

BatchCheck CheckBatch(const BatchFile& file, TpuGeneration generation);

// A table for the terminal; the keys of JSON are jax_static, jax_dynamic,
// jax_trace (each passes, exception, message; the first two with `numpy`
// beside, where the array library matters), trace, strict, limits (lists),
// chip and holds.
std::string BatchCheckAsText(const BatchCheck& check);
std::string BatchCheckAsJson(const BatchCheck& check);

struct BatchCheckOptions {
  std::string path;
  std::string chip = "v6e";
  bool json = false;
};

// Prints the check to `out`. Returns 0 if all holds, 1 if something does not,
// and 2 with the reason on `err` where the file or the chip cannot be used.
int RunBatchCheck(const BatchCheckOptions& options, std::FILE* out,
                  std::FILE* err);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_BATCH_CHECK_H_
