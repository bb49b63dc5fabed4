#include "tools/limit_findings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "attention/contract_dtype.h"
#include "attention/kernel_shape.h"
#include "attention/tpu_limits.h"
#include "attention/trace_time_contract.h"

namespace tidewheel {
namespace {

// Weights of leaked keys are exp(mask - largest logit); a mask this low has
// been seen to hide them from the TPU's kernel (golden cases, -1e4 and less).
constexpr double kHighestSafeMask = -1e4;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

std::optional<QueryDtype> QueryDtypeOf(absl::string_view dtype) {
  if (dtype == "float32") return QueryDtype::kF32;
  if (dtype == "bfloat16") return QueryDtype::kBf16;
  if (dtype == "float16") return QueryDtype::kF16;
  if (dtype == "float8_e4m3fn") return QueryDtype::kFp8E4m3;
  return std::nullopt;
}

std::optional<KvDtype> KvDtypeOf(absl::string_view dtype) {
  if (dtype == "float32") return KvDtype::kF32;
  if (dtype == "bfloat16") return KvDtype::kBf16;
  if (dtype == "float8_e4m3fn") return KvDtype::kFp8E4m3;
  if (dtype == "float8_e5m2") return KvDtype::kFp8E5m2;
  if (dtype == "int8") return KvDtype::kInt8;
  return std::nullopt;
}

int32_t ToInt32(int64_t value) {
  return static_cast<int32_t>(std::min(value, kInt32Max));
}

// The options' blocks, or what JAX would choose; nothing where it cannot.
std::optional<BlockSizes> BlocksOf(const ContractInputs& inputs,
                                   const ContractOptions& options,
                                   TpuGeneration generation) {
  if (!options.num_kv_pages_per_block.is_none() &&
      !options.num_queries_per_block.is_none()) {
    return BlockSizes{options.num_kv_pages_per_block.ClampedInt(1, kInt32Max),
                      options.num_queries_per_block.ClampedInt(1, kInt32Max)};
  }
  const absl::string_view q_dtype = NarrowedDtype(inputs.q.dtype);
  const absl::string_view kv_dtype = NarrowedDtype(inputs.kv_pages.dtype);
  const JaxResult<HeadsPerBlock> heads = MinHeadsPerBlock(
      inputs.q.shape[1], inputs.kv_pages.shape[2], q_dtype, kv_dtype);
  if (heads.error.has_value()) return std::nullopt;
  const JaxResult<BlockSizes> blocks = TunedBlockSizes(
      {.q_dtype = q_dtype,
       .kv_dtype = kv_dtype,
       .num_q_heads_per_block = heads.value.num_q_heads,
       .num_kv_heads_per_block = heads.value.num_combined_kv_heads / 2,
       .head_dim = inputs.q.shape[2],
       .page_size = inputs.kv_pages.shape[1],
       .max_num_batched_tokens = inputs.q.shape[0],
       .pages_per_seq = inputs.page_indices.shape[1]},
      DeviceKind(generation));
  if (blocks.error.has_value()) return std::nullopt;
  return blocks.value;
}

void AddMaskFinding(const ContractOptions& options,
                    std::vector<std::string>& findings) {
  if (options.mask_value.is_none()) return;
  const double mask = options.mask_value.number();
  if (mask <= kHighestSafeMask && std::isfinite(mask)) return;
  findings.push_back(absl::StrCat(
      "mask_value ", options.mask_value.Repr(),
      std::isfinite(mask)
          ? " is above -1e4: masked keys, and on a TPU the unused slots of the "
            "last block too, keep weight"
          : " makes the TPU's kernel return NaN where a block of keys is "
            "wholly masked",
      "; leave it out for -0.7 times the largest float32"));
}

}  // namespace

absl::string_view DeviceKind(TpuGeneration generation) {
  switch (generation) {
    case TpuGeneration::kV4:
      return "TPU v4";
    case TpuGeneration::kV5e:
      return "TPU v5 lite";
    case TpuGeneration::kV5p:
      return "TPU v5";
    case TpuGeneration::kV6e:
      return "TPU v6 lite";
    case TpuGeneration::kV7x:
      break;
  }
  return "TPU7x";
}

std::vector<std::string> LimitFindings(const ContractInputs& inputs,
                                       const ContractOptions& options,
                                       TpuGeneration generation) {
  std::vector<std::string> findings;
  AddMaskFinding(options, findings);
  const absl::string_view q_dtype = NarrowedDtype(inputs.q.dtype);
  const absl::string_view kv_dtype = NarrowedDtype(inputs.kv_pages.dtype);
  const std::optional<QueryDtype> q_type = QueryDtypeOf(q_dtype);
  const std::optional<KvDtype> kv_type = KvDtypeOf(kv_dtype);
  if (!q_type.has_value() || !kv_type.has_value()) {
    findings.push_back(absl::StrCat(
        "q of ", q_dtype, " over pages of ", kv_dtype,
        " was never compiled "
        "for a TPU here; use float32 or bfloat16 queries and pages of float32, "
        "bfloat16, float8_e4m3fn, float8_e5m2 or int8"));
    return findings;
  }
  const std::optional<BlockSizes> blocks =
      BlocksOf(inputs, options, generation);
  KernelShape shape = {
      .num_q_heads = ToInt32(inputs.q.shape[1]),
      .num_kv_heads = ToInt32(inputs.kv_pages.shape[2] / 2),
      .head_dim = ToInt32(inputs.q.shape[2]),
      .page_size = ToInt32(inputs.kv_pages.shape[1]),
      .q_dtype = *q_type,
      .kv_dtype = *kv_type,
      .has_kv_scales = !options.k_scale.is_none() && !options.v_scale.is_none(),
      .max_num_seqs = ToInt32(inputs.page_indices.shape[0]),
      .pages_per_seq = ToInt32(inputs.page_indices.shape[1]),
      .max_num_batched_tokens = ToInt32(inputs.q.shape[0]),
      .vmem_limit_bytes = std::nullopt};
  // Without a choice the other rules can still speak.
  if (blocks.has_value()) {
    shape.num_kv_pages_per_block = ToInt32(blocks->num_kv_pages_per_block);
    shape.num_queries_per_block = ToInt32(blocks->num_queries_per_block);
  }
  if (!options.vmem_limit_bytes.is_none()) {
    shape.vmem_limit_bytes =
        options.vmem_limit_bytes.ClampedInt(1, int64_t{1} << 62);
  }
  for (LimitFinding& finding : TpuLimits(generation).Findings(shape)) {
    findings.push_back(std::move(finding.text));
  }
  return findings;
}

}  // namespace tidewheel
