// Which programs `tidewheel check --tpu-compile` compiles: those that a server
// of a configuration needs, or those of a JSON file.
//
// The file is a list of objects. num_tokens, max_num_seqs, pages_per_seq,
// num_q_heads, num_kv_heads, head_dim and page_size are needed; "form" is
// "decode" or "prefill" (absent: both). Further total_num_pages, q_dtype,
// kv_dtype, new_kv_dtype, sm_scale, sliding_window, soft_cap, mask_value,
// k_scale, v_scale, and generations, a list of chips. The names are those of
// tools/export_tpu_kernel.py, whose fields about blocks are ignored.
//
// Thread-safety: pure functions, but for reading the file.

#ifndef TIDEWHEEL_TOOLS_PJRT_COMPILE_SHAPES_H_
#define TIDEWHEEL_TOOLS_PJRT_COMPILE_SHAPES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/tpu_generation.h"
#include "tools/config_check.h"
#include "tools/pjrt/compile_job.h"

namespace tidewheel {

enum class ServerPrograms {
  kLargest,  // the largest decode and the largest prefill
  kAll       // every bucket of tokens
};

// Of one chip. Where num_pages is absent the pool has 512 MiB, or more if a
// sequence or the temporary memory needs it, so that a copy of it would show.
//
// Errors: InvalidArgument for sizes that are none, heads that do not divide
// and types that no program has.
absl::StatusOr<std::vector<CompileJob>> JobsOfConfiguration(
    const ConfigurationShape& configuration, ServerPrograms which);

// `generation` is that of shapes without their own.
//
// Errors: InvalidArgument, with the place in the file, for anything that is not
// as above; NotFound if there is no such file.
absl::StatusOr<std::vector<CompileJob>> ReadCompileShapes(
    const std::string& path, TpuGeneration generation);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_COMPILE_SHAPES_H_
