#include "attention/pjrt/pjrt_device.h"

#include <span>
#include <utility>

#include "absl/status/status.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_client.h"

namespace tidewheel {
namespace {

absl::StatusOr<std::string> KindOf(const PjrtPlugin& plugin,
                                   pjrt_abi::Memory* memory) {
  pjrt_abi::Block<pjrt_abi::MemoryKind> args;
  args->memory = memory;
  TIDEWHEEL_RETURN_IF_ERROR(plugin.Call(args));
  return std::string(args->kind, args->kind_size);
}

std::optional<int64_t> IfSet(bool is_set, int64_t value) {
  return is_set ? std::optional<int64_t>(value) : std::nullopt;
}

}  // namespace

absl::StatusOr<PjrtDevice> PjrtDevice::Create(const PjrtPlugin* plugin,
                                              pjrt_abi::Device* handle) {
  PjrtDevice device(plugin, handle);
  TIDEWHEEL_RETURN_IF_ERROR(device.ReadDescription());
  TIDEWHEEL_RETURN_IF_ERROR(device.ReadMemories());
  return device;
}

absl::Status PjrtDevice::ReadDescription() {
  pjrt_abi::Block<pjrt_abi::DeviceGetDescription> description;
  description->device = handle_;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(description));
  pjrt_abi::Block<pjrt_abi::DeviceDescriptionId> id;
  id->device_description = description->device_description;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(id));
  id_ = id->id;
  pjrt_abi::Block<pjrt_abi::DeviceDescriptionKind> kind;
  kind->device_description = description->device_description;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(kind));
  kind_.assign(kind->device_kind, kind->device_kind_size);
  pjrt_abi::Block<pjrt_abi::DeviceDescriptionDebugString> text;
  text->device_description = description->device_description;
  TIDEWHEEL_RETURN_IF_ERROR(plugin_->Call(text));
  debug_string_.assign(text->debug_string, text->debug_string_size);
  return absl::OkStatus();
}

absl::Status PjrtDevice::ReadMemories() {
  pjrt_abi::Block<pjrt_abi::DeviceAddressableMemories> args;
  args->device = handle_;
  const absl::Status status = plugin_->Call(args);
  // A plugin may have no notion of memory kinds.
  if (absl::IsUnimplemented(status)) return absl::OkStatus();
  TIDEWHEEL_RETURN_IF_ERROR(status);
  for (pjrt_abi::Memory* memory :
       std::span(args->memories, args->num_memories)) {
    TIDEWHEEL_ASSIGN_OR_RETURN(std::string kind, KindOf(*plugin_, memory));
    memory_kinds_.push_back(std::move(kind));
  }
  pjrt_abi::Block<pjrt_abi::DeviceDefaultMemory> default_memory;
  default_memory->device = handle_;
  if (plugin_->Call(default_memory).ok() && default_memory->memory != nullptr) {
    TIDEWHEEL_ASSIGN_OR_RETURN(default_memory_kind_,
                               KindOf(*plugin_, default_memory->memory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<PjrtDeviceMemoryStats>> PjrtDevice::MemoryStats()
    const {
  pjrt_abi::Block<pjrt_abi::DeviceMemoryStats> args;
  args->device = handle_;
  const absl::Status status = plugin_->Call(args);
  if (absl::IsUnimplemented(status)) {
    return std::optional<PjrtDeviceMemoryStats>();
  }
  TIDEWHEEL_RETURN_IF_ERROR(status);
  PjrtDeviceMemoryStats stats;
  stats.bytes_in_use = args->bytes_in_use;
  stats.peak_bytes_in_use =
      IfSet(args->peak_bytes_in_use_is_set, args->peak_bytes_in_use);
  stats.bytes_limit = IfSet(args->bytes_limit_is_set, args->bytes_limit);
  stats.bytes_reserved =
      IfSet(args->bytes_reserved_is_set, args->bytes_reserved);
  stats.largest_free_block_bytes = IfSet(args->largest_free_block_bytes_is_set,
                                         args->largest_free_block_bytes);
  return std::optional<PjrtDeviceMemoryStats>(stats);
}

}  // namespace tidewheel
