// AttentionPrograms: the executables that run a layer's attention, one for
// each number of tokens and form, compiled when they are first needed.
//
// On a TPU an ahead-of-time kernel serves a bucket of tokens if the library
// has one that fits; everything else is emitted here. Which buckets are
// emitted although there is a library, and why, is told to `note` once.
//
// It holds no arrays: launches take the pool and the batch's arrays.
//
// Lifecycle: 1. Create. 2. Warm, or let Get compile while it serves. 3. Get
// for each step: O(log buckets) and no allocation once it is compiled.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_ATTENTION_PJRT_ATTENTION_PROGRAMS_H_
#define TIDEWHEEL_ATTENTION_PJRT_ATTENTION_PROGRAMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/kernel_library.h"
#include "attention/pjrt/launch_memory.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/program_cache.h"
#include "attention/stablehlo/attention_program_shape.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

class AttentionPrograms {
 public:
  struct Options {
    // Form and num_tokens are set for each program.
    AttentionProgramShape shape;
    std::vector<int32_t> token_buckets;  // increasing
    // Null: everything is emitted. Outlives this object.
    const KernelLibrary* kernels = nullptr;
    // Of the device, where there are kernels.
    TpuGeneration generation = TpuGeneration::kV5e;
    PjrtNote note = nullptr;
  };

  // `programs` outlives this object.
  //
  // Errors: those of CheckAttentionShape for the largest bucket.
  static absl::StatusOr<std::unique_ptr<AttentionPrograms>> Create(
      ProgramCache* programs, Options options);

  AttentionPrograms(const AttentionPrograms&) = delete;
  AttentionPrograms& operator=(const AttentionPrograms&) = delete;

  // The bucket of a step, and its tokens.
  // REQUIRES: tokens is at most the largest bucket.
  size_t BucketOf(int32_t tokens) const;
  int32_t tokens(size_t bucket) const { return options_.token_buckets[bucket]; }

  // kDecode for steps whose rows have one query token at most.
  //
  // Errors: the compiler's.
  absl::StatusOr<const PjrtExecutable*> Get(AttentionForm form, size_t bucket);

  // Compiles everything. A decode has at most max_num_seqs tokens.
  absl::Status Warm();

  // Over the programs compiled so far.
  absl::Status AddMemory(LaunchMemory& memory) const;

 private:
  static constexpr size_t kNumForms = 2;
  struct Bucket {
    // A kernel takes both forms.
    std::unique_ptr<PjrtExecutable> kernel;
    bool kernel_asked = false;
    std::array<std::unique_ptr<PjrtExecutable>, kNumForms> emitted;
  };

  AttentionPrograms(ProgramCache* programs, Options options);

  AttentionProgramShape ShapeOf(AttentionForm form, size_t bucket) const;
  // The bucket's kernel, compiled; or why there is none.
  absl::StatusOr<std::unique_ptr<PjrtExecutable>> CompileKernel(size_t bucket);
  void NoteFallback(size_t bucket, absl::string_view reason);

  ProgramCache* const programs_;
  const Options options_;
  std::vector<Bucket> buckets_;
  std::string noted_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_ATTENTION_PROGRAMS_H_
