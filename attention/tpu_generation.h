// TpuGeneration: the TPU generations whose limits are known, and the memories
// that the attention kernel must fit.
//
// It is not a chip as a cost model sees it (bandwidths, rates): only sizes.
// All sizes are per TensorCore, since a kernel runs on one; v4 is meant in
// megacore mode, v7x as one of its two cores.
//
// Sources: JAX's TPU info table and messages of the TPU compiler (libtpu
// 0.0.42.1 and 0.0.52, jax 0.10.2). Each function says which.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_TPU_GENERATION_H_
#define TIDEWHEEL_ATTENTION_TPU_GENERATION_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

enum class TpuGeneration { kV4, kV5e, kV5p, kV6e, kV7x };

std::span<const TpuGeneration> AllTpuGenerations();

// "v4", "v5e", "v5p", "v6e", "v7x".
absl::string_view TpuGenerationName(TpuGeneration generation);

// The generation of a short name, of a device kind as JAX reports it
// ("TPU v5 lite", "TPU7x") or of an accelerator type ("v5litepod-8",
// "tpu7x-4"); case and a count of chips behind a '-' do not matter.
//
// Errors: InvalidArgument that lists the short names.
absl::StatusOr<TpuGeneration> ParseTpuGeneration(absl::string_view name);

// Vector memory of a core that a program can have, bytes. A larger limit is
// accepted in silence, then the compiler refuses with "Ran out of memory in
// memory space vmem".
int64_t VmemBytes(TpuGeneration generation);

// The kernel's limit where vmem_limit_bytes is absent, bytes: 16 MiB on v4,
// v5e and v5p, 32 MiB on v6e and v7x.
int64_t DefaultVmemLimitBytes(TpuGeneration generation);

// The compiler's own scratch in every kernel, bytes: 72 rows of 128 words
// where the matrix unit is 128 wide, 144 rows where it is 256 wide.
int64_t InternalScratchBytes(TpuGeneration generation);

// Scalar memory, bytes: 1 MiB on every generation here.
int64_t SmemBytes(TpuGeneration generation);

// Whether the matrix unit is 256 wide (v6e, v7x) rather than 128 (v4, v5e,
// v5p). The compiler schedules the kernel differently for the two.
bool HasWideMatrixUnit(TpuGeneration generation);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TPU_GENERATION_H_
