#include "attention/pjrt/attention_programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/emitted_program.h"
#include "attention/pjrt/kernel_plan.h"
#include "attention/stablehlo/attention_program.h"

namespace tidewheel {

AttentionPrograms::AttentionPrograms(ProgramCache* programs, Options options)
    : programs_(programs),
      options_(std::move(options)),
      buckets_(options_.token_buckets.size()) {}

absl::StatusOr<std::unique_ptr<AttentionPrograms>> AttentionPrograms::Create(
    ProgramCache* programs, Options options) {
  TIDEWHEEL_CHECK(programs != nullptr);
  TIDEWHEEL_CHECK(!options.token_buckets.empty());
  TIDEWHEEL_CHECK(std::ranges::is_sorted(options.token_buckets));
  std::unique_ptr<AttentionPrograms> result(
      new AttentionPrograms(programs, std::move(options)));
  TIDEWHEEL_RETURN_IF_ERROR(CheckAttentionShape(
      result->ShapeOf(AttentionForm::kPrefill, result->buckets_.size() - 1)));
  return result;
}

AttentionProgramShape AttentionPrograms::ShapeOf(AttentionForm form,
                                                 size_t bucket) const {
  AttentionProgramShape shape = options_.shape;
  shape.form = form;
  shape.num_tokens = tokens(bucket);
  return shape;
}

size_t AttentionPrograms::BucketOf(int32_t tokens) const {
  const auto bucket = std::ranges::lower_bound(options_.token_buckets, tokens);
  TIDEWHEEL_CHECK(bucket != options_.token_buckets.end());
  return static_cast<size_t>(bucket - options_.token_buckets.begin());
}

void AttentionPrograms::NoteFallback(size_t bucket, absl::string_view reason) {
  if (options_.note == nullptr) return;
  // One reason for all buckets is one note.
  if (std::exchange(noted_, std::string(reason)) == reason) return;
  options_.note(absl::StrCat(
      "batches of ", tokens(bucket),
      " tokens run on a program emitted here, not on a kernel of '",
      options_.kernels->folder(), "': ", reason));
}

absl::StatusOr<std::unique_ptr<PjrtExecutable>>
AttentionPrograms::CompileKernel(size_t bucket) {
  const AttentionProgramShape shape = ShapeOf(AttentionForm::kPrefill, bucket);
  const KernelChoice choice =
      options_.kernels->Choose(KernelNeedOf(shape, options_.generation));
  if (choice.artifact == nullptr) return absl::NotFoundError(choice.reason);
  const KernelArtifact& artifact = *choice.artifact;
  if (artifact.bucket.num_tokens != shape.num_tokens ||
      artifact.bucket.max_num_seqs != shape.max_num_seqs ||
      artifact.bucket.pages_per_seq != shape.pages_per_seq) {
    return absl::NotFoundError(absl::StrCat(
        "the nearest, ", artifact.file, ", is for ", artifact.bucket.num_tokens,
        " tokens and a table of ", artifact.bucket.max_num_seqs, " x ",
        artifact.bucket.pages_per_seq, ", needed are ", shape.num_tokens,
        " and ", shape.max_num_seqs, " x ", shape.pages_per_seq,
        "; export one"));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckKernelFits(artifact));
  // Its arguments are those of the program that would be emitted.
  TIDEWHEEL_ASSIGN_OR_RETURN(const Program program, EmitAttention(shape));
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtSignature signature,
                             SignatureOfProgram(program));
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string bytes,
                             options_.kernels->Read(artifact));
  return programs_->Compile(bytes, signature);
}

absl::StatusOr<const PjrtExecutable*> AttentionPrograms::Get(AttentionForm form,
                                                             size_t index) {
  Bucket& bucket = buckets_[index];
  if (bucket.kernel != nullptr) return bucket.kernel.get();
  if (options_.kernels != nullptr && !bucket.kernel_asked) {
    bucket.kernel_asked = true;
    absl::StatusOr<std::unique_ptr<PjrtExecutable>> kernel =
        CompileKernel(index);
    if (kernel.ok()) {
      bucket.kernel = *std::move(kernel);
      return bucket.kernel.get();
    }
    NoteFallback(index, kernel.status().message());
  }
  std::unique_ptr<PjrtExecutable>& emitted =
      bucket.emitted[static_cast<size_t>(form)];
  if (emitted == nullptr) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        emitted,
        CompileEmitted(EmitAttention(ShapeOf(form, index)), *programs_));
  }
  return emitted.get();
}

absl::Status AttentionPrograms::Warm() {
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    TIDEWHEEL_RETURN_IF_ERROR(Get(AttentionForm::kPrefill, bucket).status());
    if (bucket > 0 && tokens(bucket - 1) >= options_.shape.max_num_seqs) {
      continue;
    }
    TIDEWHEEL_RETURN_IF_ERROR(Get(AttentionForm::kDecode, bucket).status());
  }
  return absl::OkStatus();
}

absl::Status AttentionPrograms::AddMemory(LaunchMemory& memory) const {
  for (const Bucket& bucket : buckets_) {
    for (const PjrtExecutable* executable :
         {bucket.kernel.get(), bucket.emitted[0].get(),
          bucket.emitted[1].get()}) {
      if (executable == nullptr) continue;
      TIDEWHEEL_RETURN_IF_ERROR(memory.Add(*executable, /*takes_pool=*/true));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
