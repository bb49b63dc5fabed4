// Shape rules: head counts, head_dim, element types and blocks that JAX's
// kernel and a generation's compiler accept, whatever memory there is.
//
// The rules are the mechanism, read in the kernel's source (jax 0.10.2) and
// in the compiler's messages, not a list of shapes that were tried:
//  - KV heads must tile packed words without padding, else JAX refuses.
//  - head_dim must be whole vectors of 128 lanes, queries f32 or bf16.
//  - A block of some heads, not all, needs a multiple of 8 query heads.
//  - The kernel reads one head's K out of a page with a stride, and the
//    compiler strides only over rows of 128. With one row of packed words a
//    token there is no stride, and any multiple of 128 compiles.
//  - v4 can not multiply fp8; scaled K and V are converted first.
//  - A block of one token is multiplied in f32.
//
// Reach: 1,606 compiles or exports on five generations (2 more timed out), and
// 224 exports of blocks of one token.
//
// Thread-safety: pure functions. Findings allocate, nothing else does.

#ifndef TIDEWHEEL_ATTENTION_SHAPE_RULES_H_
#define TIDEWHEEL_ATTENTION_SHAPE_RULES_H_

#include <vector>

#include "attention/kernel_shape.h"
#include "attention/limit_finding.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

// Numbers that are no sizes (zero, negative, or beyond any TPU) and JAX's
// static checks. While there is one, nothing else can be computed.
std::vector<LimitFinding> CheckStatic(const KernelShape& shape);

// Every rule that the shape breaks, in the order in which a compile meets
// them: CheckStatic, then the rest only if that is empty.
std::vector<LimitFinding> CheckShape(TpuGeneration generation,
                                     const KernelShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_SHAPE_RULES_H_
