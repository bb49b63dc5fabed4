// LimitsCsv: verdicts of the TPU compiler, one a row, as `tidewheel check
// --against` reads them.
//
// Columns are found by their names, in any order: chip, libtpu, sweep,
// q_heads, kv_heads, head_dim, page_size, q_dtype, kv_dtype, max_num_seqs,
// pages_per_seq, max_num_batched_tokens, bkv_pages, bq, vmem_limit (empty: the
// default), verdict (ok, fail, refused, timeout) and error_class. Optional and
// not compared: needed_bytes, limit_bytes, temp_bytes, alias_bytes, compile_s.
// Optional: kv_scales ("none", "both"), which says whether k_scale and v_scale
// were given; a file without it is read as "none".
//
// It reads and checks; what a row means is limits_against.h's.
//
// Thread-safety: pure functions. They allocate.

#ifndef TIDEWHEEL_TOOLS_LIMITS_CSV_H_
#define TIDEWHEEL_TOOLS_LIMITS_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/kernel_shape.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct CompileVerdict {
  int64_t line = 0;
  std::string sweep;
  std::string libtpu;
  TpuGeneration generation = TpuGeneration::kV5e;
  KernelShape shape;
  // "fail" and "refused" are both not ok.
  bool ok = false;
  // The compile was given up: neither ok nor not.
  bool timed_out = false;
  std::string error_class;  // empty if ok

  // The shape and where it was compiled, in one line, without the limit.
  std::string ShapeName() const;
};

// Errors: InvalidArgument with the line for a missing, doubled or unknown
// column, another count of fields than the header's, or a field that is not
// what its column says.
absl::StatusOr<std::vector<CompileVerdict>> ReadLimitsCsv(
    absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_LIMITS_CSV_H_
