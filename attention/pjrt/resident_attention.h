// ResidentAttention: attention of a server's steps over KV pages that stay on
// the device.
//
// The caller owns the model: it makes q, k and v on the device, layer by layer,
// and takes the output there. This owns the pages of every layer, the device's
// page table, and the programs. It knows nothing of requests or tokens.
//
// Lifecycle:
//   1. Create, and Warm so that no step waits for a compiler.
//   2. For each step: BeginStep sends what changed of the table and starts the
//      page copies; RunLayer for each layer, in any order; EndStep. Nothing
//      waits for the device, so the next step may begin.
//   3. AwaitOldest waits for the step that began first; DropOldest does not.
//      At most kMaxStepsInFlight are neither awaited nor dropped.
//   4. After an error of the device the pages hold errors: everything gives
//      FailedPrecondition until Reset, after which all pages are zero and
//      whoever used them computes anew.
//
// changed_rows is relative to the last step that BeginStep took, or to an
// older one where it also names what changed since: StepPlan::changed_rows.
// A step that failed on the way (AbandonStep) may have changed the table; that
// does not matter to the next one, which names its rows again.
//
// Invariants: page 0 is zero; a refused call changes nothing; no launch copies
// a pool.
//
// Thread-safety: one call at a time.
// Allocation: a step allocates in the plugin, and here for errors only.

#ifndef TIDEWHEEL_ATTENTION_PJRT_RESIDENT_ATTENTION_H_
#define TIDEWHEEL_ATTENTION_PJRT_RESIDENT_ATTENTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "allocator/page_allocator_options.h"
#include "attention/pjrt/attention_programs.h"
#include "attention/pjrt/device_pools.h"
#include "attention/pjrt/device_table.h"
#include "attention/pjrt/kernel_library.h"
#include "attention/pjrt/launch_memory.h"
#include "attention/pjrt/pjrt_buffer.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/pjrt/program_cache.h"
#include "attention/pjrt/resident_attention_options.h"
#include "attention/ragged_batch.h"
#include "attention/tensor_view.h"

namespace tidewheel {

class ResidentAttention {
 public:
  static constexpr size_t kMaxStepsInFlight = 2;

  struct MemoryReport {
    int64_t pool_bytes = 0;   // all layers, as the device stores them
    int64_t table_bytes = 0;  // 0 before the first step
    LaunchMemory launches;    // of the programs compiled so far
  };

  // Errors: InvalidArgument for options that do not fit; those of
  // KernelLibrary::Load; the compiler's and the device's.
  static absl::StatusOr<std::unique_ptr<ResidentAttention>> Create(
      std::shared_ptr<const PjrtClient> client,
      ResidentAttentionOptions options);

  ResidentAttention(const ResidentAttention&) = delete;
  ResidentAttention& operator=(const ResidentAttention&) = delete;

  // Compiles every program. Without it they are compiled as steps need them.
  absl::Status Warm();

  // Errors: FailedPrecondition if a step is open, two are in flight, or Reset
  // is due; InvalidArgument for a batch that does not fit (DeviceTable::Check)
  // and for copies out of range; the compiler's and the plugin's. The step has
  // not begun then.
  absl::Status BeginStep(const RaggedBatch& batch,
                         std::span<const int32_t> changed_rows,
                         std::span<const PageCopy> copies);

  // Tokens of the open step with padding: rows of q, k, v and the output.
  int32_t step_tokens() const { return step_tokens_; }
  // What RunLayer takes and gives in the open step. Where a CPU plugin's pool
  // is declared as bits, so are k and v of its type.
  const PjrtShape& q_shape() const;
  const PjrtShape& kv_shape() const;

  // Writes k and v into the layer's pages and attends; `out` becomes
  // [step_tokens, num_q_heads, head_dim], of q's type, zero in padding rows.
  // It may be q itself.
  //
  // Errors: FailedPrecondition without an open step or where Reset is due;
  // InvalidArgument for arrays that are not of these shapes, with nothing
  // changed; the plugin's.
  absl::Status RunLayer(int32_t layer, PjrtBuffer& q, PjrtBuffer& k,
                        PjrtBuffer& v, PjrtBuffer& out);
  // The same with arrays of the host, of step_tokens() rows each; waits.
  absl::Status RunLayer(int32_t layer, const HeadsView& q, const HeadsView& k,
                        const HeadsView& v, const MutableHeadsView& out);

  // The step is complete and in flight.
  // Errors: FailedPrecondition without an open step.
  absl::Status EndStep();
  // The open step will not be completed; nobody waits for what it launched.
  // For its failure see DropOldest.
  void AbandonStep();

  size_t steps_in_flight() const { return num_flights_; }

  // Waits for the oldest step in flight, which leaves.
  //
  // Errors: FailedPrecondition if there is none; the device's, after which
  // Reset is due.
  absl::Status AwaitOldest();
  // It leaves without being waited for, and whether it failed is not asked.
  // If it did, its pools hold the error: whatever uses them next, a step or
  // ReadPages, fails with it and makes Reset due. So nothing computed from a
  // failed step is ever handed out, and after Reset nothing of it is left.
  // REQUIRES: steps_in_flight() > 0.
  void DropOldest();

  // Pages to and from the host: [num_layers, ids, page_bytes()]. They come
  // after all launches that were made before, and wait.
  //
  // Errors: FailedPrecondition if Reset is due; those of DevicePools.
  absl::Status ReadPages(std::span<const int32_t> ids,
                         std::span<std::byte> target);
  absl::Status WritePages(std::span<const int32_t> ids,
                          std::span<const std::byte> source);
  size_t page_bytes() const { return pools_->page_bytes(); }

  // Waits for all that runs, drops every step, and makes the pages anew.
  //
  // Errors: the device's; Reset is then still due.
  absl::Status Reset();

  // The error that makes Reset due; OK if none.
  const absl::Status& device_error() const { return device_error_; }
  const ProgramCache& programs() const { return *programs_; }
  const DeviceTable& table() const { return *table_; }
  const AttentionProgramShape& shape() const { return shape_; }

  // Errors: the plugin's, e.g. Unimplemented where it keeps no statistics.
  absl::StatusOr<MemoryReport> Memory() const;

 private:
  // A step that was begun and has not left.
  struct Flight {
    std::vector<PjrtEvent> layers;  // [num_layers], the last launch of each
    PjrtEvent table;
  };

  ResidentAttention(ResidentAttentionOptions options,
                    std::unique_ptr<ProgramCache> programs);

  absl::Status MakeParts();
  absl::Status LoadKernels();
  absl::Status MakePrograms(const std::vector<int32_t>& token_buckets);
  absl::Status CheckUsable() const;
  absl::Status CheckStepOpen() const;
  absl::Status ChoosePrograms(const RaggedBatch& batch);
  absl::Status StartStep(const RaggedBatch& batch,
                         std::span<const int32_t> changed_rows,
                         std::span<const PageCopy> copies);
  absl::StatusOr<PjrtBuffer> UploadHeads(absl::string_view name,
                                         const HeadsView& view, ScalarType type,
                                         const PjrtShape& shape) const;
  // Whether the pages are lost after a failed call, which `status` says.
  absl::Status NoteFailure(const absl::Status& status);
  void Lose(const absl::Status& status);
  // Where the next step's state is; also its generation in the table.
  size_t open_slot() const {
    return (first_flight_ + num_flights_) % kMaxStepsInFlight;
  }

  const ResidentAttentionOptions options_;
  const std::unique_ptr<ProgramCache> programs_;
  AttentionProgramShape shape_;
  TpuGeneration generation_ = TpuGeneration::kV5e;
  std::optional<KernelLibrary> kernels_;
  std::unique_ptr<DevicePools> pools_;
  std::unique_ptr<DeviceTable> table_;
  // Layers with the same options share one.
  std::vector<std::unique_ptr<AttentionPrograms>> attention_;
  std::vector<size_t> attention_of_layer_;  // [num_layers]

  absl::Status device_error_;
  std::array<Flight, kMaxStepsInFlight> flights_;  // a ring
  size_t first_flight_ = 0;
  size_t num_flights_ = 0;

  // Of the open step.
  bool is_open_ = false;
  int32_t step_tokens_ = 0;
  std::vector<const PjrtExecutable*> executables_;  // [attention_.size()]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_RESIDENT_ATTENTION_H_
