// What JAX's ragged paged attention refuses after its own checks: while the
// kernel is traced, and while it is lowered for a TPU.
//
// These are rules that state the mechanism, not a list of cases: which blocks
// of heads the kernel works on, which layouts it can address, which dtypes its
// inner product takes. They were compared with JAX 0.10.2 on recorded probes
// and on random inputs. What the TPU's own compiler accepts after that is in
// tpu_limits.h.
//
// The kernel runs under jit, so 64-bit dtypes are narrowed before any check.
// Messages of the lowering are cut where they begin to name files.
//
// Thread-safety: pure functions over values.

#ifndef TIDEWHEEL_ATTENTION_TRACE_TIME_CONTRACT_H_
#define TIDEWHEEL_ATTENTION_TRACE_TIME_CONTRACT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "attention/contract.h"
#include "attention/contract_error.h"
#include "attention/tuned_block_sizes.h"

namespace tidewheel {

// The heads that one grid step of the kernel works on.
struct HeadsPerBlock {
  int64_t num_q_heads = 0;
  int64_t num_combined_kv_heads = 0;  // K and V heads together

  friend bool operator==(const HeadsPerBlock&, const HeadsPerBlock&) = default;
};

// get_min_heads_per_blk: the fewest heads whose rows fill whole tiles of
// 8 sublanes of 32 bits, or all of them; refuses counts that fill no tile.
//
// REQUIRES: both dtypes have known widths of at most 32 bits.
JaxResult<HeadsPerBlock> MinHeadsPerBlock(int64_t num_q_heads,
                                          int64_t num_combined_kv_heads,
                                          absl::string_view q_dtype,
                                          absl::string_view kv_dtype);

// The whole call under jax.eval_shape, static checks first. `device_kind` is
// the kind of JAX's default device, "cpu" where there is no TPU; it matters
// only where a block size is absent.
JaxVerdict CheckTrace(const ContractInputs& inputs,
                      const ContractOptions& options,
                      absl::string_view device_kind);

// The call exported for a TPU: CheckTrace, then the lowering.
JaxVerdict CheckLowering(const ContractInputs& inputs,
                         const ContractOptions& options,
                         absl::string_view device_kind);

// The call of JAX's plain reference, as far as its arguments decide it. It
// takes no block sizes and does not make the dynamic checks.
JaxVerdict CheckReference(const ContractInputs& inputs,
                          const ContractOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TRACE_TIME_CONTRACT_H_
