#include "attention/pjrt/pjrt_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/pjrt_client_creation.h"
#include "attention/pjrt/pjrt_program.h"

namespace tidewheel {
namespace {

constexpr int64_t kLongestTimeoutMs = 24LL * 60 * 60 * 1000;

}  // namespace

PjrtClientOptions CpuClientOptions(int num_devices) {
  PjrtClientOptions options;
  options.named_values.push_back(
      {"cpu_device_count", static_cast<int64_t>(num_devices)});
  return options;
}

PjrtClient::PjrtClient(std::shared_ptr<const PjrtPlugin> plugin,
                       pjrt_abi::Client* handle)
    : plugin_(std::move(plugin)), handle_(handle) {}

PjrtClient::~PjrtClient() {
  pjrt_abi::Block<pjrt_abi::ClientDestroy> args;
  args->client = handle_;
  plugin_->Call(args).IgnoreError();
}

absl::StatusOr<std::shared_ptr<PjrtClient>> PjrtClient::Create(
    std::shared_ptr<const PjrtPlugin> plugin,
    const PjrtClientOptions& options) {
  TIDEWHEEL_CHECK(plugin != nullptr);
  if (options.create_timeout_ms < 1 ||
      options.create_timeout_ms > kLongestTimeoutMs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "create_timeout_ms ", options.create_timeout_ms, " is outside [1, ",
        kLongestTimeoutMs, "]; 120000 suits a TPU"));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(pjrt_abi::Client* const handle,
                             CreateClientHandle(plugin, options.named_values,
                                                options.create_timeout_ms));
  std::shared_ptr<PjrtClient> client(new PjrtClient(std::move(plugin), handle));
  TIDEWHEEL_RETURN_IF_ERROR(client->ReadPlatform());
  TIDEWHEEL_RETURN_IF_ERROR(client->ReadDevices());
  return client;
}

absl::Status PjrtClient::ReadPlatform() {
  pjrt_abi::Block<pjrt_abi::ClientPlatformName> name;
  name->client = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(name));
  platform_name_.assign(name->platform_name, name->platform_name_size);
  pjrt_abi::Block<pjrt_abi::ClientPlatformVersion> version;
  version->client = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(version));
  platform_version_.assign(version->platform_version,
                           version->platform_version_size);
  return absl::OkStatus();
}

absl::Status PjrtClient::ReadDevices() {
  pjrt_abi::Block<pjrt_abi::ClientAddressableDevices> args;
  args->client = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  devices_.reserve(args->num_addressable_devices);
  for (pjrt_abi::Device* handle :
       std::span(args->addressable_devices, args->num_addressable_devices)) {
    TIDEWHEEL_ASSIGN_OR_RETURN(PjrtDevice device,
                               PjrtDevice::Create(plugin_.get(), handle));
    devices_.push_back(std::move(device));
  }
  if (devices_.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "PJRT plugin '", plugin_->path(), "' (platform ", platform_name_,
        ") has 0 devices in this process, 1 is needed; check that the device "
        "is attached and visible"));
  }
  return absl::OkStatus();
}

const PjrtDevice* PjrtClient::FindDevice(pjrt_abi::Device* handle) const {
  for (const PjrtDevice& device : devices_) {
    if (device.handle() == handle) return &device;
  }
  return nullptr;
}

absl::StatusOr<const PjrtDevice*> PjrtClient::CheckDevice(
    const PjrtDevice* device) const {
  if (device == nullptr) return &devices_.front();
  const PjrtDevice* const own = FindDevice(device->handle());
  if (own == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device ", device->id(), " (", device->debug_string(),
        ") is none of this client's; pass an element of its devices()"));
  }
  return own;
}

absl::StatusOr<std::unique_ptr<PjrtExecutable>> PjrtClient::Compile(
    absl::string_view program, PjrtSignature signature,
    const PjrtCompileOptions& options) const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckProgram(program));
  TIDEWHEEL_RETURN_IF_ERROR(CheckSignature(signature));
  if (options.device_id.has_value()) {
    std::vector<int> ids;
    bool found = false;
    for (const PjrtDevice& device : devices_) {
      ids.push_back(device.id());
      found = found || device.id() == *options.device_id;
    }
    if (!found) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device_id ", *options.device_id, " is none of this client's: ",
          absl::StrJoin(ids, ", "), "; pass one of these"));
    }
  }
  const std::string option_bytes = CompileOptionsBytes(options.device_id);
  const pjrt_abi::Block<pjrt_abi::Program> block = MlirProgram(program);
  pjrt_abi::Block<pjrt_abi::ClientCompile> args;
  args->client = handle_;
  args->program = &block;
  args->compile_options = option_bytes.data();
  args->compile_options_size = option_bytes.size();
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  return PjrtExecutable::Create(shared_from_this(), args->executable,
                                std::move(signature));
}

absl::StatusOr<std::unique_ptr<PjrtExecutable>> PjrtClient::Load(
    absl::string_view serialized, PjrtSignature signature) const {
  TIDEWHEEL_RETURN_IF_ERROR(CheckSignature(signature));
  pjrt_abi::Block<pjrt_abi::ExecutableDeserializeAndLoad> args;
  args->client = handle_;
  args->serialized_executable = serialized.data();
  args->serialized_executable_size = serialized.size();
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  return PjrtExecutable::Create(shared_from_this(), args->loaded_executable,
                                std::move(signature));
}

absl::StatusOr<PjrtBuffer> PjrtClient::Upload(std::span<const std::byte> data,
                                              const PjrtShape& shape,
                                              const PjrtDevice* device) const {
  if (shape == PjrtShape() ||
      data.size() != static_cast<size_t>(shape.num_bytes())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Upload: ", data.size(), " bytes were passed, ", shape.ToString(),
        " has ", shape.num_bytes(), "; pass an array of that size"));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(device, CheckDevice(device));
  std::byte nothing = {};
  pjrt_abi::Block<pjrt_abi::ClientBufferFromHostBuffer> args;
  args->client = handle_;
  args->data = data.empty() ? &nothing : data.data();
  args->type = shape.element_type();
  args->dims = shape.dims().data();
  args->num_dims = shape.rank();
  args->host_buffer_semantics =
      pjrt_abi::HostBufferSemantics::kImmutableOnlyDuringCall;
  args->device = device->handle();
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  PjrtBuffer buffer(shared_from_this(), device, args->buffer, shape);
  // The event only says that `data` is free, which these semantics promise
  // when the call returns. A failed transfer is in the buffer's ReadyEvent.
  if (args->done_with_host_buffer != nullptr) {
    PjrtEvent(plugin_.get(), nullptr, args->done_with_host_buffer);
  }
  return buffer;
}

absl::StatusOr<PjrtBuffer> PjrtClient::CreateUninitialized(
    const PjrtShape& shape, const PjrtDevice* device) const {
  if (shape == PjrtShape()) {
    return absl::InvalidArgumentError(
        "CreateUninitialized: the shape is none; state element type and "
        "dimensions");
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(device, CheckDevice(device));
  pjrt_abi::Block<pjrt_abi::ClientCreateUninitializedBuffer> args;
  args->client = handle_;
  args->shape_dims = shape.dims().data();
  args->shape_num_dims = shape.rank();
  args->shape_element_type = shape.element_type();
  args->device = device->handle();
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(args));
  return PjrtBuffer(shared_from_this(), device, args->buffer, shape);
}

absl::StatusOr<std::vector<PjrtBuffer>> PjrtClient::CreateZeroed(
    const PjrtShape& shape, size_t count, const PjrtDevice* device) const {
  if (shape == PjrtShape()) {
    return absl::InvalidArgumentError(
        "CreateZeroed: the shape is none; state element type and dimensions");
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(device, CheckDevice(device));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::unique_ptr<PjrtExecutable> fill,
      Compile(ZeroFillProgram(shape), {.arguments = {}, .outputs = {shape}},
              {.device_id = device->id()}));
  std::vector<PjrtBuffer> buffers(count);
  for (PjrtBuffer& buffer : buffers) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        const PjrtEvent done,
        fill->Launch({}, std::span<PjrtBuffer>(&buffer, 1)));
    TIDEWHEEL_RETURN_IF_ERROR(done.Await());
  }
  return buffers;
}

}  // namespace tidewheel
