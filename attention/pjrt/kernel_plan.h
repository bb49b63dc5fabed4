// KernelPlan: the sizes that a server's programs are compiled for, so that its
// ahead-of-time kernels fit them.
//
// A kernel has its own number of tokens and its own page table, at least as
// large as asked for. All programs of a step share one table on the device, so
// its size is that of the kernel for the largest batch, and kernels with
// another table are not used.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_PJRT_KERNEL_PLAN_H_
#define TIDEWHEEL_ATTENTION_PJRT_KERNEL_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/padding_buckets.h"
#include "attention/pjrt/kernel_library.h"
#include "attention/stablehlo/attention_program_shape.h"
#include "attention/stablehlo/step_program.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct KernelPlan {
  // Increasing; the last one covers max_num_batched_tokens.
  std::vector<int32_t> token_buckets;
  TableShape table;
};

// What a kernel for `shape` must have.
KernelNeed KernelNeedOf(const AttentionProgramShape& shape,
                        TpuGeneration generation);

// Without a library (null): the buckets of `tokens` and the table of `shape`.
// Else the kernels' own numbers of tokens as well.
//
// Errors: those of TokenBuckets.
absl::StatusOr<KernelPlan> PlanKernels(const AttentionProgramShape& shape,
                                       const TokenBucketOptions& tokens,
                                       const KernelLibrary* library,
                                       TpuGeneration generation);

// Whether it is worth a compile, which takes minutes where blocks are far too
// large. A kernel that may compile is.
// Errors: FailedPrecondition, with the rule, the need and the limit, where
// tpu_limits is certain that the kernel does not compile with its blocks.
absl::Status CheckKernelFits(const KernelArtifact& artifact);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_KERNEL_PLAN_H_
