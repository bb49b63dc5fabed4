// TpuCostConstants: what a serving program reaches of a TPU's published peaks,
// and what it pays beside them.
//
// One table holds every constant with its default, its range, its unit and
// the measurement that it comes from; the default constructor reads it, and a
// file of overrides is checked against it. It holds nothing of a chip (TpuChip)
// or a model (ModelShape).
//
// The defaults come from single-operation measurements where there are any;
// the constants per step are what complete servers then leave unexplained.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_TPU_COST_CONSTANTS_H_
#define TIDEWHEEL_ATTENTION_TPU_COST_CONSTANTS_H_

#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

struct TpuCostConstants {
  // The defaults of TpuCostConstantTable().
  TpuCostConstants();

  double weight_stream_efficiency;
  double matmul_efficiency;
  double kv_read_efficiency;
  double attention_efficiency;
  double attention_block_query_rows;
  double layer_overhead_s;
  double step_overhead_s;
  double group_step_overhead_s;
  double link_latency_s;
  double link_efficiency;
  double link_directions;
  double unstated_link_bytes_per_s;
};

struct TpuCostConstantEntry {
  absl::string_view name;
  double TpuCostConstants::*field;
  double default_value;
  double min;
  double max;
  absl::string_view unit;
  absl::string_view source;
};

// Every constant, in the order of the struct.
std::span<const TpuCostConstantEntry> TpuCostConstantTable();

// Sets the constant called `name`.
//
// Errors: InvalidArgument where no constant has that name (lists them), or
// where the value is outside its range or NaN.
absl::Status SetTpuCostConstant(TpuCostConstants& constants,
                                absl::string_view name, double value);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TPU_COST_CONSTANTS_H_
