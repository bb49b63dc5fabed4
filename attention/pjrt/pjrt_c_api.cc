// Where each field lies, as the API defines it. A mistake here would be
// memory corruption inside a plugin, so it ends the compilation instead.
// Offsets: printed from the headers of 0.67, 0.81, 0.90, 0.104 and 0.114,
// which agree in all of them.

#include "attention/pjrt/pjrt_c_api.h"

#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"

namespace tidewheel::pjrt_abi {

static_assert(sizeof(void*) == 8 && sizeof(size_t) == 8,
              "PJRT's offsets are those of 64-bit platforms");
static_assert(offsetof(Block<EventAwait>, fields) == kBlockHeadBytes);
static_assert(offsetof(Block<EventAwait>, extension_start) == 8);
static_assert(sizeof(bool) == 1);

#define TIDEWHEEL_OFFSET(type, field, offset)                        \
  static_assert(kBlockHeadBytes + offsetof(type, field) == (offset), \
                #type "::" #field " is not where plugins look for it")

static_assert(offsetof(NamedValue, name) == 16);
static_assert(offsetof(NamedValue, type) == 32);
static_assert(offsetof(NamedValue, string_value) == 40);
static_assert(offsetof(NamedValue, value_size) == 48);
static_assert(offsetof(Api, major_version) == 32);
static_assert(offsetof(Api, minor_version) == 36);

TIDEWHEEL_OFFSET(ErrorMessage, message_size, 32);
TIDEWHEEL_OFFSET(ErrorGetCode, code, 24);
TIDEWHEEL_OFFSET(PluginAttributes, num_attributes, 24);
TIDEWHEEL_OFFSET(EventIsReady, is_ready, 24);
TIDEWHEEL_OFFSET(ClientCreate, client, 64);
TIDEWHEEL_OFFSET(ClientCreate, kv_try_get_user_arg, 80);
TIDEWHEEL_OFFSET(ClientPlatformName, platform_name_size, 32);
TIDEWHEEL_OFFSET(ClientAddressableDevices, num_addressable_devices, 32);
TIDEWHEEL_OFFSET(DeviceDescriptionId, id, 24);
TIDEWHEEL_OFFSET(DeviceDescriptionKind, device_kind_size, 32);
TIDEWHEEL_OFFSET(DeviceGetDescription, device_description, 24);
TIDEWHEEL_OFFSET(DeviceAddressableMemories, num_memories, 32);
TIDEWHEEL_OFFSET(DeviceMemoryStats, peak_bytes_in_use_is_set, 40);
TIDEWHEEL_OFFSET(DeviceMemoryStats, bytes_limit, 80);
TIDEWHEEL_OFFSET(DeviceMemoryStats, bytes_limit_is_set, 88);
TIDEWHEEL_OFFSET(DeviceMemoryStats, largest_free_block_bytes_is_set, 152);
TIDEWHEEL_OFFSET(MemoryKind, kind_size, 32);
TIDEWHEEL_OFFSET(Program, format_size, 40);
TIDEWHEEL_OFFSET(ClientCompile, executable, 48);
TIDEWHEEL_OFFSET(Compile, client, 48);
TIDEWHEEL_OFFSET(Compile, executable, 56);
TIDEWHEEL_OFFSET(TopologyDescriptionCreate, topology, 48);
TIDEWHEEL_OFFSET(MemoryLayout, minor_to_major, 32);
TIDEWHEEL_OFFSET(MemoryLayout, num_tiles, 64);
TIDEWHEEL_OFFSET(MemoryLayout, type, 72);
TIDEWHEEL_OFFSET(ClientBufferFromHostBuffer, host_buffer_semantics, 72);
TIDEWHEEL_OFFSET(ClientBufferFromHostBuffer, device_layout, 96);
TIDEWHEEL_OFFSET(ClientBufferFromHostBuffer, buffer, 112);
TIDEWHEEL_OFFSET(ClientCreateUninitializedBuffer, buffer, 72);
TIDEWHEEL_OFFSET(BufferDimensions, num_dims, 32);
TIDEWHEEL_OFFSET(BufferIsDeleted, is_deleted, 24);
TIDEWHEEL_OFFSET(BufferToHostBuffer, event, 48);
TIDEWHEEL_OFFSET(BufferUnsafePointer, buffer_pointer, 24);
TIDEWHEEL_OFFSET(ExecutableSerialize, serialized_executable_deleter, 48);
TIDEWHEEL_OFFSET(ExecutableOutputElementTypes, num_output_types, 32);
TIDEWHEEL_OFFSET(ExecutableOutputDimensions, dim_sizes, 40);
TIDEWHEEL_OFFSET(ExecutableGetCompiledMemoryStats, alias_size_in_bytes, 48);
TIDEWHEEL_OFFSET(ExecutableGetCompiledMemoryStats, host_temp_size_in_bytes, 96);
TIDEWHEEL_OFFSET(LoadedExecutableAddressableDevices, num_addressable_devices,
                 32);
TIDEWHEEL_OFFSET(ExecutableDeserializeAndLoad, loaded_executable, 40);
TIDEWHEEL_OFFSET(ExecuteOptions, launch_id, 48);
TIDEWHEEL_OFFSET(ExecuteOptions, num_non_donatable_input_indices, 64);
TIDEWHEEL_OFFSET(LoadedExecutableExecute, device_complete_events, 64);
TIDEWHEEL_OFFSET(LoadedExecutableExecute, execute_device, 72);

#undef TIDEWHEEL_OFFSET

// The largest blocks of 0.116, bytes: the newest plugin's check of the size.
static_assert(sizeof(Block<ExecuteOptions>) >= 160);
static_assert(sizeof(Block<DeviceMemoryStats>) >= 208);
static_assert(sizeof(Block<ExecutableDeserializeAndLoad>) >= 72);
static_assert(sizeof(Block<ExecutableGetCompiledMemoryStats>) >= 112);

}  // namespace tidewheel::pjrt_abi
