// LimitFinding: one reason why a TPU compiler, or JAX before it, refuses a
// kernel.
//
// The classes are those of tidewheel's table of compiler verdicts
// (error_class), so that a prediction and a verdict can be compared.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_LIMIT_FINDING_H_
#define TIDEWHEEL_ATTENTION_LIMIT_FINDING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tidewheel {

enum class LimitClass {
  // JAX's static checks, or a number that is not a size at all.
  kStaticCheck,
  // The rest in the order in which a compile meets them.
  kHeadsNotTileable,
  kHeadDimOrQDtype,
  kBlockShape,
  kOneTokenBlock,
  kFp8Matmul,
  kHeadDimNot128,
  kSmemOneAllocation,
  kSmem,
  kScopedVmem,
  kVmem,
};

// "export_static_check", "export_heads_not_tileable",
// "export_assert_head_dim_or_q_dtype", "export_block_shape",
// "export_verification", "mosaic_fp8_matmul", "mosaic_head_dim_not_128",
// "oom_smem_one_allocation", "oom_smem", "oom_scoped_vmem", "oom_vmem".
absl::string_view LimitClassName(LimitClass limit_class);

struct LimitFinding {
  LimitClass limit_class = LimitClass::kStaticCheck;
  // What, its value, the limit and the remedy, in one sentence.
  std::string text;
  // Whether the compile is known to fail; else a bound says that it may.
  bool is_certain = true;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_LIMIT_FINDING_H_
