#include "attention/ragged_batch.h"

#include <optional>
#include <string>
#include <vector>

#include "attention/contract_dynamic_checks.h"
#include "attention/contract_strict_checks.h"

namespace tidewheel {

absl::Status ValidateDynamic(const RaggedBatch& batch) {
  if (std::optional<std::string> finding = SizeFinding(batch)) {
    return absl::InvalidArgumentError(*finding);
  }
  const JaxVerdict error = CheckDynamicValues(
      {.kv_lens = batch.kv_lens,
       .cu_q_lens = batch.cu_q_lens,
       .num_seqs = batch.num_seqs,
       .max_num_seqs = batch.max_num_seqs,
       .pages_per_seq = batch.pages_per_seq,
       .page_size = batch.page_size,
       .max_num_batched_tokens = batch.max_num_batched_tokens},
      ArraySpelling::kNumpy);
  if (error.has_value()) return absl::InvalidArgumentError(error->message);
  return absl::OkStatus();
}

absl::Status ValidateStrict(const RaggedBatch& batch) {
  const std::vector<std::string> findings =
      StrictFindings(batch, {.max_findings = 1});
  if (!findings.empty()) return absl::InvalidArgumentError(findings.front());
  return absl::OkStatus();
}

}  // namespace tidewheel
