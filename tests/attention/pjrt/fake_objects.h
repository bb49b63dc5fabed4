// What the files of the fake plugin share: its objects, their registry, and
// how a call begins.
//
// Thread-safety: the registry has a lock; see fake_plugin.h for the rest.

#ifndef TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_OBJECTS_H_
#define TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_OBJECTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "tests/attention/pjrt/fake_plugin.h"

namespace tidewheel::pjrt_abi {

struct Error {
  int code;
  std::string text;
};
struct Event {
  bool fails = false;
};
struct Memory {
  std::string kind = "device";
};
struct DeviceDescription {
  int id = 0;
  std::string kind = "fake";
  std::string text = "FAKE";
};
struct Device {
  DeviceDescription description;
  Memory memory;
  std::vector<Memory*> memories;
};
struct Client {
  std::vector<Device> devices;
  std::vector<Device*> handles;
};
struct Buffer {
  FakeArray array;
  std::vector<std::byte> bytes;
  bool deleted = false;
  bool poisoned = false;
};
struct Executable {
  std::vector<PjrtElementType> types;
  std::vector<int64_t> dims;
  std::vector<size_t> ranks;
  int64_t alias_bytes = 0;
  TopologyDescription* topology = nullptr;  // what it was compiled for
};
struct LoadedExecutable {
  std::vector<FakeArray> outputs;
  int donated_argument = -1;
  Device* device = nullptr;
};
struct SerializedExecutable {
  std::string bytes;
};
struct TopologyDescription {
  DeviceDescription description;
  std::vector<DeviceDescription*> descriptions;
  int num_live_programs = 0;
};

}  // namespace tidewheel::pjrt_abi

namespace tidewheel::fake {

FakePlugin* State();

// Registers a live handle, so that a dead or foreign one is noticed.
void Register(const void* handle, std::atomic<int>& count);
void Unregister(const void* handle, std::atomic<int>& count, const char* what);
// A dead handle can not be answered for: the process ends, as a real plugin's
// would, only with a reason.
void CheckLive(const void* handle, const char* what);
void Violation(const std::string& text);

template <typename T>
T* Track(T* handle, std::atomic<int>& count) {
  Register(handle, count);
  return handle;
}

template <typename T>
void Destroy(T* handle, std::atomic<int>& count, const char* what) {
  Unregister(handle, count, what);
  delete handle;
}

pjrt_abi::Error* Fail(int code, const std::string& text);
pjrt_abi::Event* NewEvent(bool fails);
pjrt_abi::Buffer* NewBuffer(const FakeArray& array);
size_t BytesOf(const FakeArray& array);
void SetText(const std::string& text, const char** target, size_t* size);

// The fields of `block`, and the error that the test ordered for this call.
template <typename Fields>
Fields* Open(void* block, pjrt_abi::Error** error) {
  using pjrt_abi::kBlockHeadBytes;
  auto* const args = static_cast<pjrt_abi::Block<Fields>*>(block);
  if (args->struct_size <
          kBlockHeadBytes + sizeof(Fields) + pjrt_abi::kSpareBytes ||
      args->extension_start != nullptr) {
    Violation(std::string(Fields::kSlot.name) + ": no oversized block");
  }
  if (State()->failing_slot == Fields::kSlot.index) {
    *error = Fail(State()->failure_code, FakePlugin::kFailureText);
  }
  return &args->fields;
}

// Puts a function into the table; the files each set their own.
void SetSlot(pjrt_abi::Slot slot, pjrt_abi::Function function);
void SetVoidSlot(pjrt_abi::Slot slot, pjrt_abi::VoidFunction function);
void SetErrorSlots();
void SetClientSlots();
void SetProgramSlots();
void SetBufferSlots();
// Makes what the next launch returns beforehand.
void PrepareLaunch();

}  // namespace tidewheel::fake

// Begins a call: `args` are its fields, and an ordered failure returns.
#define TIDEWHEEL_FAKE_OPEN(Fields, args)                                      \
  ::tidewheel::pjrt_abi::Error* ordered_error = nullptr;                       \
  Fields* const args = ::tidewheel::fake::Open<Fields>(block, &ordered_error); \
  if (ordered_error != nullptr) return ordered_error

#endif  // TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_OBJECTS_H_
