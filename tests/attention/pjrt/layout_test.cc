// Our declarations of PJRT's C API against the official header, where CMake was
// told where that is. What is compared is compared while compiling.

#ifdef TIDEWHEEL_HAS_PJRT_HEADER
#include "pjrt_c_api.h"
#endif

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"

namespace tidewheel::pjrt_abi {
namespace {

#ifdef TIDEWHEEL_HAS_PJRT_HEADER

// The slot's index and name, and that our block is not the smaller one.
#define TIDEWHEEL_SAME_CALL(Ours, Theirs)                              \
  static_assert(offsetof(PJRT_Api, Theirs) ==                          \
                kFirstSlotOffset + sizeof(void*) * Ours::kSlot.index); \
  static_assert(std::string_view(Ours::kSlot.name) == #Theirs);        \
  static_assert(sizeof(Block<Ours>) >= sizeof(Theirs##_Args))

// A field's offset and size.
#define TIDEWHEEL_SAME_FIELD(Ours, Theirs, field)          \
  static_assert(kBlockHeadBytes + offsetof(Ours, field) == \
                offsetof(Theirs, field));                  \
  static_assert(sizeof(Ours::field) == sizeof(Theirs::field))

// Pointers are what is to be measured.
// NOLINTBEGIN(bugprone-sizeof-expression)
TIDEWHEEL_SAME_CALL(ErrorDestroy, PJRT_Error_Destroy);
TIDEWHEEL_SAME_FIELD(ErrorDestroy, PJRT_Error_Destroy_Args, error);
TIDEWHEEL_SAME_CALL(ErrorMessage, PJRT_Error_Message);
TIDEWHEEL_SAME_FIELD(ErrorMessage, PJRT_Error_Message_Args, error);
TIDEWHEEL_SAME_FIELD(ErrorMessage, PJRT_Error_Message_Args, message);
TIDEWHEEL_SAME_FIELD(ErrorMessage, PJRT_Error_Message_Args, message_size);
TIDEWHEEL_SAME_CALL(ErrorGetCode, PJRT_Error_GetCode);
TIDEWHEEL_SAME_FIELD(ErrorGetCode, PJRT_Error_GetCode_Args, error);
TIDEWHEEL_SAME_FIELD(ErrorGetCode, PJRT_Error_GetCode_Args, code);
TIDEWHEEL_SAME_CALL(PluginInitialize, PJRT_Plugin_Initialize);
TIDEWHEEL_SAME_CALL(PluginAttributes, PJRT_Plugin_Attributes);
TIDEWHEEL_SAME_FIELD(PluginAttributes, PJRT_Plugin_Attributes_Args, attributes);
TIDEWHEEL_SAME_FIELD(PluginAttributes, PJRT_Plugin_Attributes_Args,
                     num_attributes);
TIDEWHEEL_SAME_CALL(EventDestroy, PJRT_Event_Destroy);
TIDEWHEEL_SAME_FIELD(EventDestroy, PJRT_Event_Destroy_Args, event);
TIDEWHEEL_SAME_CALL(EventIsReady, PJRT_Event_IsReady);
TIDEWHEEL_SAME_FIELD(EventIsReady, PJRT_Event_IsReady_Args, event);
TIDEWHEEL_SAME_FIELD(EventIsReady, PJRT_Event_IsReady_Args, is_ready);
TIDEWHEEL_SAME_CALL(EventError, PJRT_Event_Error);
TIDEWHEEL_SAME_FIELD(EventError, PJRT_Event_Error_Args, event);
TIDEWHEEL_SAME_CALL(EventAwait, PJRT_Event_Await);
TIDEWHEEL_SAME_FIELD(EventAwait, PJRT_Event_Await_Args, event);
TIDEWHEEL_SAME_CALL(ClientCreate, PJRT_Client_Create);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, create_options);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, num_options);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, kv_get_callback);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, kv_get_user_arg);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, kv_put_callback);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, kv_put_user_arg);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args, client);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args,
                     kv_try_get_callback);
TIDEWHEEL_SAME_FIELD(ClientCreate, PJRT_Client_Create_Args,
                     kv_try_get_user_arg);
TIDEWHEEL_SAME_CALL(ClientDestroy, PJRT_Client_Destroy);
TIDEWHEEL_SAME_FIELD(ClientDestroy, PJRT_Client_Destroy_Args, client);
TIDEWHEEL_SAME_CALL(ClientPlatformName, PJRT_Client_PlatformName);
TIDEWHEEL_SAME_FIELD(ClientPlatformName, PJRT_Client_PlatformName_Args, client);
TIDEWHEEL_SAME_FIELD(ClientPlatformName, PJRT_Client_PlatformName_Args,
                     platform_name);
TIDEWHEEL_SAME_FIELD(ClientPlatformName, PJRT_Client_PlatformName_Args,
                     platform_name_size);
TIDEWHEEL_SAME_CALL(ClientPlatformVersion, PJRT_Client_PlatformVersion);
TIDEWHEEL_SAME_FIELD(ClientPlatformVersion, PJRT_Client_PlatformVersion_Args,
                     client);
TIDEWHEEL_SAME_FIELD(ClientPlatformVersion, PJRT_Client_PlatformVersion_Args,
                     platform_version);
TIDEWHEEL_SAME_FIELD(ClientPlatformVersion, PJRT_Client_PlatformVersion_Args,
                     platform_version_size);
TIDEWHEEL_SAME_CALL(ClientAddressableDevices, PJRT_Client_AddressableDevices);
TIDEWHEEL_SAME_FIELD(ClientAddressableDevices,
                     PJRT_Client_AddressableDevices_Args, client);
TIDEWHEEL_SAME_FIELD(ClientAddressableDevices,
                     PJRT_Client_AddressableDevices_Args, addressable_devices);
TIDEWHEEL_SAME_FIELD(ClientAddressableDevices,
                     PJRT_Client_AddressableDevices_Args,
                     num_addressable_devices);
TIDEWHEEL_SAME_CALL(DeviceDescriptionId, PJRT_DeviceDescription_Id);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionId, PJRT_DeviceDescription_Id_Args,
                     device_description);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionId, PJRT_DeviceDescription_Id_Args, id);
TIDEWHEEL_SAME_CALL(DeviceDescriptionKind, PJRT_DeviceDescription_Kind);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args,
                     device_description);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args,
                     device_kind);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionKind, PJRT_DeviceDescription_Kind_Args,
                     device_kind_size);
TIDEWHEEL_SAME_CALL(DeviceDescriptionDebugString,
                    PJRT_DeviceDescription_DebugString);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionDebugString,
                     PJRT_DeviceDescription_DebugString_Args,
                     device_description);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionDebugString,
                     PJRT_DeviceDescription_DebugString_Args, debug_string);
TIDEWHEEL_SAME_FIELD(DeviceDescriptionDebugString,
                     PJRT_DeviceDescription_DebugString_Args,
                     debug_string_size);
TIDEWHEEL_SAME_CALL(DeviceGetDescription, PJRT_Device_GetDescription);
TIDEWHEEL_SAME_FIELD(DeviceGetDescription, PJRT_Device_GetDescription_Args,
                     device);
TIDEWHEEL_SAME_FIELD(DeviceGetDescription, PJRT_Device_GetDescription_Args,
                     device_description);
TIDEWHEEL_SAME_CALL(DeviceAddressableMemories, PJRT_Device_AddressableMemories);
TIDEWHEEL_SAME_FIELD(DeviceAddressableMemories,
                     PJRT_Device_AddressableMemories_Args, device);
TIDEWHEEL_SAME_FIELD(DeviceAddressableMemories,
                     PJRT_Device_AddressableMemories_Args, memories);
TIDEWHEEL_SAME_FIELD(DeviceAddressableMemories,
                     PJRT_Device_AddressableMemories_Args, num_memories);
TIDEWHEEL_SAME_CALL(DeviceDefaultMemory, PJRT_Device_DefaultMemory);
TIDEWHEEL_SAME_FIELD(DeviceDefaultMemory, PJRT_Device_DefaultMemory_Args,
                     device);
TIDEWHEEL_SAME_FIELD(DeviceDefaultMemory, PJRT_Device_DefaultMemory_Args,
                     memory);
TIDEWHEEL_SAME_CALL(DeviceMemoryStats, PJRT_Device_MemoryStats);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args, device);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_in_use);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     peak_bytes_in_use);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     peak_bytes_in_use_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     num_allocs);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     num_allocs_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     largest_alloc_size);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     largest_alloc_size_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_limit);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_limit_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_reserved);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_reserved_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     peak_bytes_reserved);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     peak_bytes_reserved_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_reservable_limit);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     bytes_reservable_limit_is_set);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     largest_free_block_bytes);
TIDEWHEEL_SAME_FIELD(DeviceMemoryStats, PJRT_Device_MemoryStats_Args,
                     largest_free_block_bytes_is_set);
TIDEWHEEL_SAME_CALL(MemoryKind, PJRT_Memory_Kind);
TIDEWHEEL_SAME_FIELD(MemoryKind, PJRT_Memory_Kind_Args, memory);
TIDEWHEEL_SAME_FIELD(MemoryKind, PJRT_Memory_Kind_Args, kind);
TIDEWHEEL_SAME_FIELD(MemoryKind, PJRT_Memory_Kind_Args, kind_size);
TIDEWHEEL_SAME_CALL(ClientCompile, PJRT_Client_Compile);
TIDEWHEEL_SAME_FIELD(ClientCompile, PJRT_Client_Compile_Args, client);
TIDEWHEEL_SAME_FIELD(ClientCompile, PJRT_Client_Compile_Args, program);
TIDEWHEEL_SAME_FIELD(ClientCompile, PJRT_Client_Compile_Args, compile_options);
TIDEWHEEL_SAME_FIELD(ClientCompile, PJRT_Client_Compile_Args,
                     compile_options_size);
TIDEWHEEL_SAME_FIELD(ClientCompile, PJRT_Client_Compile_Args, executable);
TIDEWHEEL_SAME_CALL(Compile, PJRT_Compile);
TIDEWHEEL_SAME_FIELD(Compile, PJRT_Compile_Args, topology);
TIDEWHEEL_SAME_FIELD(Compile, PJRT_Compile_Args, program);
TIDEWHEEL_SAME_FIELD(Compile, PJRT_Compile_Args, compile_options);
TIDEWHEEL_SAME_FIELD(Compile, PJRT_Compile_Args, compile_options_size);
TIDEWHEEL_SAME_FIELD(Compile, PJRT_Compile_Args, client);
TIDEWHEEL_SAME_FIELD(Compile, PJRT_Compile_Args, executable);
TIDEWHEEL_SAME_CALL(TopologyDescriptionCreate, PJRT_TopologyDescription_Create);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionCreate,
                     PJRT_TopologyDescription_Create_Args, topology_name);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionCreate,
                     PJRT_TopologyDescription_Create_Args, topology_name_size);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionCreate,
                     PJRT_TopologyDescription_Create_Args, create_options);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionCreate,
                     PJRT_TopologyDescription_Create_Args, num_options);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionCreate,
                     PJRT_TopologyDescription_Create_Args, topology);
TIDEWHEEL_SAME_CALL(TopologyDescriptionDestroy,
                    PJRT_TopologyDescription_Destroy);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionDestroy,
                     PJRT_TopologyDescription_Destroy_Args, topology);
TIDEWHEEL_SAME_CALL(TopologyDescriptionPlatformName,
                    PJRT_TopologyDescription_PlatformName);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionPlatformName,
                     PJRT_TopologyDescription_PlatformName_Args, topology);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionPlatformName,
                     PJRT_TopologyDescription_PlatformName_Args, platform_name);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionPlatformName,
                     PJRT_TopologyDescription_PlatformName_Args,
                     platform_name_size);
TIDEWHEEL_SAME_CALL(TopologyDescriptionGetDeviceDescriptions,
                    PJRT_TopologyDescription_GetDeviceDescriptions);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionGetDeviceDescriptions,
                     PJRT_TopologyDescription_GetDeviceDescriptions_Args,
                     topology);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionGetDeviceDescriptions,
                     PJRT_TopologyDescription_GetDeviceDescriptions_Args,
                     descriptions);
TIDEWHEEL_SAME_FIELD(TopologyDescriptionGetDeviceDescriptions,
                     PJRT_TopologyDescription_GetDeviceDescriptions_Args,
                     num_descriptions);
TIDEWHEEL_SAME_CALL(ClientBufferFromHostBuffer,
                    PJRT_Client_BufferFromHostBuffer);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, client);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, data);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, type);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, dims);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, num_dims);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, byte_strides);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args,
                     host_buffer_semantics);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, device);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, memory);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, device_layout);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args,
                     done_with_host_buffer);
TIDEWHEEL_SAME_FIELD(ClientBufferFromHostBuffer,
                     PJRT_Client_BufferFromHostBuffer_Args, buffer);
TIDEWHEEL_SAME_CALL(ClientCreateUninitializedBuffer,
                    PJRT_Client_CreateUninitializedBuffer);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args, client);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args, shape_dims);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args,
                     shape_num_dims);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args,
                     shape_element_type);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args, shape_layout);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args, device);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args, memory);
TIDEWHEEL_SAME_FIELD(ClientCreateUninitializedBuffer,
                     PJRT_Client_CreateUninitializedBuffer_Args, buffer);
TIDEWHEEL_SAME_CALL(BufferDestroy, PJRT_Buffer_Destroy);
TIDEWHEEL_SAME_FIELD(BufferDestroy, PJRT_Buffer_Destroy_Args, buffer);
TIDEWHEEL_SAME_CALL(BufferElementType, PJRT_Buffer_ElementType);
TIDEWHEEL_SAME_FIELD(BufferElementType, PJRT_Buffer_ElementType_Args, buffer);
TIDEWHEEL_SAME_FIELD(BufferElementType, PJRT_Buffer_ElementType_Args, type);
TIDEWHEEL_SAME_CALL(BufferDimensions, PJRT_Buffer_Dimensions);
TIDEWHEEL_SAME_FIELD(BufferDimensions, PJRT_Buffer_Dimensions_Args, buffer);
TIDEWHEEL_SAME_FIELD(BufferDimensions, PJRT_Buffer_Dimensions_Args, dims);
TIDEWHEEL_SAME_FIELD(BufferDimensions, PJRT_Buffer_Dimensions_Args, num_dims);
TIDEWHEEL_SAME_CALL(BufferOnDeviceSizeInBytes, PJRT_Buffer_OnDeviceSizeInBytes);
TIDEWHEEL_SAME_FIELD(BufferOnDeviceSizeInBytes,
                     PJRT_Buffer_OnDeviceSizeInBytes_Args, buffer);
TIDEWHEEL_SAME_FIELD(BufferOnDeviceSizeInBytes,
                     PJRT_Buffer_OnDeviceSizeInBytes_Args,
                     on_device_size_in_bytes);
TIDEWHEEL_SAME_CALL(BufferDelete, PJRT_Buffer_Delete);
TIDEWHEEL_SAME_FIELD(BufferDelete, PJRT_Buffer_Delete_Args, buffer);
TIDEWHEEL_SAME_CALL(BufferIsDeleted, PJRT_Buffer_IsDeleted);
TIDEWHEEL_SAME_FIELD(BufferIsDeleted, PJRT_Buffer_IsDeleted_Args, buffer);
TIDEWHEEL_SAME_FIELD(BufferIsDeleted, PJRT_Buffer_IsDeleted_Args, is_deleted);
TIDEWHEEL_SAME_CALL(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer);
TIDEWHEEL_SAME_FIELD(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, src);
TIDEWHEEL_SAME_FIELD(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args,
                     host_layout);
TIDEWHEEL_SAME_FIELD(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, dst);
TIDEWHEEL_SAME_FIELD(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args,
                     dst_size);
TIDEWHEEL_SAME_FIELD(BufferToHostBuffer, PJRT_Buffer_ToHostBuffer_Args, event);
TIDEWHEEL_SAME_CALL(BufferReadyEvent, PJRT_Buffer_ReadyEvent);
TIDEWHEEL_SAME_FIELD(BufferReadyEvent, PJRT_Buffer_ReadyEvent_Args, buffer);
TIDEWHEEL_SAME_FIELD(BufferReadyEvent, PJRT_Buffer_ReadyEvent_Args, event);
TIDEWHEEL_SAME_CALL(BufferUnsafePointer, PJRT_Buffer_UnsafePointer);
TIDEWHEEL_SAME_FIELD(BufferUnsafePointer, PJRT_Buffer_UnsafePointer_Args,
                     buffer);
TIDEWHEEL_SAME_FIELD(BufferUnsafePointer, PJRT_Buffer_UnsafePointer_Args,
                     buffer_pointer);
TIDEWHEEL_SAME_CALL(ExecutableDestroy, PJRT_Executable_Destroy);
TIDEWHEEL_SAME_FIELD(ExecutableDestroy, PJRT_Executable_Destroy_Args,
                     executable);
TIDEWHEEL_SAME_CALL(ExecutableNumOutputs, PJRT_Executable_NumOutputs);
TIDEWHEEL_SAME_FIELD(ExecutableNumOutputs, PJRT_Executable_NumOutputs_Args,
                     executable);
TIDEWHEEL_SAME_FIELD(ExecutableNumOutputs, PJRT_Executable_NumOutputs_Args,
                     num_outputs);
TIDEWHEEL_SAME_CALL(ExecutableSerialize, PJRT_Executable_Serialize);
TIDEWHEEL_SAME_FIELD(ExecutableSerialize, PJRT_Executable_Serialize_Args,
                     executable);
TIDEWHEEL_SAME_FIELD(ExecutableSerialize, PJRT_Executable_Serialize_Args,
                     serialized_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableSerialize, PJRT_Executable_Serialize_Args,
                     serialized_bytes_size);
TIDEWHEEL_SAME_FIELD(ExecutableSerialize, PJRT_Executable_Serialize_Args,
                     serialized_executable);
TIDEWHEEL_SAME_FIELD(ExecutableSerialize, PJRT_Executable_Serialize_Args,
                     serialized_executable_deleter);
TIDEWHEEL_SAME_CALL(ExecutableOutputElementTypes,
                    PJRT_Executable_OutputElementTypes);
TIDEWHEEL_SAME_FIELD(ExecutableOutputElementTypes,
                     PJRT_Executable_OutputElementTypes_Args, executable);
TIDEWHEEL_SAME_FIELD(ExecutableOutputElementTypes,
                     PJRT_Executable_OutputElementTypes_Args, output_types);
TIDEWHEEL_SAME_FIELD(ExecutableOutputElementTypes,
                     PJRT_Executable_OutputElementTypes_Args, num_output_types);
TIDEWHEEL_SAME_CALL(ExecutableOutputDimensions,
                    PJRT_Executable_OutputDimensions);
TIDEWHEEL_SAME_FIELD(ExecutableOutputDimensions,
                     PJRT_Executable_OutputDimensions_Args, executable);
TIDEWHEEL_SAME_FIELD(ExecutableOutputDimensions,
                     PJRT_Executable_OutputDimensions_Args, num_outputs);
TIDEWHEEL_SAME_FIELD(ExecutableOutputDimensions,
                     PJRT_Executable_OutputDimensions_Args, dims);
TIDEWHEEL_SAME_FIELD(ExecutableOutputDimensions,
                     PJRT_Executable_OutputDimensions_Args, dim_sizes);
TIDEWHEEL_SAME_CALL(ExecutableGetCompiledMemoryStats,
                    PJRT_Executable_GetCompiledMemoryStats);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args, executable);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     generated_code_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     argument_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     output_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     alias_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     temp_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     host_generated_code_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     host_argument_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     host_output_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     host_alias_size_in_bytes);
TIDEWHEEL_SAME_FIELD(ExecutableGetCompiledMemoryStats,
                     PJRT_Executable_GetCompiledMemoryStats_Args,
                     host_temp_size_in_bytes);
TIDEWHEEL_SAME_CALL(LoadedExecutableDestroy, PJRT_LoadedExecutable_Destroy);
TIDEWHEEL_SAME_FIELD(LoadedExecutableDestroy,
                     PJRT_LoadedExecutable_Destroy_Args, executable);
TIDEWHEEL_SAME_CALL(LoadedExecutableGetExecutable,
                    PJRT_LoadedExecutable_GetExecutable);
TIDEWHEEL_SAME_FIELD(LoadedExecutableGetExecutable,
                     PJRT_LoadedExecutable_GetExecutable_Args,
                     loaded_executable);
TIDEWHEEL_SAME_FIELD(LoadedExecutableGetExecutable,
                     PJRT_LoadedExecutable_GetExecutable_Args, executable);
TIDEWHEEL_SAME_CALL(LoadedExecutableAddressableDevices,
                    PJRT_LoadedExecutable_AddressableDevices);
TIDEWHEEL_SAME_FIELD(LoadedExecutableAddressableDevices,
                     PJRT_LoadedExecutable_AddressableDevices_Args, executable);
TIDEWHEEL_SAME_FIELD(LoadedExecutableAddressableDevices,
                     PJRT_LoadedExecutable_AddressableDevices_Args,
                     addressable_devices);
TIDEWHEEL_SAME_FIELD(LoadedExecutableAddressableDevices,
                     PJRT_LoadedExecutable_AddressableDevices_Args,
                     num_addressable_devices);
TIDEWHEEL_SAME_CALL(ExecutableDeserializeAndLoad,
                    PJRT_Executable_DeserializeAndLoad);
TIDEWHEEL_SAME_FIELD(ExecutableDeserializeAndLoad,
                     PJRT_Executable_DeserializeAndLoad_Args, client);
TIDEWHEEL_SAME_FIELD(ExecutableDeserializeAndLoad,
                     PJRT_Executable_DeserializeAndLoad_Args,
                     serialized_executable);
TIDEWHEEL_SAME_FIELD(ExecutableDeserializeAndLoad,
                     PJRT_Executable_DeserializeAndLoad_Args,
                     serialized_executable_size);
TIDEWHEEL_SAME_FIELD(ExecutableDeserializeAndLoad,
                     PJRT_Executable_DeserializeAndLoad_Args,
                     loaded_executable);
TIDEWHEEL_SAME_FIELD(ExecutableDeserializeAndLoad,
                     PJRT_Executable_DeserializeAndLoad_Args,
                     overridden_serialized_compile_options);
TIDEWHEEL_SAME_FIELD(ExecutableDeserializeAndLoad,
                     PJRT_Executable_DeserializeAndLoad_Args,
                     overridden_serialized_compile_options_size);
TIDEWHEEL_SAME_CALL(LoadedExecutableExecute, PJRT_LoadedExecutable_Execute);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, executable);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, options);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, argument_lists);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, num_devices);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, num_args);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, output_lists);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args,
                     device_complete_events);
TIDEWHEEL_SAME_FIELD(LoadedExecutableExecute,
                     PJRT_LoadedExecutable_Execute_Args, execute_device);
TIDEWHEEL_SAME_FIELD(Program, PJRT_Program, code);
TIDEWHEEL_SAME_FIELD(Program, PJRT_Program, code_size);
TIDEWHEEL_SAME_FIELD(Program, PJRT_Program, format);
TIDEWHEEL_SAME_FIELD(Program, PJRT_Program, format_size);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions, send_callbacks);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions, recv_callbacks);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions, num_send_ops);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions, num_recv_ops);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions, launch_id);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions,
                     non_donatable_input_indices);
TIDEWHEEL_SAME_FIELD(ExecuteOptions, PJRT_ExecuteOptions,
                     num_non_donatable_input_indices);

static_assert(sizeof(Block<Program>) >= sizeof(PJRT_Program));
static_assert(sizeof(Block<ExecuteOptions>) >= sizeof(PJRT_ExecuteOptions));

static_assert(offsetof(Api, struct_size) == offsetof(PJRT_Api, struct_size));
static_assert(kBlockHeadBytes + offsetof(PJRT_Api_Version, major_version) ==
              offsetof(Api, major_version));
static_assert(kBlockHeadBytes + offsetof(PJRT_Api_Version, minor_version) ==
              offsetof(Api, minor_version));
static_assert(offsetof(PJRT_Api, pjrt_api_version) ==
              offsetof(Api, version_struct_size));
static_assert(PJRT_API_MAJOR == kMajorVersion);
static_assert(PJRT_API_MINOR >= kOldestMinorVersion);

// Elements of an array: the stride must be the plugin's.
#define TIDEWHEEL_SAME_MEMBER(Ours, Theirs, field)                 \
  static_assert(offsetof(Ours, field) == offsetof(Theirs, field)); \
  static_assert(sizeof(Ours::field) == sizeof(Theirs::field))
static_assert(sizeof(NamedValue) == sizeof(PJRT_NamedValue));
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, name);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, name_size);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, type);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, string_value);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, int64_value);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, int64_array_value);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, float_value);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, bool_value);
TIDEWHEEL_SAME_MEMBER(NamedValue, PJRT_NamedValue, value_size);

// The tiled layout lies inside a union of the official struct.
static_assert(kBlockHeadBytes + offsetof(MemoryLayout, type) ==
              offsetof(PJRT_Buffer_MemoryLayout, type));
static_assert(kBlockHeadBytes == offsetof(PJRT_Buffer_MemoryLayout, tiled));
TIDEWHEEL_SAME_MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout_Tiled,
                      minor_to_major);
TIDEWHEEL_SAME_MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout_Tiled,
                      minor_to_major_size);
TIDEWHEEL_SAME_MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout_Tiled, tile_dims);
TIDEWHEEL_SAME_MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout_Tiled,
                      tile_dim_sizes);
TIDEWHEEL_SAME_MEMBER(MemoryLayout, PJRT_Buffer_MemoryLayout_Tiled, num_tiles);
static_assert(sizeof(Block<MemoryLayout>) >= sizeof(PJRT_Buffer_MemoryLayout));

#define TIDEWHEEL_SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kInvalid, PJRT_Buffer_Type_INVALID);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kPred, PJRT_Buffer_Type_PRED);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kI8, PJRT_Buffer_Type_S8);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kI16, PJRT_Buffer_Type_S16);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kI32, PJRT_Buffer_Type_S32);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kI64, PJRT_Buffer_Type_S64);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kUi8, PJRT_Buffer_Type_U8);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kUi16, PJRT_Buffer_Type_U16);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kUi32, PJRT_Buffer_Type_U32);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kUi64, PJRT_Buffer_Type_U64);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kF16, PJRT_Buffer_Type_F16);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kF32, PJRT_Buffer_Type_F32);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kF64, PJRT_Buffer_Type_F64);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kBf16, PJRT_Buffer_Type_BF16);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kF8E5m2, PJRT_Buffer_Type_F8E5M2);
TIDEWHEEL_SAME_NUMBER(PjrtElementType::kF8E4m3fn, PJRT_Buffer_Type_F8E4M3FN);
TIDEWHEEL_SAME_NUMBER(NamedValueType::kString, PJRT_NamedValue_kString);
TIDEWHEEL_SAME_NUMBER(NamedValueType::kInt64, PJRT_NamedValue_kInt64);
TIDEWHEEL_SAME_NUMBER(NamedValueType::kInt64List, PJRT_NamedValue_kInt64List);
TIDEWHEEL_SAME_NUMBER(NamedValueType::kFloat, PJRT_NamedValue_kFloat);
TIDEWHEEL_SAME_NUMBER(NamedValueType::kBool, PJRT_NamedValue_kBool);
TIDEWHEEL_SAME_NUMBER(HostBufferSemantics::kImmutableOnlyDuringCall,
                      PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
TIDEWHEEL_SAME_NUMBER(
    HostBufferSemantics::kImmutableUntilTransferCompletes,
    PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
TIDEWHEEL_SAME_NUMBER(HostBufferSemantics::kImmutableZeroCopy,
                      PJRT_HostBufferSemantics_kImmutableZeroCopy);
TIDEWHEEL_SAME_NUMBER(HostBufferSemantics::kMutableZeroCopy,
                      PJRT_HostBufferSemantics_kMutableZeroCopy);
TIDEWHEEL_SAME_NUMBER(MemoryLayoutType::kTiled,
                      PJRT_Buffer_MemoryLayout_Type_Tiled);
TIDEWHEEL_SAME_NUMBER(MemoryLayoutType::kStrides,
                      PJRT_Buffer_MemoryLayout_Type_Strides);
TIDEWHEEL_SAME_NUMBER(absl::StatusCode::kCancelled, PJRT_Error_Code_CANCELLED);
TIDEWHEEL_SAME_NUMBER(absl::StatusCode::kUnauthenticated,
                      PJRT_Error_Code_UNAUTHENTICATED);
TIDEWHEEL_SAME_NUMBER(absl::StatusCode::kUnimplemented,
                      PJRT_Error_Code_UNIMPLEMENTED);

TEST(PjrtLayoutTest, DeclarationsAgreeWithTheOfficialHeader) {
  RecordProperty("pjrt_api_minor", PJRT_API_MINOR);
}

#else

TEST(PjrtLayoutTest, DeclarationsAgreeWithTheOfficialHeader) {
  TIDEWHEEL_REQUIRE_PJRT_VALUE(
      std::string(),
      "TIDEWHEEL_PJRT_HEADER, a variable of CMake or of the environment while "
      "configuring: the folder with pjrt_c_api.h");
}

// NOLINTEND(bugprone-sizeof-expression)

#endif

}  // namespace
}  // namespace tidewheel::pjrt_abi
