#include "attention/tpu_chip.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidewheel {
namespace {

// HBM, rates, VMEM and SMEM: jax/_src/tpu_info.py at cec06d116c, whose figures
// per core are multiplied by the cores. HBM there is 32 GiB for v6e, rounded
// to three digits. ICI per link and direction: Google Cloud's system pages;
// that of v7x is not stated there.
constexpr TpuChip kChips[] = {{.name = "v4",
                               .tensor_cores = 2,
                               .devices = 1,
                               .hbm_bytes = 34'400'000'000,
                               .hbm_bytes_per_s = 1.23e12,
                               .bf16_flops_per_s = 275e12,
                               .vmem_bytes_per_core = 16'777'216,
                               .smem_bytes_per_core = 1'048'576,
                               .ici_bytes_per_s_per_link = 45e9},
                              {.name = "v5e",
                               .tensor_cores = 1,
                               .devices = 1,
                               .hbm_bytes = 17'200'000'000,
                               .hbm_bytes_per_s = 0.82e12,
                               .bf16_flops_per_s = 197e12,
                               .int8_ops_per_s = 394e12,
                               .vmem_bytes_per_core = 134'217'728,
                               .smem_bytes_per_core = 1'048'576,
                               .ici_bytes_per_s_per_link = 45e9},
                              {.name = "v5p",
                               .tensor_cores = 2,
                               .devices = 1,
                               .hbm_bytes = 103'000'000'000,
                               .hbm_bytes_per_s = 2.46e12,
                               .bf16_flops_per_s = 459e12,
                               .int8_ops_per_s = 918e12,
                               .vmem_bytes_per_core = 67'108'864,
                               .smem_bytes_per_core = 1'048'576,
                               .ici_bytes_per_s_per_link = 90e9},
                              {.name = "v6e",
                               .tensor_cores = 1,
                               .devices = 1,
                               .hbm_bytes = 34'400'000'000,
                               .hbm_bytes_per_s = 1.64e12,
                               .bf16_flops_per_s = 920e12,
                               .int8_ops_per_s = 1840e12,
                               .fp8_flops_per_s = 920e12,
                               .vmem_bytes_per_core = 134'217'728,
                               .smem_bytes_per_core = 1'048'576,
                               .ici_bytes_per_s_per_link = 90e9},
                              {.name = "v7x",
                               .tensor_cores = 2,
                               .devices = 2,
                               .hbm_bytes = 206'000'000'000,
                               .hbm_bytes_per_s = 7.40e12,
                               .bf16_flops_per_s = 2310e12,
                               .fp8_flops_per_s = 4600e12,
                               .vmem_bytes_per_core = 67'108'864,
                               .smem_bytes_per_core = 1'048'576,
                               .ici_bytes_per_s_per_link = 0}};

constexpr std::pair<absl::string_view, absl::string_view> kAliases[] = {
    {"v5litepod", "v5e"}, {"v5lite", "v5e"}, {"trillium", "v6e"},
    {"v7", "v7x"},        {"7x", "v7x"},     {"ironwood", "v7x"}};

}  // namespace

std::span<const TpuChip> TpuChips() { return kChips; }

absl::StatusOr<TpuChip> FindTpuChip(absl::string_view name) {
  std::string key = absl::AsciiStrToLower(name);
  if (key.rfind("tpu-", 0) == 0) key.erase(0, 4);
  if (key.rfind("tpu", 0) == 0) key.erase(0, 3);
  for (const auto& [alias, chip] : kAliases) {
    if (key == alias) key = std::string(chip);
  }
  std::vector<absl::string_view> names;
  for (const TpuChip& chip : kChips) {
    if (chip.name == key) return chip;
    names.push_back(chip.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("TPU chip \"", name, "\" is not known; give one of ",
                   absl::StrJoin(names, ", ")));
}

}  // namespace tidewheel
