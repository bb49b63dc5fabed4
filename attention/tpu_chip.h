// TpuChip: the published figures of one kind of TPU chip.
//
// A table of facts with their source. It holds peaks; what a program reaches
// of them is in TpuCostConstants.
//
// All figures are per chip. JAX shows a v7x chip as two devices, each with
// half of them, and a model is sharded over devices: `devices` says how many.
// v4 and v5p chips have two cores as well but run as one device (megacore).
//
// Thread-safety: constants.

#ifndef TIDEWHEEL_ATTENTION_TPU_CHIP_H_
#define TIDEWHEEL_ATTENTION_TPU_CHIP_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

struct TpuChip {
  absl::string_view name;
  int32_t tensor_cores = 0;
  int32_t devices = 0;  // as JAX counts them
  int64_t hbm_bytes = 0;
  double hbm_bytes_per_s = 0;
  double bf16_flops_per_s = 0;
  double int8_ops_per_s = 0;   // 0: no faster than bf16, or not stated
  double fp8_flops_per_s = 0;  // 0: no faster than bf16, or not stated
  int64_t vmem_bytes_per_core = 0;
  int64_t smem_bytes_per_core = 0;
  double ici_bytes_per_s_per_link = 0;  // one direction; 0: not stated
};

// Every chip known, by generation.
std::span<const TpuChip> TpuChips();

// The chip of that name: "v4", "v5e", "v5p", "v6e", "v7x", and what else
// they are called ("v5litepod", "trillium", "ironwood", "tpu7x"); case does
// not matter.
//
// Errors: InvalidArgument that lists the names.
absl::StatusOr<TpuChip> FindTpuChip(absl::string_view name);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TPU_CHIP_H_
