// Calls of PJRT's C API about executables. See pjrt_c_api.h for the rules.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_EXECUTABLE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_EXECUTABLE_H_

#include <cstddef>
#include <cstdint>

#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_element_type.h"

namespace tidewheel::pjrt_abi {

// ---- An executable that no client holds ----

struct ExecutableDestroy {
  static constexpr Slot kSlot{40, "PJRT_Executable_Destroy"};
  Executable* executable;
};

struct ExecutableNumOutputs {
  static constexpr Slot kSlot{44, "PJRT_Executable_NumOutputs"};
  Executable* executable;
  size_t num_outputs;  // out
};

struct ExecutableSerialize {
  static constexpr Slot kSlot{49, "PJRT_Executable_Serialize"};
  const Executable* executable;
  const char* serialized_bytes;                 // out
  size_t serialized_bytes_size;                 // out
  SerializedExecutable* serialized_executable;  // out; owns the bytes
  void (*serialized_executable_deleter)(SerializedExecutable*);  // out
};

struct ExecutableOutputElementTypes {
  static constexpr Slot kSlot{90, "PJRT_Executable_OutputElementTypes"};
  Executable* executable;
  PjrtElementType* output_types;  // out; the executable's
  size_t num_output_types;        // out
};

struct ExecutableOutputDimensions {
  static constexpr Slot kSlot{91, "PJRT_Executable_OutputDimensions"};
  Executable* executable;
  size_t num_outputs;       // out
  const int64_t* dims;      // out; of all outputs, one after the other
  const size_t* dim_sizes;  // out; [num_outputs], the rank of each
};

struct ExecutableGetCompiledMemoryStats {
  static constexpr Slot kSlot{96, "PJRT_Executable_GetCompiledMemoryStats"};
  Executable* executable;
  int64_t generated_code_size_in_bytes;  // out, as all below
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
};

// ---- A loaded executable ----

struct LoadedExecutableDestroy {
  static constexpr Slot kSlot{50, "PJRT_LoadedExecutable_Destroy"};
  LoadedExecutable* executable;
};

struct LoadedExecutableGetExecutable {
  static constexpr Slot kSlot{51, "PJRT_LoadedExecutable_GetExecutable"};
  LoadedExecutable* loaded_executable;
  Executable* executable;  // out; to be destroyed
};

struct LoadedExecutableAddressableDevices {
  static constexpr Slot kSlot{52, "PJRT_LoadedExecutable_AddressableDevices"};
  LoadedExecutable* executable;
  Device* const* addressable_devices;  // out
  size_t num_addressable_devices;      // out
};

struct ExecutableDeserializeAndLoad {
  static constexpr Slot kSlot{56, "PJRT_Executable_DeserializeAndLoad"};
  Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  LoadedExecutable* loaded_executable;  // out
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
};

// Never null in a launch: plugins read it unasked.
struct ExecuteOptions {
  void* send_callbacks;
  void* recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int32_t launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
};

struct LoadedExecutableExecute {
  static constexpr Slot kSlot{55, "PJRT_LoadedExecutable_Execute"};
  LoadedExecutable* executable;
  Block<ExecuteOptions>* options;
  Buffer* const* const* argument_lists;  // [num_devices][num_args]
  size_t num_devices;
  size_t num_args;
  Buffer** const* output_lists;    // [num_devices][number of outputs], out
  Event** device_complete_events;  // [num_devices], out
  Device* execute_device;
};

}  // namespace tidewheel::pjrt_abi

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_EXECUTABLE_H_
