// FakePlugin: a PJRT plugin that fails on demand and keeps count.
//
// It is a shared library of its own, loaded like any plugin; a test finds
// this state through the exported function GetFakePlugin. It compiles any
// text, and its programs return what the test announced: output i is a copy
// of argument i where the sizes agree, else zeros.
//
// Like real plugins it trusts its caller, but where a real one would crash or
// leak it notes a violation: a handle that is not alive, an argument block
// without spare bytes, a client destroyed before its buffers.
//
// Thread-safety: the atomics; set the rest while no call runs.

#ifndef TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_PLUGIN_H_
#define TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_PLUGIN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/pjrt/pjrt_element_type.h"

namespace tidewheel {

inline constexpr size_t kFakeNumSlots = 138;
inline constexpr int kNoSlot = -1;

struct FakeArray {
  PjrtElementType type = PjrtElementType::kF32;
  std::vector<int64_t> dims;
};

struct FakePlugin {
  // The table; call Refresh after a change.
  int major_version = 0;
  int minor_version = 81;
  bool no_table = false;
  size_t num_slots = kFakeNumSlots;
  int null_slot = kNoSlot;

  // Every call of this slot fails with that code and kFailureText.
  int failing_slot = kNoSlot;
  int failure_code = 13;
  static constexpr char kFailureText[] = "failed on demand";

  // Client creation waits until this is false.
  std::atomic<bool> hang_client_creation = false;
  std::atomic<int> num_client_creations = 0;  // that have returned
  std::vector<std::string> client_options;    // names, of the last creation
  int num_devices = 1;

  // Programs that are compiled from now on.
  std::vector<FakeArray> outputs;
  int donated_argument = -1;    // output 0 takes its memory
  std::string compile_options;  // of the last compilation

  // Launches from now on.
  std::vector<FakeArray> returned_outputs;  // instead of the announced ones
  bool lose_outputs = false;                // null buffers
  bool lose_event = false;
  bool fail_after_launch = false;         // event and outputs carry the failure
  std::atomic<bool> hold_events = false;  // events are pending while true
  std::atomic<int> num_launches = 0;
  // Makes what the next launch returns beforehand.
  void (*prepare_launch)() = nullptr;

  // Objects that were handed out and not given back.
  std::atomic<int> live_errors = 0;
  std::atomic<int> live_events = 0;
  std::atomic<int> live_clients = 0;
  std::atomic<int> live_buffers = 0;
  std::atomic<int> live_executables = 0;
  std::atomic<int> live_loaded_executables = 0;
  std::atomic<int> live_serialized = 0;
  std::atomic<int> live_topologies = 0;

  std::vector<std::string> violations;

  // Writes the table anew.
  void (*refresh)() = nullptr;
};

using GetFakePluginFunction = FakePlugin* (*)();
inline constexpr char kGetFakePlugin[] = "GetFakePlugin";

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_PLUGIN_H_
