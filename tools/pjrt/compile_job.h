// CompileJob: one program that a TPU compiler is to be asked about, and what
// is predicted of its answer.
//
// Two kinds: the programs of attention/stablehlo, which must compile with
// their pool in place and within AttentionTempBound, and JAX's kernels exported
// ahead of time, for which tpu_limits predicts the verdict.
//
// Thread-safety: values. `read` may be called from any one thread.

#ifndef TIDEWHEEL_TOOLS_PJRT_COMPILE_JOB_H_
#define TIDEWHEEL_TOOLS_PJRT_COMPILE_JOB_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/kernel_shape.h"
#include "attention/stablehlo/attention_program_shape.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct CompilePrediction {
  // A class of limit_finding.h; empty: it compiles.
  std::string failure;
  // Only a bound says that it fails: Verdict::may_compile.
  bool may_compile = false;
  std::string text;
  // Of the memory that the text speaks of, where it is about one.
  std::optional<int64_t> needed_bytes;
  std::optional<int64_t> limit_bytes;
  // Upper bound of temporary memory, where there is one.
  std::optional<int64_t> temp_bound_bytes;

  bool compiles() const { return failure.empty(); }
};

struct CompileJob {
  TpuGeneration generation = TpuGeneration::kV5e;
  std::string program;  // "decode", "prefill", "kernel"
  // Sizes and types; of a kernel those that it has, too.
  AttentionProgramShape shape;
  // Only a kernel's: its blocks, as num_kv_pages_per_block x
  // num_queries_per_block.
  std::optional<KernelShape> kernel;
  // Only a kernel's: its file in the folder. Kernels of one size may differ in
  // options that no other field has.
  std::string file;
  int64_t pool_bytes = 0;  // donated
  CompilePrediction prediction;
  // StableHLO, text or bytecode.
  std::function<absl::StatusOr<std::string>()> read;

  // "v5e decode: 64 tokens, 64 x 128 pages of 16, heads 32/8 x 128,
  // bfloat16/bfloat16"; of a kernel its blocks and its file too.
  std::string Name() const;
};

// Errors: those of CheckAttentionShape.
absl::StatusOr<CompileJob> JobOfShape(TpuGeneration generation,
                                      const AttentionProgramShape& shape);

// A class of limit_finding.h for what a TPU compiler said, "oom_hbm" where the
// device's memory is short, or "other". Texts of libtpu 0.0.42.1 and 0.0.52.
absl::string_view ClassOfCompilerError(absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_COMPILE_JOB_H_
