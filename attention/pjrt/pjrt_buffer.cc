#include "attention/pjrt/pjrt_buffer.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_client.h"

namespace tidewheel {

PjrtBuffer::PjrtBuffer(std::shared_ptr<const PjrtClient> client,
                       const PjrtDevice* device, pjrt_abi::Buffer* handle,
                       const PjrtShape& shape)
    : client_(std::move(client)),
      device_(device),
      handle_(handle),
      shape_(shape) {
  TIDEWHEEL_CHECK(client_ != nullptr);
  TIDEWHEEL_CHECK(device != nullptr);
  TIDEWHEEL_CHECK(handle != nullptr);
}

PjrtBuffer::~PjrtBuffer() { Reset(); }

PjrtBuffer::PjrtBuffer(PjrtBuffer&& other) noexcept
    : client_(std::move(other.client_)),
      device_(std::exchange(other.device_, nullptr)),
      handle_(std::exchange(other.handle_, nullptr)),
      shape_(std::exchange(other.shape_, PjrtShape())) {}

PjrtBuffer& PjrtBuffer::operator=(PjrtBuffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  client_ = std::move(other.client_);
  device_ = std::exchange(other.device_, nullptr);
  handle_ = std::exchange(other.handle_, nullptr);
  shape_ = std::exchange(other.shape_, PjrtShape());
  return *this;
}

void PjrtBuffer::Reset() {
  if (handle_ == nullptr) return;
  pjrt_abi::Block<pjrt_abi::BufferDestroy> args;
  args->buffer = std::exchange(handle_, nullptr);
  client_->plugin().Call(args).IgnoreError();
  device_ = nullptr;
  shape_ = PjrtShape();
  client_.reset();
}

bool PjrtBuffer::IsDeleted() const {
  if (empty()) return true;
  pjrt_abi::Block<pjrt_abi::BufferIsDeleted> args;
  args->buffer = handle_;
  return !client_->plugin().Call(args).ok() || args->is_deleted;
}

absl::Status PjrtBuffer::CheckAlive(absl::string_view what) const {
  if (empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(what,
                     ": the buffer is empty: it was moved from or never "
                     "made; use the object that holds it now"));
  }
  if (IsDeleted()) {
    return absl::FailedPreconditionError(absl::StrCat(
        what, ": the buffer ", shape_.ToString(),
        " was deleted or donated; use the output that took its memory"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PjrtBuffer::OnDeviceSizeInBytes() const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckAlive("OnDeviceSizeInBytes"));
  pjrt_abi::Block<pjrt_abi::BufferOnDeviceSizeInBytes> args;
  args->buffer = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(args));
  return static_cast<int64_t>(args->on_device_size_in_bytes);
}

absl::StatusOr<uintptr_t> PjrtBuffer::UnsafePointer() const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckAlive("UnsafePointer"));
  pjrt_abi::Block<pjrt_abi::BufferUnsafePointer> args;
  args->buffer = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(args));
  return args->buffer_pointer;
}

absl::StatusOr<PjrtEvent> PjrtBuffer::ReadyEvent() const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckAlive("ReadyEvent"));
  pjrt_abi::Block<pjrt_abi::BufferReadyEvent> args;
  args->buffer = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(args));
  return PjrtEvent(&client_->plugin(), client_, args->event);
}

absl::StatusOr<PjrtEvent> PjrtBuffer::ToHostAsync(
    std::span<std::byte> target) const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckAlive("ToHost"));
  if (target.size() != static_cast<size_t>(shape_.num_bytes())) {
    return absl::InvalidArgumentError(
        absl::StrCat("ToHost: the target has ", target.size(),
                     " bytes, the buffer ", shape_.ToString(), " has ",
                     shape_.num_bytes(), "; pass a target of that size"));
  }
  // Without a layout a plugin copies in the order that its device has.
  std::array<int64_t, PjrtShape::kMaxRank> minor_to_major;
  const size_t rank = shape_.rank();
  for (size_t i = 0; i < rank; ++i) {
    minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
  }
  pjrt_abi::Block<pjrt_abi::MemoryLayout> layout;
  layout->tiled_struct_size = sizeof(layout);
  layout->minor_to_major = minor_to_major.data();
  layout->minor_to_major_size = rank;
  layout->type = pjrt_abi::MemoryLayoutType::kTiled;
  // A null target asks for the size; an empty span may be null.
  std::byte nothing = {};
  pjrt_abi::Block<pjrt_abi::BufferToHostBuffer> args;
  args->src = handle_;
  args->host_layout = &layout;
  args->dst = target.empty() ? &nothing : target.data();
  args->dst_size = target.size();
  TIDEWHEEL_RETURN_IF_ERROR(client_->plugin().Call(args));
  return PjrtEvent(&client_->plugin(), client_, args->event);
}

absl::Status PjrtBuffer::ToHost(std::span<std::byte> target) const {
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtEvent event, ToHostAsync(target));
  return event.Await();
}

absl::Status PjrtBuffer::Delete() {
  if (IsDeleted()) return absl::OkStatus();
  pjrt_abi::Block<pjrt_abi::BufferDelete> args;
  args->buffer = handle_;
  return client_->plugin().Call(args);
}

}  // namespace tidewheel
