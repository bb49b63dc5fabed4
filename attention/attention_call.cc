#include "attention/attention_call.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/contract_strict_checks.h"

namespace tidewheel {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

template <typename Pointer>
std::string Shape(const BasicHeadsView<Pointer>& view) {
  return absl::StrCat(ScalarTypeName(view.type), "[", view.num_tokens, ", ",
                      view.num_heads, ", ", view.head_dim, "]");
}

// `view` must be [num_tokens, num_heads, head_dim] and have an array.
template <typename Pointer>
absl::Status CheckHeadsView(absl::string_view name,
                            const BasicHeadsView<Pointer>& view,
                            int64_t num_tokens, int64_t num_heads,
                            int64_t head_dim) {
  if (view.num_tokens != num_tokens || view.num_heads != num_heads ||
      view.head_dim != head_dim) {
    return Invalid(name, " is ", Shape(view), " and must have shape [",
                   num_tokens, ", ", num_heads, ", ", head_dim,
                   "]; pass the tensor that the batch was planned for");
  }
  if (view.data == nullptr && view.num_elements() > 0) {
    return Invalid(name, " is ", Shape(view),
                   " without an array; give its data");
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const HeadsView& q, const KvPagesView& kv_pages,
                          const RaggedBatch& batch,
                          const MutableHeadsView& out) {
  if (q.type != ScalarType::kFloat32 && q.type != ScalarType::kBfloat16) {
    return Invalid("q is ", ScalarTypeName(q.type),
                   " and must be float32 or "
                   "bfloat16; convert the queries");
  }
  if (q.num_heads < 1 || q.head_dim < 1) {
    return Invalid("q is ", Shape(q),
                   " and must have at least 1 head and 1 "
                   "dimension");
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckHeadsView("q", q, batch.max_num_batched_tokens,
                                           q.num_heads, q.head_dim));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckHeadsView("out", out, q.num_tokens, q.num_heads, q.head_dim));
  if (out.type != q.type) {
    return Invalid("out is ", ScalarTypeName(out.type),
                   " and must have q's "
                   "type ",
                   ScalarTypeName(q.type));
  }
  if (kv_pages.head_dim != q.head_dim) {
    return Invalid("Q head_dim ", q.head_dim,
                   " must be the same as that of "
                   "K/V ",
                   kv_pages.head_dim,
                   "; the pages belong to another "
                   "model");
  }
  if (kv_pages.num_combined_kv_heads < 2 ||
      kv_pages.num_combined_kv_heads % 2 != 0 ||
      q.num_heads % kv_pages.num_kv_heads() != 0) {
    return Invalid("num_q_heads ", q.num_heads,
                   " must be a multiple of "
                   "num_kv_heads, half of the pages' ",
                   kv_pages.num_combined_kv_heads, " combined heads");
  }
  if (kv_pages.total_num_pages != batch.total_num_pages ||
      kv_pages.page_size != batch.page_size) {
    return Invalid("kv_pages has ", kv_pages.total_num_pages, " pages of ",
                   kv_pages.page_size, " tokens and the batch names ",
                   batch.total_num_pages, " of ", batch.page_size,
                   "; pass the pool that the page table belongs to");
  }
  if (kv_pages.data == nullptr && kv_pages.num_elements() > 0) {
    return Invalid("kv_pages has no array; give its data");
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(absl::string_view name, std::optional<float> value) {
  if (!value.has_value() || std::isfinite(*value)) return absl::OkStatus();
  return Invalid(name, " is ", *value, " and must be a finite number");
}

absl::Status CheckBatch(const RaggedBatch& batch,
                        const AttentionOptions& options,
                        WrittenPages written_pages) {
  TIDEWHEEL_RETURN_IF_ERROR(ValidateDynamic(batch));
  StrictRules rules = {.scheduler_layout = false,
                       .written_pages = written_pages,
                       .max_findings = 1};
  rules.allow_empty_rows = options.empty_rows == EmptyRows::kSkip;
  if (options.mask_value <= kHidingMaskValue) {
    rules.sliding_window = options.sliding_window;
  }
  const std::vector<std::string> findings = StrictFindings(batch, rules);
  if (!findings.empty()) return Invalid(findings.front());
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAttentionOptions(const AttentionOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckFinite("sm_scale", options.sm_scale));
  TIDEWHEEL_RETURN_IF_ERROR(CheckFinite("soft_cap", options.soft_cap));
  TIDEWHEEL_RETURN_IF_ERROR(CheckFinite("k_scale", options.k_scale));
  TIDEWHEEL_RETURN_IF_ERROR(CheckFinite("v_scale", options.v_scale));
  if (options.sliding_window.has_value() && *options.sliding_window <= 0) {
    return Invalid("sliding_window ", *options.sliding_window,
                   " must be positive; leave it out for full attention");
  }
  if (options.soft_cap.has_value() && *options.soft_cap == 0) {
    return Invalid("soft_cap ", *options.soft_cap,
                   " must not be 0; leave it out for no cap");
  }
  if (std::isnan(options.mask_value) || options.mask_value == HUGE_VALF) {
    return Invalid("mask_value is ", options.mask_value,
                   " and must be a "
                   "number below infinity; the default is ",
                   kDefaultMaskValue);
  }
  return absl::OkStatus();
}

absl::Status CheckFusedAttentionOptions(const AttentionOptions& options) {
  for (const auto& [name, scale] : {std::pair("k_scale", options.k_scale),
                                    std::pair("v_scale", options.v_scale)}) {
    if (scale.has_value() && *scale == 0) {
      return Invalid(name,
                     " is 0 and this step's values are divided by it; "
                     "give the scale that the pages are stored with");
    }
  }
  return CheckAttentionOptions(options);
}

absl::Status CheckAttentionCall(const HeadsView& q, const KvPagesView& kv_pages,
                                const RaggedBatch& batch,
                                const AttentionOptions& options,
                                const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckTensors(q, kv_pages, batch, out));
  TIDEWHEEL_RETURN_IF_ERROR(CheckAttentionOptions(options));
  return CheckBatch(batch, options, WrittenPages::kAreWrittenAlready);
}

absl::Status CheckFusedAttentionCall(const HeadsView& q, const HeadsView& k,
                                     const HeadsView& v,
                                     const KvPagesView& kv_pages,
                                     const RaggedBatch& batch,
                                     const AttentionOptions& options,
                                     const MutableHeadsView& out) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckTensors(q, kv_pages, batch, out));
  for (const auto& [name, view] : {std::pair("k", &k), std::pair("v", &v)}) {
    TIDEWHEEL_RETURN_IF_ERROR(CheckHeadsView(
        name, *view, q.num_tokens, kv_pages.num_kv_heads(), q.head_dim));
    if (view->type != kv_pages.type && view->type != ScalarType::kFloat32 &&
        view->type != ScalarType::kBfloat16) {
      return Invalid(name, " is ", ScalarTypeName(view->type),
                     " and must be "
                     "float32, bfloat16 or the pages' ",
                     ScalarTypeName(kv_pages.type));
    }
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckFusedAttentionOptions(options));
  return CheckBatch(batch, options, WrittenPages::kAreWrittenNow);
}

}  // namespace tidewheel
