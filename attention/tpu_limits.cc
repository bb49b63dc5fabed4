#include "attention/tpu_limits.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/page_table.h"
#include "attention/shape_rules.h"
#include "attention/smem_rule.h"
#include "attention/vmem_rule.h"

namespace tidewheel {

std::vector<LimitFinding> TpuLimits::Findings(const KernelShape& shape) const {
  std::vector<LimitFinding> findings = CheckStatic(shape);
  // Without sizes there is no need to compute.
  if (!findings.empty()) return findings;
  findings = CheckShape(generation_, shape);
  std::optional<LimitFinding> smem = CheckSmem(generation_, shape);
  if (smem.has_value()) findings.push_back(*std::move(smem));
  if (!ChooseHeadBlock(shape).has_value()) return findings;
  std::optional<LimitFinding> vmem = CheckVmem(generation_, shape);
  if (vmem.has_value()) findings.push_back(*std::move(vmem));
  return findings;
}

Verdict TpuLimits::Predict(const KernelShape& shape) const {
  std::vector<LimitFinding> findings = Findings(shape);
  Verdict verdict;
  verdict.ok = findings.empty();
  if (!verdict.ok) {
    verdict.may_compile = !findings.front().is_certain;
    verdict.failure = findings.front().limit_class;
    verdict.text = std::move(findings.front().text);
    if (*verdict.failure < LimitClass::kSmemOneAllocation) return verdict;
    if (*verdict.failure <= LimitClass::kSmem) {
      verdict.needed_bytes =
          ComputeSmemNeed(shape.max_num_seqs, shape.pages_per_seq).total_bytes;
      verdict.limit_bytes = SmemBytes(generation_);
      return verdict;
    }
  }
  verdict.needed_bytes = ComputeVmemNeed(generation_, shape).total_bytes();
  verdict.limit_bytes = EffectiveVmemLimitBytes(generation_, shape);
  if (verdict.ok) {
    verdict.text =
        absl::StrCat("fits: at most ", *verdict.needed_bytes, " of ",
                     *verdict.limit_bytes, " bytes of vector memory");
  }
  return verdict;
}

absl::StatusOr<BlockChoice> TpuLimits::ChooseBlocks(
    const KernelShape& shape) const {
  return tidewheel::ChooseBlocks(generation_, shape);
}

std::optional<int32_t> TpuLimits::SmallestPageSize(
    const PageSizeQuery& query) const {
  TIDEWHEEL_CHECK_GT(query.max_model_len, 0);
  TIDEWHEEL_CHECK_GT(query.max_num_seqs, 0);
  TIDEWHEEL_CHECK_GT(query.at_least, 0);
  return SmallestPageSizeThatFits(query.max_num_seqs, query.max_model_len,
                                  query.at_least, SmemBytes(generation_));
}

int32_t TpuLimits::LargestMaxNumSeqs(int32_t pages_per_seq) const {
  TIDEWHEEL_CHECK_GT(pages_per_seq, 0);
  return tidewheel::LargestMaxNumSeqs(pages_per_seq, SmemBytes(generation_));
}

}  // namespace tidewheel
