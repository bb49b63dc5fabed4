#include "attention/limit_finding.h"

#include "allocator/check.h"

namespace tidewheel {

absl::string_view LimitClassName(LimitClass limit_class) {
  switch (limit_class) {
    case LimitClass::kStaticCheck:
      return "export_static_check";
    case LimitClass::kHeadsNotTileable:
      return "export_heads_not_tileable";
    case LimitClass::kHeadDimOrQDtype:
      return "export_assert_head_dim_or_q_dtype";
    case LimitClass::kBlockShape:
      return "export_block_shape";
    case LimitClass::kOneTokenBlock:
      return "export_verification";
    case LimitClass::kFp8Matmul:
      return "mosaic_fp8_matmul";
    case LimitClass::kHeadDimNot128:
      return "mosaic_head_dim_not_128";
    case LimitClass::kSmemOneAllocation:
      return "oom_smem_one_allocation";
    case LimitClass::kSmem:
      return "oom_smem";
    case LimitClass::kScopedVmem:
      return "oom_scoped_vmem";
    case LimitClass::kVmem:
      return "oom_vmem";
  }
  TIDEWHEEL_CHECK(false);
}

}  // namespace tidewheel
