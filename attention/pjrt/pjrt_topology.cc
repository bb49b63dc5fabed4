#include "attention/pjrt/pjrt_topology.h"

#include <utility>

#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/pjrt_program.h"

namespace tidewheel {

PjrtTopologyTarget TpuCompileTarget(TpuGeneration generation) {
  PjrtTopologyTarget target;
  // libtpu 0.0.42.1 takes hosts of 2x2x1 chips for granted otherwise.
  target.options.push_back(
      {"chips_per_host_bounds", std::vector<int64_t>{1, 1, 1}});
  switch (generation) {
    case TpuGeneration::kV4:
      target.name = "v4:1x1x1";
      target.options.push_back({"chip_config_name", std::string("megacore")});
      break;
    case TpuGeneration::kV5e:
      target.name = "v5e:1x1";
      break;
    case TpuGeneration::kV5p:
      target.name = "v5p:1x1x1";
      break;
    case TpuGeneration::kV6e:
      target.name = "v6e:1x1";
      break;
    case TpuGeneration::kV7x:
      target.name = "tpu7x:1x1x1";
      break;
  }
  return target;
}

PjrtTopology::PjrtTopology(std::shared_ptr<const PjrtPlugin> plugin,
                           pjrt_abi::TopologyDescription* handle)
    : plugin_(std::move(plugin)), handle_(handle) {}

PjrtTopology::~PjrtTopology() {
  pjrt_abi::Block<pjrt_abi::TopologyDescriptionDestroy> args;
  args->topology = handle_;
  plugin_->Call(args).IgnoreError();
}

absl::StatusOr<std::shared_ptr<PjrtTopology>> PjrtTopology::Create(
    std::shared_ptr<const PjrtPlugin> plugin,
    const PjrtTopologyTarget& target) {
  TIDEWHEEL_CHECK(plugin != nullptr);
  const PjrtNamedValueArray options(target.options);
  pjrt_abi::Block<pjrt_abi::TopologyDescriptionCreate> args;
  args->topology_name = target.name.data();
  args->topology_name_size = target.name.size();
  args->create_options = options.data();
  args->num_options = options.size();
  TIDEWHEEL_RETURN_IF_ERROR(plugin->Call(args));
  std::shared_ptr<PjrtTopology> topology(
      new PjrtTopology(std::move(plugin), args->topology));
  TIDEWHEEL_RETURN_IF_ERROR(topology->ReadDescription());
  return topology;
}

absl::Status PjrtTopology::ReadDescription() {
  pjrt_abi::Block<pjrt_abi::TopologyDescriptionPlatformName> name;
  name->topology = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(name));
  platform_name_.assign(name->platform_name, name->platform_name_size);
  pjrt_abi::Block<pjrt_abi::TopologyDescriptionGetDeviceDescriptions> devices;
  devices->topology = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(devices));
  num_devices_ = devices->num_descriptions;
  if (num_devices_ == 0) return absl::OkStatus();
  pjrt_abi::Block<pjrt_abi::DeviceDescriptionKind> kind;
  kind->device_description = devices->descriptions[0];
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(kind));
  device_kind_.assign(kind->device_kind, kind->device_kind_size);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PjrtCompiledProgram>> PjrtTopology::Compile(
    absl::string_view program) const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckProgram(program));
  const std::string options = CompileOptionsBytes(std::nullopt);
  const pjrt_abi::Block<pjrt_abi::Program> block = MlirProgram(program);
  pjrt_abi::Block<pjrt_abi::Compile> args;
  args->topology = handle_;
  args->program = &block;
  args->compile_options = options.data();
  args->compile_options_size = options.size();
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  return PjrtCompiledProgram::Create(plugin_.get(), shared_from_this(),
                                     args->executable);
}

}  // namespace tidewheel
