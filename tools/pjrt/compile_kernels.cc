#include "tools/pjrt/compile_kernels.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/kernel_library.h"
#include "attention/tpu_limits.h"

namespace tidewheel {
namespace {

KvDtype KvDtypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return KvDtype::kF32;
    case ScalarType::kBfloat16:
      return KvDtype::kBf16;
    case ScalarType::kFloat8E4m3fn:
      return KvDtype::kFp8E4m3;
    case ScalarType::kFloat8E5m2:
      return KvDtype::kFp8E5m2;
    case ScalarType::kInt8:
      return KvDtype::kInt8;
  }
  TIDEWHEEL_CHECK(false);
}

// The manifest's numbers fit int32.
int32_t Narrow(int64_t value) { return static_cast<int32_t>(value); }

KernelShape KernelOfArtifact(const KernelArtifact& artifact) {
  const KernelSettings& settings = artifact.settings;
  KernelShape shape;
  shape.num_q_heads = Narrow(settings.num_q_heads);
  shape.num_kv_heads = Narrow(settings.num_kv_heads);
  // The kernel sees rows of the pool.
  shape.head_dim = Narrow(settings.pool_head_dim);
  shape.page_size = Narrow(settings.page_size);
  shape.q_dtype = settings.q_type == ScalarType::kFloat32 ? QueryDtype::kF32
                                                          : QueryDtype::kBf16;
  shape.kv_dtype = KvDtypeOf(settings.kv_type);
  shape.has_kv_scales = settings.options.k_scale.has_value() &&
                        settings.options.v_scale.has_value();
  shape.max_num_seqs = Narrow(artifact.bucket.max_num_seqs);
  shape.pages_per_seq = Narrow(artifact.bucket.pages_per_seq);
  shape.max_num_batched_tokens = Narrow(artifact.bucket.num_tokens);
  shape.num_kv_pages_per_block = Narrow(artifact.num_kv_pages_per_block);
  shape.num_queries_per_block = Narrow(artifact.num_queries_per_block);
  shape.vmem_limit_bytes = artifact.vmem_limit_bytes;
  return shape;
}

AttentionProgramShape ProgramShapeOf(const KernelArtifact& artifact) {
  const KernelSettings& settings = artifact.settings;
  AttentionProgramShape shape;
  shape.q_type = settings.q_type;
  shape.kv_type = settings.kv_type;
  shape.new_kv_type = settings.new_kv_type;
  shape.num_tokens = artifact.bucket.num_tokens;
  shape.num_q_heads = settings.num_q_heads;
  shape.num_kv_heads = settings.num_kv_heads;
  shape.head_dim = settings.head_dim;
  shape.pool_head_dim = settings.pool_head_dim;
  shape.page_size = settings.page_size;
  shape.total_num_pages = settings.total_num_pages;
  shape.max_num_seqs = artifact.bucket.max_num_seqs;
  shape.pages_per_seq = artifact.bucket.pages_per_seq;
  shape.options = settings.options;
  return shape;
}

CompileJob JobOfArtifact(const std::shared_ptr<const KernelLibrary>& library,
                         const KernelArtifact& artifact) {
  CompileJob job;
  job.generation = artifact.settings.generation;
  job.program = "kernel";
  job.shape = ProgramShapeOf(artifact);
  job.kernel = KernelOfArtifact(artifact);
  job.file = artifact.file;
  job.pool_bytes = job.shape.pool_bytes();
  Verdict verdict = TpuLimits(job.generation).Predict(*job.kernel);
  if (verdict.failure.has_value()) {
    job.prediction.failure = std::string(LimitClassName(*verdict.failure));
  }
  job.prediction.may_compile = verdict.may_compile;
  job.prediction.text = std::move(verdict.text);
  job.prediction.needed_bytes = verdict.needed_bytes;
  job.prediction.limit_bytes = verdict.limit_bytes;
  job.read = [library, &artifact] { return library->Read(artifact); };
  return job;
}

}  // namespace

absl::StatusOr<std::vector<CompileJob>> JobsOfKernels(
    const std::string& folder, std::optional<TpuGeneration> generation) {
  TIDEWHEEL_ASSIGN_OR_RETURN(KernelLibrary loaded, KernelLibrary::Load(folder));
  const auto library = std::make_shared<const KernelLibrary>(std::move(loaded));
  std::vector<CompileJob> jobs;
  for (const KernelArtifact& artifact : library->manifest().artifacts) {
    if (generation.value_or(artifact.settings.generation) !=
        artifact.settings.generation) {
      continue;
    }
    jobs.push_back(JobOfArtifact(library, artifact));
  }
  if (jobs.empty()) {
    return absl::NotFoundError(
        absl::StrCat("'", folder, "' has no kernel",
                     generation.has_value()
                         ? absl::StrCat(" for ", TpuGenerationName(*generation))
                         : "",
                     "; export one with tools/export_tpu_kernel.py"));
  }
  return jobs;
}

}  // namespace tidewheel
