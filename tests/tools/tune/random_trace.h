// Small random traces that reuse content in every way that a pool can be asked
// about: prompts that continue another's output, that end with a full page or
// in the middle of one, that are repeated with nothing to generate.

#ifndef TIDEWHEEL_TESTS_TOOLS_TUNE_RANDOM_TRACE_H_
#define TIDEWHEEL_TESTS_TOOLS_TUNE_RANDOM_TRACE_H_

#include <cstdint>

#include "tools/traces/trace.h"

namespace tidewheel {

// Requests one second apart, with pages of `page_size` in mind.
Trace RandomReuseTrace(uint64_t seed, int32_t page_size);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_TUNE_RANDOM_TRACE_H_
