// Calls of PJRT's C API about buffers. See pjrt_c_api.h for the rules.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_BUFFER_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_BUFFER_H_

#include <cstddef>
#include <cstdint>

#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_element_type.h"

namespace tidewheel::pjrt_abi {

// What the plugin may do with the host's array.
enum class HostBufferSemantics : int32_t {
  kImmutableOnlyDuringCall = 0,  // it copies before it returns
  kImmutableUntilTransferCompletes = 1,
  kImmutableZeroCopy = 2,
  kMutableZeroCopy = 3,
};

enum class MemoryLayoutType : int32_t { kTiled = 0, kStrides = 1 };

// Only the tiled kind is used, without tiles: an order of dimensions.
struct MemoryLayout {
  size_t tiled_struct_size;
  void* tiled_extension_start;
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
  MemoryLayoutType type;
};

struct ClientBufferFromHostBuffer {
  static constexpr Slot kSlot{22, "PJRT_Client_BufferFromHostBuffer"};
  Client* client;
  const void* data;
  PjrtElementType type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;
  size_t num_byte_strides;
  HostBufferSemantics host_buffer_semantics;
  // One of the two is needed: plugins crash without both.
  Device* device;
  Memory* memory;
  Block<MemoryLayout>* device_layout;  // null: the plugin's default
  Event* done_with_host_buffer;        // out
  Buffer* buffer;                      // out
};

struct ClientCreateUninitializedBuffer {
  static constexpr Slot kSlot{112, "PJRT_Client_CreateUninitializedBuffer"};
  Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PjrtElementType shape_element_type;
  Block<MemoryLayout>* shape_layout;
  Device* device;
  Memory* memory;
  Buffer* buffer;  // out
};

// Deletes the buffer, if it is not yet, and frees the handle.
struct BufferDestroy {
  static constexpr Slot kSlot{58, "PJRT_Buffer_Destroy"};
  Buffer* buffer;
};

struct BufferElementType {
  static constexpr Slot kSlot{59, "PJRT_Buffer_ElementType"};
  Buffer* buffer;
  PjrtElementType type;  // out
};

struct BufferDimensions {
  static constexpr Slot kSlot{60, "PJRT_Buffer_Dimensions"};
  Buffer* buffer;
  const int64_t* dims;  // out; lives as long as the buffer
  size_t num_dims;      // out
};

struct BufferOnDeviceSizeInBytes {
  static constexpr Slot kSlot{64, "PJRT_Buffer_OnDeviceSizeInBytes"};
  Buffer* buffer;
  size_t on_device_size_in_bytes;  // out
};

struct BufferDelete {
  static constexpr Slot kSlot{67, "PJRT_Buffer_Delete"};
  Buffer* buffer;
};

struct BufferIsDeleted {
  static constexpr Slot kSlot{68, "PJRT_Buffer_IsDeleted"};
  Buffer* buffer;
  bool is_deleted;  // out
};

struct BufferToHostBuffer {
  static constexpr Slot kSlot{70, "PJRT_Buffer_ToHostBuffer"};
  Buffer* src;
  Block<MemoryLayout>* host_layout;  // null: the order on the device
  void* dst;                         // null: only sets dst_size
  size_t dst_size;
  Event* event;  // out
};

struct BufferReadyEvent {
  static constexpr Slot kSlot{72, "PJRT_Buffer_ReadyEvent"};
  Buffer* buffer;
  Event* event;  // out
};

struct BufferUnsafePointer {
  static constexpr Slot kSlot{73, "PJRT_Buffer_UnsafePointer"};
  Buffer* buffer;
  uintptr_t buffer_pointer;  // out
};

}  // namespace tidewheel::pjrt_abi

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_BUFFER_H_
