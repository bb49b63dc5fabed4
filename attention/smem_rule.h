// SMEM rule: the scalar memory that the kernel's prefetched operands need.
//
// The page table, kv_lens, cu_q_lens, num_seqs and the kernel's two scalars
// go to scalar memory whole, padded as allocator/page_table.h says. It is
// exact: 939 verdicts of the page-table sweep and 24 with the KV write in
// front on v4, v5e, v5p, v6e and v7x agree, among them every boundary that
// was bisected. Blocks, heads and types do not matter.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_SMEM_RULE_H_
#define TIDEWHEEL_ATTENTION_SMEM_RULE_H_

#include <cstdint>
#include <optional>

#include "attention/kernel_shape.h"
#include "attention/limit_finding.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct SmemNeed {
  int64_t page_table_bytes = 0;  // padded to 8 rows and 128 columns
  int64_t total_bytes = 0;       // with everything else
};

// REQUIRES: positive sizes, as CheckStatic demands.
SmemNeed ComputeSmemNeed(int32_t max_num_seqs, int32_t pages_per_seq);

// Nothing if it fits. A table that is larger than the whole memory is another
// class than a total that is: the compiler says it in another way.
// REQUIRES: CheckStatic(shape) is empty.
std::optional<LimitFinding> CheckSmem(TpuGeneration generation,
                                      const KernelShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_SMEM_RULE_H_
