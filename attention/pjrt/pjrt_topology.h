// PjrtTopology: devices that need not be there, to compile for.
//
// It is not a client: nothing runs and nothing is uploaded. libtpu offers it
// on any host; CPU plugins do not.
//
// Lifecycle:
//   1. SetLibtpuCompileEnvironment, then PjrtPlugin::Load.
//   2. Create with a name, e.g. those of TpuCompileTarget.
//   3. Compile, any number of times. A compiler may end the process on a
//      program that it should refuse: use a child process for programs that
//      come from elsewhere.
//
// Thread-safety: const methods may be called concurrently.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_TOPOLOGY_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_TOPOLOGY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_compiled_program.h"
#include "attention/pjrt/pjrt_named_value.h"
#include "attention/pjrt/pjrt_plugin.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

// What Create takes.
struct PjrtTopologyTarget {
  std::string name;
  std::vector<PjrtNamedValue> options = {};
};

// One chip of a generation in libtpu's words: "v5e:1x1" with
// chips_per_host_bounds 1,1,1, ... v4 is one device (megacore), v7x is two,
// one a core. Source: names tried with libtpu 0.0.42.1 and 0.0.52.
PjrtTopologyTarget TpuCompileTarget(TpuGeneration generation);

class PjrtTopology : public std::enable_shared_from_this<PjrtTopology> {
 public:
  // Errors: the plugin's, e.g. Unimplemented on CPU plugins, InvalidArgument
  // for an unknown name or option.
  static absl::StatusOr<std::shared_ptr<PjrtTopology>> Create(
      std::shared_ptr<const PjrtPlugin> plugin,
      const PjrtTopologyTarget& target);

  PjrtTopology(const PjrtTopology&) = delete;
  PjrtTopology& operator=(const PjrtTopology&) = delete;
  ~PjrtTopology();

  const std::string& platform_name() const { return platform_name_; }
  size_t num_devices() const { return num_devices_; }
  // Of the first device: "TPU v5 lite".
  const std::string& device_kind() const { return device_kind_; }

  // Compiles for one device.
  //
  // Errors: InvalidArgument for an empty program or a `?` dimension; the
  // compiler's, e.g. ResourceExhausted where SMEM, VMEM or HBM do not suffice.
  absl::StatusOr<std::unique_ptr<PjrtCompiledProgram>> Compile(
      absl::string_view program) const;

 private:
  PjrtTopology(std::shared_ptr<const PjrtPlugin> plugin,
               pjrt_abi::TopologyDescription* handle);

  absl::Status ReadDescription();

  const std::shared_ptr<const PjrtPlugin> plugin_;
  pjrt_abi::TopologyDescription* const handle_;
  std::string platform_name_;
  size_t num_devices_ = 0;
  std::string device_kind_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_TOPOLOGY_H_
