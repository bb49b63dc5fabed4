#include "allocator/capacity_plan.h"

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

// 1 PiB on one chip. Below 2^53, so that HBM x utilisation is computed in
// double without losing a byte at utilisation 1.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

absl::Status CheckBytes(absl::string_view name, int64_t bytes, int64_t min) {
  if (bytes >= min && bytes <= kMaxBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("capacity: ", name, " ", bytes, " is outside [", min, ", ",
                   kMaxBytes, "]; give the bytes of one chip"));
}

absl::Status CheckOptions(const CapacityOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckBytes("hbm_bytes", options.hbm_bytes, 1));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckBytes("weight_bytes", options.weight_bytes, 0));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckBytes("reserve_bytes", options.reserve_bytes, 0));
  // Written so that NaN fails it.
  if (!(options.hbm_utilization > 0 && options.hbm_utilization <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity: hbm_utilization ", options.hbm_utilization,
        " is outside (0, 1]; give the fraction of a chip's whole HBM that "
        "weights, reserve and KV pages may use, such as 0.9"));
  }
  if (options.total_num_pages.has_value() && *options.total_num_pages < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity: total_num_pages ", *options.total_num_pages,
        " leaves no page to lend, since page 0 is the null page; give at "
        "least 2"));
  }
  return absl::OkStatus();
}

// "HBM 34400000000 B x utilisation 0.9 = 30960000000 B - weights ..."
std::string Arithmetic(const CapacityPlan& plan) {
  return absl::StrCat("HBM ", plan.hbm_bytes, " B x utilisation ",
                      plan.hbm_utilization, " = ", plan.budget_bytes,
                      " B - weights ", plan.weight_bytes, " B - reserve ",
                      plan.reserve_bytes, " B = ", plan.kv_budget_bytes, " B");
}

constexpr char kRemedy[] =
    "raise hbm_utilization, use more or larger chips, or quantise the weights";

// Pages to have: what was asked for, or what fits.
absl::StatusOr<int64_t> ChoosePages(const CapacityPlan& plan,
                                    const CapacityOptions& options) {
  if (plan.kv_budget_bytes < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "capacity: nothing is left for KV pages: ", Arithmetic(plan), "; ",
        kRemedy));
  }
  const int64_t fitting = plan.kv_budget_bytes / plan.bytes_per_page;
  if (!options.total_num_pages.has_value()) {
    if (fitting >= 2) return fitting;
    return absl::ResourceExhaustedError(absl::StrCat(
        "capacity: no KV page fits beside the null page: ", Arithmetic(plan),
        ", and two pages of ", plan.page_size, " tokens need 2 x ",
        plan.bytes_per_page, " B; ", kRemedy, ", or choose smaller pages"));
  }
  if (*options.total_num_pages <= fitting) return *options.total_num_pages;
  return absl::ResourceExhaustedError(absl::StrCat(
      "capacity: total_num_pages ", *options.total_num_pages, " of ",
      plan.bytes_per_page, " B do not fit: ", Arithmetic(plan), " hold ",
      fitting, " pages; ask for at most ", fitting, ", or ", kRemedy));
}

}  // namespace

absl::StatusOr<CapacityPlan> PlanCapacity(const KvCacheShape& kv,
                                          const CapacityOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckOptions(options));
  CapacityPlan plan;
  plan.hbm_bytes = options.hbm_bytes;
  plan.hbm_utilization = options.hbm_utilization;
  plan.budget_bytes = static_cast<int64_t>(
      static_cast<double>(options.hbm_bytes) * options.hbm_utilization);
  plan.weight_bytes = options.weight_bytes;
  plan.reserve_bytes = options.reserve_bytes;
  plan.kv_budget_bytes =
      plan.budget_bytes - plan.weight_bytes - plan.reserve_bytes;
  plan.bytes_per_token = kv.bytes_per_token();
  plan.unpadded_bytes_per_token = kv.unpadded_bytes_per_token();
  plan.page_size = options.page_size;
  TIDEWHEEL_ASSIGN_OR_RETURN(plan.bytes_per_page,
                             kv.BytesPerPage(options.page_size));

  TIDEWHEEL_ASSIGN_OR_RETURN(const int64_t pages, ChoosePages(plan, options));
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max();
  if (pages > kMaxPages) {
    return absl::OutOfRangeError(absl::StrCat(
        "capacity: ", pages, " pages of ", options.page_size, " tokens exceed ",
        kMaxPages, ", the largest 32-bit page id; choose a larger page_size"));
  }
  plan.total_num_pages = static_cast<int32_t>(pages);
  plan.usable_num_pages = plan.total_num_pages - 1;
  // Both factors are below 2^31, and the bytes are at most the KV budget.
  plan.usable_tokens =
      static_cast<int64_t>(plan.usable_num_pages) * options.page_size;
  plan.kv_bytes = pages * plan.bytes_per_page;
  plan.unused_bytes = plan.kv_budget_bytes - plan.kv_bytes;
  return plan;
}

}  // namespace tidewheel
