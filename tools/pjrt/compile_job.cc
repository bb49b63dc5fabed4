#include "tools/pjrt/compile_job.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/limit_finding.h"
#include "attention/stablehlo/attention_program.h"

namespace tidewheel {

std::string CompileJob::Name() const {
  std::string name = absl::StrCat(
      TpuGenerationName(generation), " ", program, ": ", shape.num_tokens,
      " tokens, ", shape.max_num_seqs, " x ", shape.pages_per_seq, " pages of ",
      shape.page_size, ", heads ", shape.num_q_heads, "/", shape.num_kv_heads,
      " x ", shape.head_dim, ", ", ScalarTypeName(shape.q_type), "/",
      ScalarTypeName(shape.kv_type));
  if (kernel.has_value()) {
    absl::StrAppend(&name, ", blocks of ", kernel->num_kv_pages_per_block,
                    " pages x ", kernel->num_queries_per_block, " queries, ",
                    file);
  }
  return name;
}

absl::StatusOr<CompileJob> JobOfShape(TpuGeneration generation,
                                      const AttentionProgramShape& shape) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckAttentionShape(shape));
  CompileJob job;
  job.generation = generation;
  job.program = shape.form == AttentionForm::kDecode ? "decode" : "prefill";
  job.shape = shape;
  job.pool_bytes = shape.pool_bytes();
  job.prediction.temp_bound_bytes = AttentionTempBound(shape);
  job.prediction.text = "compiles";
  job.read = [shape]() -> absl::StatusOr<std::string> {
    TIDEWHEEL_ASSIGN_OR_RETURN(Program program, EmitAttention(shape));
    return std::move(program.text);
  };
  return job;
}

absl::string_view ClassOfCompilerError(absl::string_view text) {
  const auto says = [text](absl::string_view part) {
    return absl::StrContains(text, part);
  };
  if (says("memory space hbm") || says("memory on HBM") ||
      says("CompileTimeHbmOom")) {
    return "oom_hbm";
  }
  if (says("space=smem") && says("would exceed memory")) {
    return LimitClassName(LimitClass::kSmemOneAllocation);
  }
  if (says("memory space smem")) return LimitClassName(LimitClass::kSmem);
  if (says("CompileTimeScopedVmemOom") || says("exceeded scoped vmem limit")) {
    return LimitClassName(LimitClass::kScopedVmem);
  }
  if (says("memory space vmem") || says("space=vmem")) {
    return LimitClassName(LimitClass::kVmem);
  }
  if (says("UnsupportedRhsType") || says("Unsupported matmul RHS type")) {
    return LimitClassName(LimitClass::kFp8Matmul);
  }
  if (says("last dim size is not 128")) {
    return LimitClassName(LimitClass::kHeadDimNot128);
  }
  return "other";
}

}  // namespace tidewheel
