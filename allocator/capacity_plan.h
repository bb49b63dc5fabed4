// PlanCapacity: how many KV pages fit into the memory of a chip.
//
//   budget    = HBM x utilisation
//   KV budget = budget - weights - reserve            (signed)
//   pages     = floor(KV budget / bytes per page)     (page 0 is the null page)
//   usable    = pages - 1
//
// It is not a policy: nothing is rounded up, clamped or resized to make a
// configuration work. A configuration that leaves no page to lend is an error
// that names every number in it. All intermediate values stay in the result,
// so that a person can follow the arithmetic.
//
// Utilisation is a fraction of the chip's whole HBM, not of what is free when
// the server starts. More utilisation never gives fewer pages.
//
// Thread-safety: pure functions of values. Never allocates, except for errors.

#ifndef TIDEWHEEL_ALLOCATOR_CAPACITY_PLAN_H_
#define TIDEWHEEL_ALLOCATOR_CAPACITY_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "allocator/kv_cache_shape.h"

namespace tidewheel {

// Every byte count is that of one chip: in a group, each chip holds the same
// pages, with its own share of the heads.
struct CapacityOptions {
  int64_t hbm_bytes = 0;
  double hbm_utilization = 0.9;  // in (0, 1], of hbm_bytes
  int64_t weight_bytes = 0;
  int64_t reserve_bytes = 0;  // activations, and whatever else is kept free
  int32_t page_size = 0;      // tokens
  // Pages to have, page 0 included, instead of as many as fit.
  std::optional<int64_t> total_num_pages;
};

struct CapacityPlan {
  int64_t hbm_bytes = 0;
  double hbm_utilization = 0;
  int64_t budget_bytes = 0;  // floor(hbm_bytes x hbm_utilization)
  int64_t weight_bytes = 0;
  int64_t reserve_bytes = 0;
  int64_t kv_budget_bytes = 0;  // budget - weights - reserve
  int64_t bytes_per_token = 0;
  int64_t unpadded_bytes_per_token = 0;
  int32_t page_size = 0;  // tokens
  int64_t bytes_per_page = 0;
  int32_t total_num_pages = 0;   // the null page included
  int32_t usable_num_pages = 0;  // total - 1
  int64_t usable_tokens = 0;     // usable_num_pages x page_size
  int64_t kv_bytes = 0;          // total_num_pages x bytes_per_page
  int64_t unused_bytes = 0;      // kv_budget_bytes - kv_bytes
};

// The plan for one chip of a group whose cache has shape `kv`.
//
// Errors: InvalidArgument where a number has no meaning (utilisation outside
// (0, 1] or NaN, negative bytes, page_size below 1, a pool without a page to
// lend); ResourceExhausted where the budget is negative, has no room for two
// pages, or has none for the pages asked for; OutOfRange where a number of
// pages or bytes can not be represented.
absl::StatusOr<CapacityPlan> PlanCapacity(const KvCacheShape& kv,
                                          const CapacityOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_CAPACITY_PLAN_H_
