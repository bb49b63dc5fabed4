#include "attention/pjrt/device_pools.h"

#include <algorithm>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/emitted_program.h"
#include "attention/pjrt/pjrt_program.h"

namespace tidewheel {
namespace {

// The largest power of two of at most `count` ids and kMaxIds.
size_t Log2Part(size_t count) {
  const size_t part =
      std::min(count, static_cast<size_t>(DevicePools::kMaxIds));
  return static_cast<size_t>(std::bit_width(part)) - 1;
}

}  // namespace

DevicePools::DevicePools(ProgramCache* programs, const PagePoolShape& shape,
                         int32_t num_layers)
    : programs_(programs),
      shape_(shape),
      pools_(static_cast<size_t>(num_layers)) {}

absl::StatusOr<std::unique_ptr<DevicePools>> DevicePools::Create(
    ProgramCache* programs, const PagePoolShape& shape, int32_t num_layers) {
  TIDEWHEEL_CHECK(programs != nullptr);
  if (num_layers < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_layers ", num_layers, " is below 1; give the model's layers"));
  }
  // The emitter checks the sizes.
  TIDEWHEEL_RETURN_IF_ERROR(EmitGatherPages(shape, 1).status());
  std::unique_ptr<DevicePools> pools(
      new DevicePools(programs, shape, num_layers));
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtShape array,
                             ShapeOfTensor(shape.type()));
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtShape page,
                             ShapeOfTensor(shape.pages_type(1)));
  pools->page_bytes_ = static_cast<size_t>(page.num_bytes());
  PjrtSignature signature;
  signature.outputs = {array};
  TIDEWHEEL_ASSIGN_OR_RETURN(
      pools->zeros_, programs->Compile(ZeroFillProgram(array), signature));
  TIDEWHEEL_RETURN_IF_ERROR(pools->Reset());
  return pools;
}

absl::Status DevicePools::Reset() {
  // All go first: there may be room for one set only.
  for (PjrtBuffer& pool : pools_) pool = PjrtBuffer();
  for (PjrtBuffer& pool : pools_) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        const PjrtEvent done,
        zeros_->Launch({}, std::span<PjrtBuffer>(&pool, 1)));
    TIDEWHEEL_RETURN_IF_ERROR(done.Await());
  }
  return absl::OkStatus();
}

absl::StatusOr<const PjrtExecutable*> DevicePools::Get(Kind kind,
                                                       size_t log2_ids) {
  std::unique_ptr<PjrtExecutable>& executable = moves_[kind][log2_ids];
  if (executable == nullptr) {
    const int64_t num_ids = int64_t{1} << log2_ids;
    TIDEWHEEL_ASSIGN_OR_RETURN(
        executable,
        CompileEmitted(kind == kCopy     ? EmitCopyPages(shape_, num_ids)
                       : kind == kGather ? EmitGatherPages(shape_, num_ids)
                                         : EmitScatterPages(shape_, num_ids),
                       *programs_));
  }
  return executable.get();
}

absl::StatusOr<PjrtBuffer> DevicePools::UploadIds(
    std::span<const int32_t> ids) const {
  return programs_->client().Upload(
      std::as_bytes(ids),
      PjrtShape(PjrtElementType::kI32, {static_cast<int64_t>(ids.size())}),
      &programs_->device());
}

absl::Status DevicePools::CheckIds(std::span<const int32_t> ids, int32_t first,
                                   size_t num_bytes) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < first || ids[i] >= shape_.total_num_pages) {
      return absl::InvalidArgumentError(absl::StrCat(
          "page id ", ids[i], " at ", i, " is not in [", first, ", ",
          shape_.total_num_pages, "); give ids that the allocator lent"));
    }
  }
  const size_t expected = pools_.size() * ids.size() * page_bytes_;
  if (num_bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the host array has ", num_bytes, " bytes; ", ids.size(),
                   " pages of ", page_bytes_, " bytes in ", pools_.size(),
                   " layers have ", expected, "; give an array of that size"));
}

absl::Status DevicePools::CopyPages(std::span<const PageCopy> copies,
                                    std::span<PjrtEvent> events) {
  TIDEWHEEL_CHECK_EQ(events.size(), pools_.size());
  for (const PageCopy& copy : copies) {
    for (const int32_t id : {copy.source, copy.target}) {
      if (id >= 1 && id < shape_.total_num_pages) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the copy of page ", copy.source, " to ", copy.target,
                       " is not inside of [1, ", shape_.total_num_pages,
                       "); give ids that the allocator lent"));
    }
  }
  while (!copies.empty()) {
    const size_t count = size_t{1} << Log2Part(copies.size());
    TIDEWHEEL_RETURN_IF_ERROR(LaunchCopies(copies.first(count), events));
    copies = copies.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status DevicePools::LaunchCopies(std::span<const PageCopy> copies,
                                       std::span<PjrtEvent> events) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtExecutable* executable,
                             Get(kCopy, Log2Part(copies.size())));
  std::array<int32_t, kMaxIds> ids;
  std::ranges::transform(copies, ids.begin(), &PageCopy::source);
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer sources,
                             UploadIds(std::span(ids).first(copies.size())));
  std::ranges::transform(copies, ids.begin(), &PageCopy::target);
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer targets,
                             UploadIds(std::span(ids).first(copies.size())));
  for (size_t layer = 0; layer < pools_.size(); ++layer) {
    PjrtBuffer* const pool = &pools_[layer];
    TIDEWHEEL_ASSIGN_OR_RETURN(
        events[layer], executable->Launch(std::array{pool, &sources, &targets},
                                          std::span<PjrtBuffer>(pool, 1)));
  }
  return absl::OkStatus();
}

absl::Status DevicePools::ReadPages(std::span<const int32_t> ids,
                                    std::span<std::byte> target) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckIds(ids, 0, target.size()));
  const size_t layer_stride = ids.size() * page_bytes_;
  for (size_t done = 0; done < ids.size();) {
    const size_t log2_ids = Log2Part(ids.size() - done);
    const size_t count = size_t{1} << log2_ids;
    TIDEWHEEL_RETURN_IF_ERROR(ReadSome(ids.subspan(done, count), log2_ids,
                                       target.data() + done * page_bytes_,
                                       layer_stride));
    done += count;
  }
  return absl::OkStatus();
}

absl::Status DevicePools::ReadSome(std::span<const int32_t> ids,
                                   size_t log2_ids, std::byte* target,
                                   size_t layer_stride) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtExecutable* executable,
                             Get(kGather, log2_ids));
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer id_array, UploadIds(ids));
  std::vector<PjrtBuffer> pages(pools_.size());
  for (size_t layer = 0; layer < pools_.size(); ++layer) {
    TIDEWHEEL_RETURN_IF_ERROR(
        executable
            ->Launch(std::array{&pools_[layer], &id_array},
                     std::span<PjrtBuffer>(&pages[layer], 1))
            .status());
  }
  // All transfers are started, and all that were started are awaited: they
  // write to the caller's memory.
  std::vector<PjrtEvent> transfers;
  absl::Status status;
  for (size_t layer = 0; layer < pools_.size() && status.ok(); ++layer) {
    absl::StatusOr<PjrtEvent> transfer = pages[layer].ToHostAsync(
        std::span(target + layer * layer_stride, ids.size() * page_bytes_));
    status = transfer.status();
    if (transfer.ok()) transfers.push_back(*std::move(transfer));
  }
  for (const PjrtEvent& transfer : transfers) status.Update(transfer.Await());
  return status;
}

absl::Status DevicePools::WritePages(std::span<const int32_t> ids,
                                     std::span<const std::byte> source) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckIds(ids, 1, source.size()));
  std::vector<int32_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "page ", *twice, " is written twice in one call; give each id once"));
  }
  const size_t layer_stride = ids.size() * page_bytes_;
  for (size_t done = 0; done < ids.size();) {
    const size_t log2_ids = Log2Part(ids.size() - done);
    const size_t count = size_t{1} << log2_ids;
    TIDEWHEEL_RETURN_IF_ERROR(WriteSome(ids.subspan(done, count), log2_ids,
                                        source.data() + done * page_bytes_,
                                        layer_stride));
    done += count;
  }
  return absl::OkStatus();
}

absl::Status DevicePools::WriteSome(std::span<const int32_t> ids,
                                    size_t log2_ids, const std::byte* source,
                                    size_t layer_stride) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtExecutable* executable,
                             Get(kScatter, log2_ids));
  TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer id_array, UploadIds(ids));
  const PjrtShape& pages_shape = executable->arguments()[2].shape;
  std::vector<PjrtEvent> done(pools_.size());
  absl::Status status;
  for (size_t layer = 0; layer < pools_.size() && status.ok(); ++layer) {
    absl::StatusOr<PjrtBuffer> pages = programs_->client().Upload(
        std::span(source + layer * layer_stride, ids.size() * page_bytes_),
        pages_shape, &programs_->device());
    if (!pages.ok()) return pages.status();
    absl::StatusOr<PjrtEvent> event =
        executable->Launch(std::array{&pools_[layer], &id_array, &*pages},
                           std::span<PjrtBuffer>(&pools_[layer], 1));
    if (!event.ok()) return event.status();
    done[layer] = *std::move(event);
  }
  for (const PjrtEvent& event : done) status.Update(event.Await());
  return status;
}

absl::Status DevicePools::Warm() {
  for (const Kind kind : {kCopy, kGather, kScatter}) {
    for (size_t log2_ids = 0; log2_ids < kNumSizes; ++log2_ids) {
      TIDEWHEEL_RETURN_IF_ERROR(Get(kind, log2_ids).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> DevicePools::PoolBytes() const {
  int64_t bytes = 0;
  for (const PjrtBuffer& pool : pools_) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const int64_t one, pool.OnDeviceSizeInBytes());
    bytes += one;
  }
  return bytes;
}

absl::Status DevicePools::AddMemory(LaunchMemory& memory) const {
  for (size_t kind = 0; kind < kNumKinds; ++kind) {
    for (const std::unique_ptr<PjrtExecutable>& executable : moves_[kind]) {
      if (executable == nullptr) continue;
      TIDEWHEEL_RETURN_IF_ERROR(
          memory.Add(*executable, /*takes_pool=*/kind != kGather));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
