#include <cstring>

#include "tests/attention/pjrt/fake_objects.h"

namespace tidewheel::fake {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

// ---- Buffers ----

Error* UploadBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientBufferFromHostBuffer, args);
  if (args->device == nullptr && args->memory == nullptr) {
    Violation("an upload without a device");
  }
  args->buffer =
      NewBuffer({args->type, {args->dims, args->dims + args->num_dims}});
  if (!args->buffer->bytes.empty()) {
    std::memcpy(args->buffer->bytes.data(), args->data,
                args->buffer->bytes.size());
  }
  args->done_with_host_buffer = NewEvent(false);
  return nullptr;
}

Error* UninitializedBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientCreateUninitializedBuffer, args);
  args->buffer =
      NewBuffer({args->shape_element_type,
                 {args->shape_dims, args->shape_dims + args->shape_num_dims}});
  return nullptr;
}

Error* DestroyBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferDestroy, args);
  Destroy(args->buffer, State()->live_buffers, "PJRT_Buffer_Destroy");
  return nullptr;
}

Error* ElementTypeOfBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferElementType, args);
  args->type = args->buffer->array.type;
  return nullptr;
}

Error* DimensionsOfBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferDimensions, args);
  args->dims = args->buffer->array.dims.data();
  args->num_dims = args->buffer->array.dims.size();
  return nullptr;
}

Error* SizeOfBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferOnDeviceSizeInBytes, args);
  args->on_device_size_in_bytes = args->buffer->bytes.size();
  return nullptr;
}

Error* DeleteBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferDelete, args);
  CheckLive(args->buffer, "PJRT_Buffer_Delete");
  args->buffer->deleted = true;
  return nullptr;
}

Error* IsBufferDeleted(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferIsDeleted, args);
  CheckLive(args->buffer, "PJRT_Buffer_IsDeleted");
  args->is_deleted = args->buffer->deleted;
  return nullptr;
}

Error* BufferToHost(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferToHostBuffer, args);
  const Block<MemoryLayout>* const layout = args->host_layout;
  const size_t rank = args->src->array.dims.size();
  bool row_major = layout != nullptr && (*layout)->minor_to_major_size == rank;
  for (size_t i = 0; row_major && i < rank; ++i) {
    row_major =
        (*layout)->minor_to_major[i] == static_cast<int64_t>(rank - 1 - i);
  }
  if (!row_major) Violation("a read-back without a row-major layout");
  if (!args->src->bytes.empty()) {
    std::memcpy(args->dst, args->src->bytes.data(), args->src->bytes.size());
  }
  args->event = NewEvent(args->src->poisoned);
  return nullptr;
}

Error* ReadyEventOfBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferReadyEvent, args);
  args->event = NewEvent(args->buffer->poisoned);
  return nullptr;
}

Error* PointerOfBuffer(void* block) {
  TIDEWHEEL_FAKE_OPEN(BufferUnsafePointer, args);
  args->buffer_pointer =
      reinterpret_cast<uintptr_t>(args->buffer->bytes.data());
  return nullptr;
}

}  // namespace

Buffer* NewBuffer(const FakeArray& array) {
  auto* const buffer = new Buffer{array, {}, false, false};
  buffer->bytes.resize(BytesOf(array));
  return Track(buffer, State()->live_buffers);
}

void SetBufferSlots() {
  SetSlot(ClientBufferFromHostBuffer::kSlot, UploadBuffer);
  SetSlot(ClientCreateUninitializedBuffer::kSlot, UninitializedBuffer);
  SetSlot(BufferDestroy::kSlot, DestroyBuffer);
  SetSlot(BufferElementType::kSlot, ElementTypeOfBuffer);
  SetSlot(BufferDimensions::kSlot, DimensionsOfBuffer);
  SetSlot(BufferOnDeviceSizeInBytes::kSlot, SizeOfBuffer);
  SetSlot(BufferDelete::kSlot, DeleteBuffer);
  SetSlot(BufferIsDeleted::kSlot, IsBufferDeleted);
  SetSlot(BufferToHostBuffer::kSlot, BufferToHost);
  SetSlot(BufferReadyEvent::kSlot, ReadyEventOfBuffer);
  SetSlot(BufferUnsafePointer::kSlot, PointerOfBuffer);
}

}  // namespace tidewheel::fake
