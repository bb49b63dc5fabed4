// Calls of PJRT's C API about clients, devices, memories, topologies and
// compiling. See pjrt_c_api.h for the rules.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_CLIENT_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_CLIENT_H_

#include <cstddef>
#include <cstdint>

#include "attention/pjrt/pjrt_c_api.h"

namespace tidewheel::pjrt_abi {

// ---- Client ----

struct ClientCreate {
  static constexpr Slot kSlot{10, "PJRT_Client_Create"};
  const NamedValue* create_options;
  size_t num_options;
  void* kv_get_callback;
  void* kv_get_user_arg;
  void* kv_put_callback;
  void* kv_put_user_arg;
  Client* client;  // out
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
};

struct ClientDestroy {
  static constexpr Slot kSlot{11, "PJRT_Client_Destroy"};
  Client* client;
};

struct ClientPlatformName {
  static constexpr Slot kSlot{12, "PJRT_Client_PlatformName"};
  Client* client;
  const char* platform_name;  // out; lives as long as the client
  size_t platform_name_size;  // out
};

struct ClientPlatformVersion {
  static constexpr Slot kSlot{14, "PJRT_Client_PlatformVersion"};
  Client* client;
  const char* platform_version;  // out; lives as long as the client
  size_t platform_version_size;  // out
};

struct ClientAddressableDevices {
  static constexpr Slot kSlot{16, "PJRT_Client_AddressableDevices"};
  Client* client;
  Device* const* addressable_devices;  // out
  size_t num_addressable_devices;      // out
};

// ---- Devices and their memories ----

struct DeviceDescriptionId {
  static constexpr Slot kSlot{23, "PJRT_DeviceDescription_Id"};
  DeviceDescription* device_description;
  int32_t id;  // out; unique over all processes
};

struct DeviceDescriptionKind {
  static constexpr Slot kSlot{26, "PJRT_DeviceDescription_Kind"};
  DeviceDescription* device_description;
  const char* device_kind;  // out
  size_t device_kind_size;  // out
};

struct DeviceDescriptionDebugString {
  static constexpr Slot kSlot{27, "PJRT_DeviceDescription_DebugString"};
  DeviceDescription* device_description;
  const char* debug_string;  // out
  size_t debug_string_size;  // out
};

struct DeviceGetDescription {
  static constexpr Slot kSlot{29, "PJRT_Device_GetDescription"};
  Device* device;
  DeviceDescription* device_description;  // out
};

struct DeviceAddressableMemories {
  static constexpr Slot kSlot{32, "PJRT_Device_AddressableMemories"};
  Device* device;
  Memory* const* memories;  // out
  size_t num_memories;      // out
};

struct DeviceDefaultMemory {
  static constexpr Slot kSlot{33, "PJRT_Device_DefaultMemory"};
  Device* device;
  Memory* memory;  // out
};

// All but bytes_in_use may be absent. The layout is the C API's.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct DeviceMemoryStats {
  static constexpr Slot kSlot{34, "PJRT_Device_MemoryStats"};
  Device* device;
  int64_t bytes_in_use;  // out, as all below
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
};

struct MemoryKind {
  static constexpr Slot kSlot{36, "PJRT_Memory_Kind"};
  Memory* memory;
  const char* kind;  // out
  size_t kind_size;  // out
};

// ---- Compiling ----

// Read during the call only.
struct Program {
  const char* code;
  size_t code_size;
  const char* format;
  size_t format_size;
};

struct ClientCompile {
  static constexpr Slot kSlot{20, "PJRT_Client_Compile"};
  Client* client;
  const Block<Program>* program;
  const char* compile_options;  // a serialized CompileOptionsProto
  size_t compile_options_size;
  LoadedExecutable* executable;  // out
};

// Compiles for a topology, without a client where that is null.
struct Compile {
  static constexpr Slot kSlot{89, "PJRT_Compile"};
  const TopologyDescription* topology;
  const Block<Program>* program;
  const char* compile_options;
  size_t compile_options_size;
  Client* client;
  Executable* executable;  // out
};

// ---- Topologies ----

struct TopologyDescriptionCreate {
  static constexpr Slot kSlot{82, "PJRT_TopologyDescription_Create"};
  const char* topology_name;
  size_t topology_name_size;
  const NamedValue* create_options;
  size_t num_options;
  TopologyDescription* topology;  // out
};

struct TopologyDescriptionDestroy {
  static constexpr Slot kSlot{83, "PJRT_TopologyDescription_Destroy"};
  TopologyDescription* topology;
};

struct TopologyDescriptionPlatformName {
  static constexpr Slot kSlot{84, "PJRT_TopologyDescription_PlatformName"};
  const TopologyDescription* topology;
  const char* platform_name;  // out
  size_t platform_name_size;  // out
};

struct TopologyDescriptionGetDeviceDescriptions {
  static constexpr Slot kSlot{86,
                              "PJRT_TopologyDescription_GetDeviceDescriptions"};
  const TopologyDescription* topology;
  DeviceDescription* const* descriptions;  // out
  size_t num_descriptions;                 // out
};

}  // namespace tidewheel::pjrt_abi

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_CLIENT_H_
