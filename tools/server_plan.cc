#include "tools/server_plan.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/page_table.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

constexpr int32_t kSmallestPageSize = 16;  // tokens, when tidewheel chooses

int32_t CeilDiv(int32_t value, int32_t divisor) {
  return static_cast<int32_t>((int64_t{value} + divisor - 1) / divisor);
}

absl::Status CheckPositive(absl::string_view name, int32_t value, int32_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " ", value, " is outside [1, ", max, "]; give another"));
}

absl::Status CheckLimits(const ServerPlanOptions& options) {
  constexpr int32_t kMany = 1 << 24;
  constexpr int32_t kMaxTokens = 1 << 30;
  TIDEWHEEL_RETURN_IF_ERROR(CheckPositive("chips", options.chips, 1 << 16));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckPositive("max_num_seqs", options.max_num_seqs, kMany));
  TIDEWHEEL_RETURN_IF_ERROR(CheckPositive(
      "max_num_batched_tokens", options.max_num_batched_tokens, kMany));
  if (options.max_model_len.has_value()) {
    TIDEWHEEL_RETURN_IF_ERROR(
        CheckPositive("max_model_len", *options.max_model_len, kMaxTokens));
  }
  if (options.page_size.has_value()) {
    TIDEWHEEL_RETURN_IF_ERROR(
        CheckPositive("page_size", *options.page_size, kMaxTokens));
  }
  return absl::OkStatus();
}

// The page table does not depend on the pool: it covers max_model_len.
void SetPageSize(const ServerPlanOptions& options, int32_t smallest,
                 ServerPlan& plan) {
  plan.page_size_is_chosen = !options.page_size.has_value();
  plan.page_size =
      options.page_size.value_or(std::max(kSmallestPageSize, smallest));
  plan.pages_per_seq = CeilDiv(plan.max_model_len, plan.page_size);
  plan.smem_bytes = PageTableSmemBytes(plan.max_num_seqs, plan.pages_per_seq);
}

// Sets the page size and what the page table needs of the scalar memory.
absl::Status PlanPageTable(const ServerPlanOptions& options, ServerPlan& plan) {
  if (!options.smem_bytes.has_value()) {
    SetPageSize(options, /*smallest=*/1, plan);
    return absl::OkStatus();
  }
  const int64_t limit = *options.smem_bytes;
  plan.smem_limit_bytes = limit;
  const std::optional<int32_t> smallest = SmallestPageSizeThatFits(
      plan.max_num_seqs, plan.max_model_len, /*at_least=*/1, limit);
  if (!smallest.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a page table of max_num_seqs ", plan.max_num_seqs,
        " rows exceeds the ", limit,
        " B of a TPU's scalar memory at any page_size; use at most ",
        LargestMaxNumSeqs(1, limit), " rows"));
  }
  plan.smallest_page_size = *smallest;
  SetPageSize(options, *smallest, plan);
  plan.largest_max_num_seqs = LargestMaxNumSeqs(plan.pages_per_seq, limit);
  if (plan.smem_bytes <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a page table of max_num_seqs ", plan.max_num_seqs,
                   " rows x ", plan.pages_per_seq, " pages (max_model_len ",
                   plan.max_model_len, " / page_size ", plan.page_size,
                   ") needs ", plan.smem_bytes, " B of the ", limit,
                   " B of a TPU's scalar memory; use a page_size of at least ",
                   *smallest, ", at most ", plan.largest_max_num_seqs,
                   " rows, or a shorter max_model_len"));
}

void PlanLongestRequest(const ModelShape& model, ServerPlan& plan) {
  const int32_t model_max = model.options().max_position_embeddings;
  if (plan.max_model_len > model_max) {
    plan.notes.push_back(absl::StrCat("max_model_len ", plan.max_model_len,
                                      " is past the model's own limit of ",
                                      model_max));
  }
  const int32_t usable = plan.capacity.usable_num_pages;
  plan.longest_requests_at_once =
      static_cast<double>(usable) / static_cast<double>(plan.pages_per_seq);
  plan.longest_request_tokens = static_cast<int32_t>(
      std::min<int64_t>(plan.capacity.usable_tokens, plan.max_model_len));
  if (usable >= plan.pages_per_seq) return;
  plan.notes.push_back(absl::StrCat(
      "a request of max_model_len ", plan.max_model_len, " needs ",
      plan.pages_per_seq, " pages and the pool lends ", usable,
      ": requests past ", plan.longest_request_tokens,
      " tokens are refused; lower max_model_len or give KV more memory"));
}

}  // namespace

int64_t EstimateActivationBytes(const ModelShape& model, int32_t devices,
                                int32_t max_num_batched_tokens,
                                int32_t max_num_seqs) {
  constexpr int64_t kActivationBytes = 2;  // bf16
  constexpr int64_t kLogitBytes = 4;       // f32
  const ModelShape::Options& o = model.options();
  const auto share = [devices](int64_t width) {
    return (width + devices - 1) / devices;
  };
  // Q, K, V and the output; gate and up; an expert's input for each that a
  // token visits, gate and up.
  const int64_t attention =
      2 * (share(o.num_heads) + share(o.num_kv_heads)) * o.head_dim;
  const int64_t dense = 2 * share(o.intermediate_size);
  const int64_t mixture =
      int64_t{o.experts_per_token} *
          (o.hidden_size + 2 * share(o.moe_intermediate_size)) +
      2 * share(o.shared_intermediate_size);
  // The residual, its norm, and the block's output.
  const int64_t token =
      3LL * o.hidden_size + std::max({attention, dense, mixture});
  return kActivationBytes * max_num_batched_tokens * token +
         kLogitBytes * max_num_seqs * share(o.vocab_size);
}

absl::StatusOr<ServerPlan> PlanServer(const ModelShape& model,
                                      const ServerPlanOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckLimits(options));
  const int32_t devices = options.chips * options.chip.devices;
  TIDEWHEEL_ASSIGN_OR_RETURN(const ModelShape::ChipShare share,
                             model.Share(devices));
  TIDEWHEEL_ASSIGN_OR_RETURN(const KvCacheShape kv,
                             model.KvShape(devices, options.kv_dtype));
  ServerPlan plan(kv);
  plan.devices = devices;
  plan.max_num_seqs = options.max_num_seqs;
  plan.max_num_batched_tokens = options.max_num_batched_tokens;
  plan.max_model_len =
      options.max_model_len.value_or(model.options().max_position_embeddings);
  TIDEWHEEL_RETURN_IF_ERROR(PlanPageTable(options, plan));

  CapacityOptions capacity;
  capacity.hbm_bytes =
      options.hbm_bytes.value_or(options.chip.hbm_bytes) / options.chip.devices;
  capacity.hbm_utilization = options.hbm_utilization;
  capacity.weight_bytes = share.weight_bytes;
  capacity.reserve_bytes = options.reserve_bytes.value_or(
      EstimateActivationBytes(model, devices, options.max_num_batched_tokens,
                              options.max_num_seqs));
  capacity.page_size = plan.page_size;
  capacity.total_num_pages = options.total_num_pages;
  plan.reserve_is_estimate = !options.reserve_bytes.has_value();
  TIDEWHEEL_ASSIGN_OR_RETURN(plan.capacity, PlanCapacity(plan.kv, capacity));
  PlanLongestRequest(model, plan);
  return plan;
}

}  // namespace tidewheel
