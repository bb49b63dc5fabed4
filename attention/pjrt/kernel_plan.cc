#include "attention/pjrt/kernel_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
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

KernelShape KernelShapeOf(const KernelArtifact& artifact) {
  const KernelSettings& settings = artifact.settings;
  KernelShape shape;
  shape.num_q_heads = static_cast<int32_t>(settings.num_q_heads);
  shape.num_kv_heads = static_cast<int32_t>(settings.num_kv_heads);
  // The kernel sees rows of the pool.
  shape.head_dim = static_cast<int32_t>(settings.pool_head_dim);
  shape.page_size = static_cast<int32_t>(settings.page_size);
  shape.q_dtype = settings.q_type == ScalarType::kFloat32 ? QueryDtype::kF32
                                                          : QueryDtype::kBf16;
  shape.kv_dtype = KvDtypeOf(settings.kv_type);
  shape.has_kv_scales = settings.options.k_scale.has_value() &&
                        settings.options.v_scale.has_value();
  shape.max_num_seqs = static_cast<int32_t>(artifact.bucket.max_num_seqs);
  shape.pages_per_seq = static_cast<int32_t>(artifact.bucket.pages_per_seq);
  shape.max_num_batched_tokens =
      static_cast<int32_t>(artifact.bucket.num_tokens);
  shape.num_kv_pages_per_block =
      static_cast<int32_t>(artifact.num_kv_pages_per_block);
  shape.num_queries_per_block =
      static_cast<int32_t>(artifact.num_queries_per_block);
  shape.vmem_limit_bytes = artifact.vmem_limit_bytes;
  return shape;
}

}  // namespace

KernelNeed KernelNeedOf(const AttentionProgramShape& shape,
                        TpuGeneration generation) {
  return {.settings = {.generation = generation,
                       .q_type = shape.q_type,
                       .new_kv_type = shape.new_kv_type,
                       .kv_type = shape.kv_type,
                       .num_q_heads = shape.num_q_heads,
                       .num_kv_heads = shape.num_kv_heads,
                       .head_dim = shape.head_dim,
                       .pool_head_dim = shape.pool_head_dim,
                       .page_size = shape.page_size,
                       .total_num_pages = shape.total_num_pages,
                       .options = shape.options},
          .bucket = {.num_tokens = shape.num_tokens,
                     .max_num_seqs = shape.max_num_seqs,
                     .pages_per_seq = shape.pages_per_seq}};
}

absl::StatusOr<KernelPlan> PlanKernels(const AttentionProgramShape& shape,
                                       const TokenBucketOptions& tokens,
                                       const KernelLibrary* library,
                                       TpuGeneration generation) {
  KernelPlan plan;
  plan.table = {shape.max_num_seqs, shape.pages_per_seq};
  TIDEWHEEL_ASSIGN_OR_RETURN(plan.token_buckets, TokenBuckets(tokens));
  if (library == nullptr) return plan;
  KernelNeed need = KernelNeedOf(shape, generation);
  need.bucket.num_tokens = tokens.max_num_batched_tokens;
  const KernelArtifact* const largest = library->Choose(need).artifact;
  if (largest == nullptr) return plan;
  plan.table = {largest->bucket.max_num_seqs, largest->bucket.pages_per_seq};
  for (const KernelArtifact& artifact : library->manifest().artifacts) {
    if (artifact.bucket.max_num_seqs == plan.table.max_num_seqs &&
        artifact.bucket.pages_per_seq == plan.table.pages_per_seq &&
        DifferentSettings(artifact.settings, need.settings).empty()) {
      plan.token_buckets.push_back(
          static_cast<int32_t>(artifact.bucket.num_tokens));
    }
  }
  std::ranges::sort(plan.token_buckets);
  plan.token_buckets.erase(
      std::unique(plan.token_buckets.begin(), plan.token_buckets.end()),
      plan.token_buckets.end());
  // No batch needs more than the first bucket that holds the largest one.
  const auto last = std::ranges::lower_bound(plan.token_buckets,
                                             tokens.max_num_batched_tokens);
  plan.token_buckets.erase(last + 1, plan.token_buckets.end());
  return plan;
}

absl::Status CheckKernelFits(const KernelArtifact& artifact) {
  const Verdict verdict =
      TpuLimits(artifact.settings.generation).Predict(KernelShapeOf(artifact));
  if (verdict.ok || verdict.may_compile) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the kernel ", artifact.file, " with blocks of ",
      artifact.num_kv_pages_per_block, " pages and ",
      artifact.num_queries_per_block, " queries does not fit: ", verdict.text));
}

}  // namespace tidewheel
