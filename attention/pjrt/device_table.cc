#include "attention/pjrt/device_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/emitted_program.h"

namespace tidewheel {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

DeviceTable::DeviceTable(ProgramCache* programs, const Options& options)
    : programs_(programs),
      options_(options),
      staged_(static_cast<size_t>(options.device_shape.max_num_seqs *
                                  options.device_shape.pages_per_seq)),
      staged_rows_(static_cast<size_t>(options.device_shape.max_num_seqs + 1)) {
  // Padded, the last one is at most the table.
  const auto limit = static_cast<uint64_t>(options.max_num_seqs / 2);
  deltas_.resize(static_cast<size_t>(std::bit_width(limit)));
}

absl::StatusOr<std::unique_ptr<DeviceTable>> DeviceTable::Create(
    ProgramCache* programs, const Options& options) {
  TIDEWHEEL_CHECK(programs != nullptr);
  for (const auto& [name, size] :
       {std::pair("max_num_seqs", options.max_num_seqs),
        std::pair("pages_per_seq", options.pages_per_seq),
        std::pair("page_size", options.page_size),
        std::pair("total_num_pages", options.total_num_pages),
        std::pair("max_num_batched_tokens", options.max_num_batched_tokens)}) {
    if (size >= 1) continue;
    return Invalid(name, " ", size, " is below 1; give the scheduler's");
  }
  const TableShape& device = options.device_shape;
  if (device.max_num_seqs < options.max_num_seqs ||
      device.pages_per_seq < options.pages_per_seq) {
    return Invalid("the device's table of ", device.max_num_seqs, " rows of ",
                   device.pages_per_seq, " pages is smaller than the host's ",
                   options.max_num_seqs, " of ", options.pages_per_seq,
                   "; give at least as much");
  }
  // The emitter checks what is left.
  TIDEWHEEL_RETURN_IF_ERROR(EmitTableDelta(device, 1).status());
  return std::unique_ptr<DeviceTable>(new DeviceTable(programs, options));
}

absl::Status DeviceTable::CheckSizes(const RaggedBatch& batch) const {
  for (const auto& [name, size, expected] :
       {std::tuple("max_num_seqs", batch.max_num_seqs, options_.max_num_seqs),
        std::tuple("pages_per_seq", batch.pages_per_seq,
                   options_.pages_per_seq),
        std::tuple("page_size", batch.page_size, options_.page_size),
        std::tuple("total_num_pages", batch.total_num_pages,
                   options_.total_num_pages)}) {
    if (size == expected) continue;
    return Invalid("the batch has ", name, " ", size,
                   ", the backend was made for ", expected,
                   "; make the backend with the scheduler's sizes");
  }
  const auto rows = static_cast<size_t>(options_.max_num_seqs);
  const auto pages = static_cast<size_t>(options_.pages_per_seq);
  for (const auto& [name, size, expected] :
       {std::tuple("kv_lens", batch.kv_lens.size(), rows),
        std::tuple("page_indices", batch.page_indices.size(), rows * pages),
        std::tuple("cu_q_lens", batch.cu_q_lens.size(), rows + 1)}) {
    if (size == expected) continue;
    return Invalid(name, " has ", size, " entries instead of ", expected,
                   "; pass the arrays of the scheduler's plan");
  }
  if (batch.num_seqs < 1 || batch.num_seqs > options_.max_num_seqs) {
    return Invalid("num_seqs ", batch.num_seqs, " is not in [1, ",
                   options_.max_num_seqs, "]; run no step without rows");
  }
  return absl::OkStatus();
}

absl::Status DeviceTable::CheckRows(const RaggedBatch& batch) const {
  if (batch.cu_q_lens[0] != 0) {
    return Invalid("cu_q_lens begins with ", batch.cu_q_lens[0],
                   " instead of 0; it is the rows' running sum");
  }
  const int64_t longest = int64_t{options_.pages_per_seq} * options_.page_size;
  const int64_t shortest = options_.empty_rows == EmptyRows::kSkip ? 0 : 1;
  for (int32_t row = 0; row < batch.num_seqs; ++row) {
    const size_t r = static_cast<size_t>(row);
    const int64_t q_len = int64_t{batch.cu_q_lens[r + 1]} - batch.cu_q_lens[r];
    const int64_t kv_len = batch.kv_lens[r];
    if (q_len < shortest || q_len > kv_len) {
      return Invalid("row ", row, " has q_len ", q_len, ", which is not in [",
                     shortest, ", kv_len ", kv_len,
                     "]; leave rows without tokens out, and count this step's "
                     "tokens in kv_len");
    }
    if (kv_len > longest) {
      return Invalid("row ", row, " has kv_len ", kv_len, ", the table holds ",
                     longest, "; raise pages_per_seq or page_size");
    }
  }
  if (batch.total_q_tokens() > options_.max_num_batched_tokens) {
    return Invalid("the batch has ", batch.total_q_tokens(),
                   " query tokens, max_num_batched_tokens is ",
                   options_.max_num_batched_tokens,
                   "; lower the scheduler's or raise the backend's");
  }
  return absl::OkStatus();
}

absl::Status DeviceTable::CheckEntries(const RaggedBatch& batch,
                                       int32_t row) const {
  for (const int32_t page : batch.pages(row)) {
    if (page >= 0 && page < options_.total_num_pages) continue;
    return Invalid("row ", row, " names page ", page, ", which is not in [0, ",
                   options_.total_num_pages,
                   "); entries that are not used are 0");
  }
  return absl::OkStatus();
}

bool DeviceTable::SendsWhole(std::span<const int32_t> changed_rows) const {
  const size_t largest_delta = (size_t{1} << deltas_.size()) / 2;
  return !is_whole_ || changed_rows.size() > largest_delta;
}

absl::Status DeviceTable::Check(const RaggedBatch& batch,
                                std::span<const int32_t> changed_rows) const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckSizes(batch));
  TIDEWHEEL_RETURN_IF_ERROR(CheckRows(batch));
  if (SendsWhole(changed_rows)) {
    for (int32_t row = 0; row < options_.max_num_seqs; ++row) {
      TIDEWHEEL_RETURN_IF_ERROR(CheckEntries(batch, row));
    }
    return absl::OkStatus();
  }
  for (const int32_t row : changed_rows) {
    if (row < 0 || row >= options_.max_num_seqs) {
      return Invalid("changed row ", row, " is not in [0, ",
                     options_.max_num_seqs, "); pass the plan's changed_rows");
    }
    TIDEWHEEL_RETURN_IF_ERROR(CheckEntries(batch, row));
  }
  return absl::OkStatus();
}

absl::StatusOr<PjrtBuffer> DeviceTable::UploadArray(
    const int32_t* values, std::initializer_list<int64_t> dims) const {
  const PjrtShape shape(PjrtElementType::kI32, dims);
  return programs_->client().Upload(
      std::as_bytes(
          std::span(values, static_cast<size_t>(shape.num_elements()))),
      shape, &programs_->device());
}

// The rows past num_seqs become what every kernel expects there.
absl::Status DeviceTable::UploadSmall(const RaggedBatch& batch, Small& small) {
  const int64_t rows = options_.device_shape.max_num_seqs;
  const auto used = static_cast<size_t>(batch.num_seqs);
  std::ranges::fill(staged_rows_, 0);
  std::ranges::copy(batch.kv_lens.first(used), staged_rows_.begin());
  TIDEWHEEL_ASSIGN_OR_RETURN(small.kv_lens,
                             UploadArray(staged_rows_.data(), {rows}));
  std::ranges::fill(staged_rows_, batch.total_q_tokens());
  std::ranges::copy(batch.cu_q_lens.first(used), staged_rows_.begin());
  TIDEWHEEL_ASSIGN_OR_RETURN(small.cu_q_lens,
                             UploadArray(staged_rows_.data(), {rows + 1}));
  TIDEWHEEL_ASSIGN_OR_RETURN(small.num_seqs, UploadArray(&batch.num_seqs, {1}));
  return absl::OkStatus();
}

void DeviceTable::Stage(const RaggedBatch& batch, int32_t row, size_t place) {
  const auto width = static_cast<size_t>(options_.device_shape.pages_per_seq);
  const auto target = std::span(staged_).subspan(place * width, width);
  const std::span<const int32_t> pages = batch.pages(row);
  std::ranges::copy(pages, target.begin());
  std::ranges::fill(target.subspan(pages.size()), 0);
}

absl::Status DeviceTable::UploadWhole(const RaggedBatch& batch) {
  const TableShape& device = options_.device_shape;
  const int32_t* source = batch.page_indices.data();
  if (device.max_num_seqs != options_.max_num_seqs ||
      device.pages_per_seq != options_.pages_per_seq) {
    std::ranges::fill(staged_, 0);
    for (int32_t row = 0; row < options_.max_num_seqs; ++row) {
      Stage(batch, row, static_cast<size_t>(row));
    }
    source = staged_.data();
  }
  is_whole_ = false;
  TIDEWHEEL_ASSIGN_OR_RETURN(
      page_indices_,
      UploadArray(source, {device.max_num_seqs, device.pages_per_seq}));
  is_whole_ = true;
  ++counts_.whole_uploads;
  return absl::OkStatus();
}

absl::StatusOr<const PjrtExecutable*> DeviceTable::Delta(size_t log2_rows) {
  std::unique_ptr<PjrtExecutable>& executable = deltas_[log2_rows];
  if (executable == nullptr) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        executable, CompileEmitted(EmitTableDelta(options_.device_shape,
                                                  int64_t{1} << log2_rows),
                                   *programs_));
  }
  return executable.get();
}

absl::Status DeviceTable::UploadDelta(const RaggedBatch& batch,
                                      std::span<const int32_t> rows,
                                      PjrtEvent& written) {
  const size_t log2_rows = static_cast<size_t>(std::bit_width(rows.size() - 1));
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtExecutable* executable,
                             Delta(log2_rows));
  const auto padded = int64_t{1} << log2_rows;
  for (size_t i = 0; i < rows.size(); ++i) Stage(batch, rows[i], i);
  std::ranges::copy(rows, staged_rows_.begin());
  std::fill(staged_rows_.begin() + static_cast<ptrdiff_t>(rows.size()),
            staged_rows_.begin() + padded, -1);
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer row_array,
                             UploadArray(staged_rows_.data(), {padded}));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      PjrtBuffer values,
      UploadArray(staged_.data(),
                  {padded, options_.device_shape.pages_per_seq}));
  absl::StatusOr<PjrtEvent> event =
      executable->Launch(std::array{&page_indices_, &row_array, &values},
                         std::span<PjrtBuffer>(&page_indices_, 1));
  if (!event.ok()) {
    is_whole_ = false;
    return event.status();
  }
  written = *std::move(event);
  ++counts_.delta_uploads;
  counts_.rows += static_cast<int64_t>(rows.size());
  return absl::OkStatus();
}

absl::Status DeviceTable::Upload(const RaggedBatch& batch,
                                 std::span<const int32_t> changed_rows,
                                 size_t generation, PjrtEvent& written) {
  written = PjrtEvent();
  TIDEWHEEL_RETURN_IF_ERROR(UploadSmall(batch, small_[generation]));
  if (SendsWhole(changed_rows)) return UploadWhole(batch);
  if (changed_rows.empty()) return absl::OkStatus();
  return UploadDelta(batch, changed_rows, written);
}

absl::Status DeviceTable::Warm() {
  for (size_t log2_rows = 0; log2_rows < deltas_.size(); ++log2_rows) {
    TIDEWHEEL_RETURN_IF_ERROR(Delta(log2_rows).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> DeviceTable::TableBytes() const {
  if (page_indices_.empty()) return 0;
  return page_indices_.OnDeviceSizeInBytes();
}

absl::Status DeviceTable::AddMemory(LaunchMemory& memory) const {
  for (const std::unique_ptr<PjrtExecutable>& executable : deltas_) {
    if (executable == nullptr) continue;
    TIDEWHEEL_RETURN_IF_ERROR(memory.Add(*executable, /*takes_pool=*/false));
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
