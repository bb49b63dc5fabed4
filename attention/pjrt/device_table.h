// DeviceTable: the arrays of a batch on the device: the page table, of which
// only changed rows are sent, and the small ones, which are sent each step.
//
// It is not the page table: the allocator's is, and this one follows it.
//
// Lifecycle: 1. Create. 2. Check and Upload for each step; the arrays of
// generation g stay until the next Upload to g, so that two steps can be in
// flight. 3. Forget after a failure of the device: the next Upload sends all.
//
// Rows are sent in launches of 1, 2, 4, ... rows, the last ones padding; from
// half of the table on it is replaced as a whole. The device's table may be
// larger than the host's, as ahead-of-time kernels want it; the rest is zero.
//
// Invariant: every entry on the device is in [0, total_num_pages), since each
// row is checked when it is sent.
//
// Thread-safety: one call at a time. Allocates when a number of rows is seen
// for the first time (a compile), else nothing.

#ifndef TIDEWHEEL_ATTENTION_PJRT_DEVICE_TABLE_H_
#define TIDEWHEEL_ATTENTION_PJRT_DEVICE_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/attention_backend.h"
#include "attention/pjrt/launch_memory.h"
#include "attention/pjrt/pjrt_buffer.h"
#include "attention/pjrt/pjrt_event.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/program_cache.h"
#include "attention/ragged_batch.h"
#include "attention/stablehlo/step_program.h"

namespace tidewheel {

class DeviceTable {
 public:
  static constexpr size_t kNumGenerations = 2;

  // The host's batches.
  struct Options {
    int32_t max_num_seqs = 0;
    int32_t pages_per_seq = 0;
    int32_t page_size = 0;  // tokens
    int32_t total_num_pages = 0;
    int32_t max_num_batched_tokens = 0;
    EmptyRows empty_rows = EmptyRows::kRefuse;
    // At least [max_num_seqs, pages_per_seq].
    TableShape device_shape;
  };
  struct Counts {
    int64_t whole_uploads = 0;
    int64_t delta_uploads = 0;
    int64_t rows = 0;  // of the deltas
  };

  // `programs` outlives this object.
  //
  // Errors: InvalidArgument for sizes below 1, or a device's table that is
  // smaller than the host's.
  static absl::StatusOr<std::unique_ptr<DeviceTable>> Create(
      ProgramCache* programs, const Options& options);

  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  // O(rows + entries of the changed rows). It does not ask whether pages are
  // used twice: ValidateStrict does.
  //
  // Errors: InvalidArgument, with row, value, limit and remedy, for sizes that
  // are not those of Options, lengths that do not fit, ids out of range.
  absl::Status Check(const RaggedBatch& batch,
                     std::span<const int32_t> changed_rows) const;

  // `written` becomes the completion of the table's update, or stays empty.
  //
  // Errors: the plugin's; the table is then as before, or the next Upload
  // sends all of it.
  // REQUIRES: Check is ok; generation < kNumGenerations.
  absl::Status Upload(const RaggedBatch& batch,
                      std::span<const int32_t> changed_rows, size_t generation,
                      PjrtEvent& written);

  // The next Upload sends the whole table.
  void Forget() { is_whole_ = false; }

  // Arguments of launches, after Upload.
  PjrtBuffer& page_indices() { return page_indices_; }
  PjrtBuffer& kv_lens(size_t generation) { return small_[generation].kv_lens; }
  PjrtBuffer& cu_q_lens(size_t generation) {
    return small_[generation].cu_q_lens;
  }
  PjrtBuffer& num_seqs(size_t generation) {
    return small_[generation].num_seqs;
  }

  const Counts& counts() const { return counts_; }
  absl::StatusOr<int64_t> TableBytes() const;
  absl::Status AddMemory(LaunchMemory& memory) const;
  // Compiles every program.
  absl::Status Warm();

 private:
  struct Small {
    PjrtBuffer kv_lens;    // [device_shape.max_num_seqs]
    PjrtBuffer cu_q_lens;  // [device_shape.max_num_seqs + 1]
    PjrtBuffer num_seqs;   // [1]
  };

  DeviceTable(ProgramCache* programs, const Options& options);

  bool SendsWhole(std::span<const int32_t> changed_rows) const;
  absl::Status CheckSizes(const RaggedBatch& batch) const;
  absl::Status CheckRows(const RaggedBatch& batch) const;
  absl::Status CheckEntries(const RaggedBatch& batch, int32_t row) const;
  absl::Status UploadSmall(const RaggedBatch& batch, Small& small);
  absl::Status UploadWhole(const RaggedBatch& batch);
  absl::Status UploadDelta(const RaggedBatch& batch,
                           std::span<const int32_t> rows, PjrtEvent& written);
  absl::StatusOr<const PjrtExecutable*> Delta(size_t log2_rows);
  // Row `row` of the batch, zeros behind it, as staged row `place`.
  void Stage(const RaggedBatch& batch, int32_t row, size_t place);
  absl::StatusOr<PjrtBuffer> UploadArray(
      const int32_t* values, std::initializer_list<int64_t> dims) const;

  ProgramCache* const programs_;
  const Options options_;
  // Executables for 2^i rows.
  std::vector<std::unique_ptr<PjrtExecutable>> deltas_;
  PjrtBuffer page_indices_;  // [device_shape]
  bool is_whole_ = false;
  std::array<Small, kNumGenerations> small_;
  std::vector<int32_t> staged_;       // [device_shape]
  std::vector<int32_t> staged_rows_;  // [device_shape.max_num_seqs + 1]
  Counts counts_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_DEVICE_TABLE_H_
