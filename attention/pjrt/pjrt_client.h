// PjrtClient: the devices that a plugin drives in this process, and what
// makes executables and buffers for them.
//
// It is not the plugin: several clients of one plugin may exist on a CPU; a
// TPU's chips belong to one client of one process.
//
// Lifecycle:
//   1. PjrtPlugin::Load, then Create.
//   2. Compile or Load programs; Upload arrays; launch.
//   3. It is destroyed with the last of its owners: executables, buffers and
//      events each keep it alive, so the order of destruction is always right.
//
// Thread-safety: all methods may be called concurrently.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_CLIENT_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_buffer.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_device.h"
#include "attention/pjrt/pjrt_executable.h"
#include "attention/pjrt/pjrt_named_value.h"
#include "attention/pjrt/pjrt_plugin.h"
#include "attention/pjrt/pjrt_shape.h"
#include "attention/pjrt/pjrt_signature.h"

namespace tidewheel {

struct PjrtClientOptions {
  // The plugin's own options. libtpu needs none.
  std::vector<PjrtNamedValue> named_values = {};
  // A TPU's first client may take tens of seconds; one that another process
  // holds, for ever.
  int64_t create_timeout_ms = 120'000;
};

// For CPU plugins, whose own default is 4 devices.
PjrtClientOptions CpuClientOptions(int num_devices = 1);

struct PjrtCompileOptions {
  // PjrtDevice::id; absent: the client's first device.
  std::optional<int> device_id = std::nullopt;
};

class PjrtClient : public std::enable_shared_from_this<PjrtClient> {
 public:
  // The client is made on a thread of its own. If that takes longer than
  // create_timeout_ms it can not be stopped: the thread is left behind with
  // all that it reads, and destroys the client if there ever is one.
  //
  // Errors: InvalidArgument for a timeout below 1 ms or above a day;
  // DeadlineExceeded; Unavailable for a client without devices; the plugin's.
  static absl::StatusOr<std::shared_ptr<PjrtClient>> Create(
      std::shared_ptr<const PjrtPlugin> plugin,
      const PjrtClientOptions& options = {});

  PjrtClient(const PjrtClient&) = delete;
  PjrtClient& operator=(const PjrtClient&) = delete;
  ~PjrtClient();

  const PjrtPlugin& plugin() const { return *plugin_; }
  // "tpu", "cpu".
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  // Those of this process, at least one.
  std::span<const PjrtDevice> devices() const { return devices_; }
  // Null if it is not one of them.
  const PjrtDevice* FindDevice(pjrt_abi::Device* handle) const;

  // `program` is StableHLO, text or MLIR bytecode; `signature` says what it
  // takes.
  //
  // Errors: InvalidArgument for an empty program, a `?` dimension or an
  // unknown device, before the compiler sees it; the compiler's; those of
  // PjrtExecutable::Create.
  absl::StatusOr<std::unique_ptr<PjrtExecutable>> Compile(
      absl::string_view program, PjrtSignature signature,
      const PjrtCompileOptions& options = {}) const;

  // Loads what Serialize returned. Only bytes of the same plugin file: the
  // plugin may load others without complaint.
  absl::StatusOr<std::unique_ptr<PjrtExecutable>> Load(
      absl::string_view serialized, PjrtSignature signature) const;

  // Copies a row-major array to `device` (null: the first). `data` is read
  // during the call only.
  //
  // Errors: InvalidArgument if `data` has not exactly shape.num_bytes(), or
  // the device is not the client's; the plugin's.
  absl::StatusOr<PjrtBuffer> Upload(std::span<const std::byte> data,
                                    const PjrtShape& shape,
                                    const PjrtDevice* device = nullptr) const;

  // Memory whose content is any.
  absl::StatusOr<PjrtBuffer> CreateUninitialized(
      const PjrtShape& shape, const PjrtDevice* device = nullptr) const;

  // `count` arrays of zeros, written by the device itself: nothing of their
  // size crosses from the host. Blocks until they are written. Compiles a
  // program, so make all of a shape in one call.
  absl::StatusOr<std::vector<PjrtBuffer>> CreateZeroed(
      const PjrtShape& shape, size_t count,
      const PjrtDevice* device = nullptr) const;

 private:
  PjrtClient(std::shared_ptr<const PjrtPlugin> plugin,
             pjrt_abi::Client* handle);

  absl::Status ReadPlatform();
  absl::Status ReadDevices();
  absl::StatusOr<const PjrtDevice*> CheckDevice(const PjrtDevice* device) const;

  const std::shared_ptr<const PjrtPlugin> plugin_;
  pjrt_abi::Client* const handle_;
  std::string platform_name_;
  std::string platform_version_;
  std::vector<PjrtDevice> devices_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_CLIENT_H_
