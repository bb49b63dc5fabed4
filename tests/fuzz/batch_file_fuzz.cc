// Batch files from anywhere: whatever the bytes are, there is an error with a
// text or an answer of `tidewheel check --batch`, never a fault.
//
//   build/fuzz/tests/fuzz/batch_file_fuzz -max_total_time=600 corpus/
//
// Good seeds are the entries of tests/data/golden/errors.json, one a file.

#include <cstddef>
#include <cstdint>

#include "allocator/check.h"
#include "tools/batch_check.h"
#include "tools/batch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file =
      tidewheel::ParseBatchFile({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) {
    TIDEWHEEL_CHECK(!file.status().message().empty());
    return 0;
  }
  for (const auto generation :
       {tidewheel::TpuGeneration::kV4, tidewheel::TpuGeneration::kV6e}) {
    const tidewheel::BatchCheck check =
        tidewheel::CheckBatch(*file, generation);
    TIDEWHEEL_CHECK(!tidewheel::BatchCheckAsText(check).empty());
    TIDEWHEEL_CHECK(!tidewheel::BatchCheckAsJson(check).empty());
    // The dynamic checks begin with the static ones.
    TIDEWHEEL_CHECK(!check.jax_static.jax.has_value() ||
                    check.jax_static.jax == check.jax_dynamic.jax);
  }
  return 0;
}
