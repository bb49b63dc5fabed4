// The part of PJRT's C API that this project calls, declared by ourselves:
// plugins ship no header, and the API is a stable binary layout.
//
// It is not a copy of the official header: only the calls that are used, as
// the trailing part of an argument block ("Fields"). pjrt_c_api_client.h,
// pjrt_c_api_buffer.h and pjrt_c_api_executable.h hold the other calls.
//
// Layout rules of the API:
// - The table of functions begins at byte 40; slot i is at 40 + 8 * i. New
//   slots are appended, old ones never move (0.57 to 0.117 compared).
// - Every argument block begins with its size and an extension list (null
//   here). A plugin refuses a block smaller than the one that it was built
//   with and accepts a larger one. So each block here is zeroed and has
//   kSpareBytes behind the fields that we know: new inputs of newer plugins
//   read as 0, new outputs land in memory that we own.
//
// Offsets are checked in pjrt_c_api.cc, and against the official header in
// tests/attention/pjrt. LP64 platforms only.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tidewheel::pjrt_abi {

// Objects that the plugin owns.
struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Buffer;
struct Executable;
struct LoadedExecutable;
struct SerializedExecutable;
struct TopologyDescription;

// Minor versions below 57 have another order of slots.
inline constexpr int kMajorVersion = 0;
inline constexpr int kOldestMinorVersion = 57;

// All slots take a pointer to an argument block. ErrorDestroy and ErrorMessage
// return nothing.
using Function = Error* (*)(void*);
using VoidFunction = void (*)(void*);

// A place in the table of functions, with its official name.
struct Slot {
  int index;
  const char* name;
};

// What GetPjrtApi returns: the head of the plugin's table.
struct Api {
  size_t struct_size;  // bytes, from here to behind the last slot
  void* extension_start;
  size_t version_struct_size;
  void* version_extension_start;
  int32_t major_version;
  int32_t minor_version;
  // Behind it: struct_size / 8 - 5 functions.
};

inline constexpr size_t kFirstSlotOffset = 40;
static_assert(sizeof(Api) == kFirstSlotOffset);

// The function in `slot`; null where the plugin's table is shorter or has a
// hole there.
template <typename AnyFunction = Function>
AnyFunction FindFunction(const Api& api, Slot slot) {
  const size_t offset =
      kFirstSlotOffset + sizeof(AnyFunction) * static_cast<size_t>(slot.index);
  if (api.struct_size < offset + sizeof(AnyFunction)) return nullptr;
  AnyFunction function = nullptr;
  std::memcpy(&function, reinterpret_cast<const char*>(&api) + offset,
              sizeof(function));
  return function;
}

using GetPjrtApi = const Api* (*)();
inline constexpr char kGetPjrtApi[] = "GetPjrtApi";

// Accepted by plugins from 0.78 to 0.117 for every call here. The growth of
// any one block between 0.67 and 0.116 was at most 80 bytes.
inline constexpr size_t kSpareBytes = 128;
inline constexpr size_t kBlockHeadBytes = 16;

// An argument block as a plugin sees it. All of it is zero but its size.
template <typename Fields>
struct Block {
  static_assert(std::is_trivially_copyable_v<Fields>);

  Block() {
    std::memset(static_cast<void*>(this), 0, sizeof(*this));
    struct_size = sizeof(*this);
  }
  Fields* operator->() { return &fields; }
  const Fields* operator->() const { return &fields; }

  size_t struct_size;
  void* extension_start;
  Fields fields;
  unsigned char spare[kSpareBytes];
};

// ---- Values ----

enum class NamedValueType : int32_t {
  kString = 0,
  kInt64 = 1,
  kInt64List = 2,
  kFloat = 3,
  kBool = 4,
};

// An element of an array whose stride the plugin knows, so it has no spare
// bytes.
struct NamedValue {
  size_t struct_size;
  void* extension_start;
  const char* name;
  size_t name_size;
  NamedValueType type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // characters or elements; 1 for a scalar
};
static_assert(sizeof(NamedValue) == 56);

// ---- Errors ----

struct ErrorDestroy {
  static constexpr Slot kSlot{0, "PJRT_Error_Destroy"};
  Error* error;
};

struct ErrorMessage {
  static constexpr Slot kSlot{1, "PJRT_Error_Message"};
  const Error* error;
  const char* message;  // out; lives as long as the error
  size_t message_size;  // out
};

struct ErrorGetCode {
  static constexpr Slot kSlot{2, "PJRT_Error_GetCode"};
  const Error* error;
  int32_t code;  // out; absl's numbers
};

// ---- Plugin ----

struct PluginInitialize {
  static constexpr Slot kSlot{3, "PJRT_Plugin_Initialize"};
};

struct PluginAttributes {
  static constexpr Slot kSlot{4, "PJRT_Plugin_Attributes"};
  const NamedValue* attributes;  // out; the plugin's
  size_t num_attributes;         // out
};

// ---- Events ----

struct EventDestroy {
  static constexpr Slot kSlot{5, "PJRT_Event_Destroy"};
  Event* event;
};

struct EventIsReady {
  static constexpr Slot kSlot{6, "PJRT_Event_IsReady"};
  Event* event;
  bool is_ready;  // out
};

// Aborts the process on an event that is not ready.
struct EventError {
  static constexpr Slot kSlot{7, "PJRT_Event_Error"};
  Event* event;
};

struct EventAwait {
  static constexpr Slot kSlot{8, "PJRT_Event_Await"};
  Event* event;
};

}  // namespace tidewheel::pjrt_abi

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_C_API_H_
