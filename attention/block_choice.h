// Block choice: num_kv_pages_per_block and num_queries_per_block that fit
// vector memory, by rule and with the reason.
//
// It is not a tuned table. JAX's table covers only 4, 8 and 16 pages a
// sequence, and its fallback of 128 pages overflows common shapes; most of
// its entries are 32 queries and a few hundred tokens of KV, which is where
// this starts too.
//
// The choice: 32 queries, since every sequence that a query block touches
// costs a product over all rows of the block, and 512 tokens, since every
// last block of a sequence copies whole blocks, whatever it uses. Then, while
// it does not fit: fewer tokens down to the 128 of a vector, fewer queries
// down to 8, fewer tokens, fewer queries.
//
// Thread-safety: pure functions. O(log of the blocks).

#ifndef TIDEWHEEL_ATTENTION_BLOCK_CHOICE_H_
#define TIDEWHEEL_ATTENTION_BLOCK_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "attention/kernel_shape.h"
#include "attention/tpu_generation.h"
#include "attention/vmem_rule.h"

namespace tidewheel {

struct BlockChoice {
  int32_t num_kv_pages_per_block = 0;
  int32_t num_queries_per_block = 0;
  VmemNeed need;
  int64_t limit_bytes = 0;
  // One sentence: where the search started, what it gave up, what it needs.
  std::string reason;
};

// Blocks for `shape`, whose own blocks are ignored.
//
// Errors: InvalidArgument with the rule that no blocks can mend (heads,
// head_dim, types, sizes); ResourceExhausted, with need and limit, if not
// even the smallest blocks fit.
absl::StatusOr<BlockChoice> ChooseBlocks(TpuGeneration generation,
                                         const KernelShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_BLOCK_CHOICE_H_
