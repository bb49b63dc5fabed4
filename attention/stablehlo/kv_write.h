// EmitKvWrite: the part of a program that puts this step's K and V into pages.
//
// K and V of the pool's type are moved as they are. Others are divided by their
// scale, clamped if the pool holds 8 bits, and rounded to nearest even, the
// way StoreScalar does. The quotient may differ from a division's in its last
// bit: XLA and LLVM multiply by the reciprocal and see through whatever hides
// that the scale is a constant. A scale that is a power of two is exact.
//
// Thread-safety: a pure function.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_KV_WRITE_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_KV_WRITE_H_

#include "attention/stablehlo/attention_program_shape.h"
#include "attention/stablehlo/batch_values.h"
#include "attention/stablehlo/program_builder.h"

namespace tidewheel {

// `kv_pages` with k and v, [num_tokens, num_kv_heads, head_dim], in the slots
// of their tokens; padding tokens are written nowhere.
Value EmitKvWrite(ProgramBuilder& b, const AttentionProgramShape& shape,
                  const BatchValues& batch, const TokenValues& tokens,
                  const Value& k, const Value& v, const Value& kv_pages);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_KV_WRITE_H_
