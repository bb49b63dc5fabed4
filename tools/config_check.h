// ConfigCheck: a server's configuration against every limit of the TPU, before
// a chip is rented.
//
// It takes numbers, not a model file or flags: who has those fills in a
// ConfigurationShape. It answers with findings, errors first, each under a
// name that does not change. It does not plan HBM (capacity_plan), predict
// time, or mend (nearest_configuration).
//
// Mistakes that happen often are caught by name:
//   cache-smaller-than-a-sequence, cache-smaller-than-its-rows,
//   cache-smaller-than-a-step      num_pages shrank, the rest stayed
//   max-num-seqs-above-table-rows  more sequences than the table has or can
//                                  have rows
//   block-larger-than-sequence     num_kv_pages_per_block above pages_per_seq
//   vmem-limit-of-another-generation
// Others carry the class of the limit that breaks ("oom_scoped_vmem") or are
// not-a-size, half-a-block, heads-not-divisible, head-dim-padded,
// budget-below-rows, budget-not-a-bucket.
//
// Thread-safety: pure functions. They allocate.

#ifndef TIDEWHEEL_TOOLS_CONFIG_CHECK_H_
#define TIDEWHEEL_TOOLS_CONFIG_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "allocator/kv_cache_shape.h"
#include "attention/kernel_shape.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct ConfigurationShape {
  TpuGeneration generation = TpuGeneration::kV6e;
  int32_t chips = 1;  // that share one copy of the model

  // Of the model.
  int32_t num_q_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 128;
  QueryDtype q_dtype = QueryDtype::kBf16;
  KvDtype kv_dtype = KvDtype::kBf16;
  bool has_kv_scales = false;

  int32_t max_num_seqs = 0;
  int32_t page_size = 16;                 // tokens
  int32_t max_model_len = 0;              // tokens
  int32_t max_num_batched_tokens = 2048;  // a step's
  // Pages of the pool, with the null page; absent: not decided yet.
  std::optional<int64_t> num_pages = std::nullopt;
  // Rows of the page table, where it exists already (a compiled program, an
  // old run); absent: max_num_seqs.
  std::optional<int32_t> table_rows = std::nullopt;
  // Absent: the generation's default.
  std::optional<int64_t> vmem_limit_bytes = std::nullopt;
  // Absent: chosen here. Give both or neither.
  std::optional<int32_t> num_kv_pages_per_block = std::nullopt;
  std::optional<int32_t> num_queries_per_block = std::nullopt;
};

struct Finding {
  enum class Severity {
    kError,   // will not compile, or can not do what it promises
    kAdvice,  // works, but costs something
  };
  Severity severity = Severity::kError;
  std::string name;
  std::string text;  // value, limit and remedy
};

// Errors first, in the order in which they would be met; empty if all holds.
std::vector<Finding> CheckConfiguration(const ConfigurationShape& shape);

// Whether no finding is an error.
bool Holds(const std::vector<Finding>& findings);

// cdiv(max_model_len, page_size). REQUIRES: both positive.
int32_t PagesPerSeq(const ConfigurationShape& shape);

// What the kernel is compiled for on one chip; blocks that are absent are 1.
// REQUIRES: no finding is named not-a-size or heads-not-divisible.
KernelShape KernelOfOneChip(const ConfigurationShape& shape);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_CONFIG_CHECK_H_
