// PjrtDevice: one device that a client can run programs on.
//
// It is a description and a handle; the client owns it, and it is valid as
// long as the client.
//
// Thread-safety: const methods may be called concurrently.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_DEVICE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_DEVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_plugin.h"

namespace tidewheel {

// Of the device's default memory, in bytes.
struct PjrtDeviceMemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> bytes_limit;  // what a program can have
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> largest_free_block_bytes;
};

class PjrtDevice {
 public:
  // Errors: the plugin's.
  static absl::StatusOr<PjrtDevice> Create(const PjrtPlugin* plugin,
                                           pjrt_abi::Device* handle);

  // Unique over all processes; what a program is compiled for.
  int id() const { return id_; }
  // "TPU v5 lite", "cpu".
  const std::string& kind() const { return kind_; }
  const std::string& debug_string() const { return debug_string_; }
  // "device", "pinned_host", ...
  const std::vector<std::string>& memory_kinds() const { return memory_kinds_; }
  // Where buffers go; empty if the plugin does not say.
  const std::string& default_memory_kind() const {
    return default_memory_kind_;
  }

  // Absent where the plugin keeps none (CPU plugins).
  //
  // Errors: the plugin's others.
  absl::StatusOr<std::optional<PjrtDeviceMemoryStats>> MemoryStats() const;

  pjrt_abi::Device* handle() const { return handle_; }

 private:
  PjrtDevice(const PjrtPlugin* plugin, pjrt_abi::Device* handle)
      : plugin_(plugin), handle_(handle) {}

  absl::Status ReadDescription();
  absl::Status ReadMemories();

  const PjrtPlugin* plugin_;
  pjrt_abi::Device* handle_;
  int id_ = 0;
  std::string kind_;
  std::string debug_string_;
  std::vector<std::string> memory_kinds_;
  std::string default_memory_kind_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_DEVICE_H_
