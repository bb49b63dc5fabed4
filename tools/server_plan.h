// ServerPlan: how a model is laid out on a group of chips.
//
// From a model, chips and limits it derives what a server must decide before
// it starts: the page size, the pages, the page table's rows and columns, and
// whether that table fits a TPU's scalar memory. `plan` prints it, and a
// simulation starts from the same numbers. It allocates no pages.
//
// All byte counts are those of one device, which is a chip, except on chips
// that JAX shows as two devices.

#ifndef TIDEWHEEL_TOOLS_SERVER_PLAN_H_
#define TIDEWHEEL_TOOLS_SERVER_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "allocator/capacity_plan.h"
#include "allocator/kv_cache_shape.h"
#include "allocator/page_table.h"
#include "attention/model_shape.h"
#include "attention/tpu_chip.h"

namespace tidewheel {

struct ServerPlanOptions {
  TpuChip chip;
  int32_t chips = 1;                 // that share one copy of the model
  std::optional<int64_t> hbm_bytes;  // of a chip, instead of the chip's own
  double hbm_utilization = 0.9;
  // Kept free on each device; by default an estimate of the activations.
  std::optional<int64_t> reserve_bytes;
  KvDtype kv_dtype = KvDtype::kBf16;
  int32_t max_num_seqs = 256;
  std::optional<int32_t> max_model_len;  // by default the model's own
  int32_t max_num_batched_tokens = 2048;
  // By default the smallest power of two from 16 whose table fits.
  std::optional<int32_t> page_size;
  std::optional<int64_t> total_num_pages;  // by default as many as fit
  // Scalar memory that the page table must fit; absent: no such limit, as on
  // other hardware and in studies of page sizes.
  std::optional<int64_t> smem_bytes = kTpuSmemBytes;
};

struct ServerPlan {
  explicit ServerPlan(const KvCacheShape& kv_shape) : kv(kv_shape) {}

  int32_t devices = 0;
  KvCacheShape kv;
  CapacityPlan capacity;
  bool reserve_is_estimate = false;

  int32_t max_num_seqs = 0;
  int32_t max_model_len = 0;
  int32_t max_num_batched_tokens = 0;
  int32_t page_size = 0;
  bool page_size_is_chosen = false;
  int32_t pages_per_seq = 0;

  int64_t smem_bytes = 0;            // what the page table needs
  int64_t smem_limit_bytes = 0;      // 0: no limit
  int32_t smallest_page_size = 0;    // whose table fits; 0: no limit
  int32_t largest_max_num_seqs = 0;  // at this page size; 0: no limit

  // Requests of max_model_len that the pool holds at once; below 1 the longest
  // request that can run is longest_request_tokens.
  double longest_requests_at_once = 0;
  int32_t longest_request_tokens = 0;
  std::vector<std::string> notes;  // what a user should reconsider
};

// Bytes that a device needs for the intermediate values of a step: the widest
// layer of `max_num_batched_tokens` tokens, and the logits of `max_num_seqs`
// rows in f32. An estimate: what the compiler keeps is not published.
int64_t EstimateActivationBytes(const ModelShape& model, int32_t devices,
                                int32_t max_num_batched_tokens,
                                int32_t max_num_seqs);

// Errors: InvalidArgument for limits that can not be (a page table that
// exceeds the scalar memory names the smallest page size and the most rows
// that fit); those of PlanCapacity and ModelShape::Share.
absl::StatusOr<ServerPlan> PlanServer(const ModelShape& model,
                                      const ServerPlanOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_SERVER_PLAN_H_
