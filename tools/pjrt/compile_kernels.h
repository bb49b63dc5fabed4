// The jobs of a folder that tools/export_tpu_kernel.py wrote.
//
// Thread-safety: pure functions, but for reading the folder.

#ifndef TIDEWHEEL_TOOLS_PJRT_COMPILE_KERNELS_H_
#define TIDEWHEEL_TOOLS_PJRT_COMPILE_KERNELS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/tpu_generation.h"
#include "tools/pjrt/compile_job.h"

namespace tidewheel {

// A job for each artifact of the folder, or for those of one generation.
//
// Errors: those of KernelLibrary::Load; NotFound if there is none of that
// generation.
absl::StatusOr<std::vector<CompileJob>> JobsOfKernels(
    const std::string& folder, std::optional<TpuGeneration> generation);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_COMPILE_KERNELS_H_
