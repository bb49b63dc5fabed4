// VMEM rule: the vector memory that the kernel needs with a choice of blocks.
//
//   need = buffers and scratch (exact) + slots of spilled registers (a bound)
//
// Buffers and scratch are what the kernel declares, padded to tiles; in 555
// dumped compiles the sum is the compiler's to the byte. Spills are what the
// 64 vector registers of 4 KiB can not hold; which, the scheduler decides, so
// the law counts what is live at once in the kernel's inner step, and its
// weights bound what the compiler was seen to spill (vmem_rule.cc says how).
//
// It is not the compiler: it errs upwards, by a sixth in the middle and by more
// than a half at worst. A second law bounds the spills from below, so that a
// need far above the limit is a refusal for sure, and one in between says that
// it may compile.
//
// Thread-safety: pure functions. Nothing allocates but findings.

#ifndef TIDEWHEEL_ATTENTION_VMEM_RULE_H_
#define TIDEWHEEL_ATTENTION_VMEM_RULE_H_

#include <cstdint>
#include <optional>

#include "attention/kernel_shape.h"
#include "attention/limit_finding.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct VmemNeed {
  // Two blocks of KV pages: one is computed on while the other arrives.
  int64_t kv_buffers_bytes = 0;
  // Two blocks of queries and two of outputs, or one each if the grid has one
  // step. 0 where a kernel that is compiled alone has them in vector memory.
  int64_t windows_bytes = 0;
  int64_t least_windows_bytes = 0;
  // Running maximum and sum of each query row, 128 lanes wide, and the
  // accumulator; all f32.
  int64_t scratch_bytes = 0;
  // The compiler's own scratch.
  int64_t internal_bytes = 0;
  // Bounds of the register spill slots.
  int64_t spill_bytes = 0;
  int64_t least_spill_bytes = 0;

  // What it needs at most, and at least.
  int64_t total_bytes() const { return declared_bytes() + spill_bytes; }
  int64_t least_bytes() const {
    return declared_bytes() - windows_bytes + least_windows_bytes +
           least_spill_bytes;
  }
  int64_t declared_bytes() const {
    return kv_buffers_bytes + windows_bytes + scratch_bytes + internal_bytes;
  }
};

// Monotone in num_queries_per_block and in the tokens of a KV block (but for
// the drop of the windows where the last query block makes the grid a single
// step).
// REQUIRES: CheckStatic(shape) is empty.
VmemNeed ComputeVmemNeed(TpuGeneration generation, const KernelShape& shape);

// The limit that a compile has: vmem_limit_bytes or the default, at most the
// chip's.
int64_t EffectiveVmemLimitBytes(TpuGeneration generation,
                                const KernelShape& shape);

// Nothing if the need fits for sure; a finding that is not certain if it may.
// REQUIRES: CheckStatic(shape) is empty.
std::optional<LimitFinding> CheckVmem(TpuGeneration generation,
                                      const KernelShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_VMEM_RULE_H_
