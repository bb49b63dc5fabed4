#include "tools/pjrt/plugin_functions.h"

#include "allocator/check.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"

namespace tidewheel {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

constexpr PluginFunctionUse kRun = PluginFunctionUse::kRun;
constexpr PluginFunctionUse kCompileAhead = PluginFunctionUse::kCompileAhead;
constexpr PluginFunctionUse kExtra = PluginFunctionUse::kExtra;

constexpr PluginFunction kFunctions[] = {
    {ErrorDestroy::kSlot, kRun},
    {ErrorMessage::kSlot, kRun},
    {ErrorGetCode::kSlot, kRun},
    {PluginInitialize::kSlot, kRun},
    {PluginAttributes::kSlot, kRun},
    {EventDestroy::kSlot, kRun},
    {EventIsReady::kSlot, kRun},
    {EventError::kSlot, kRun},
    {EventAwait::kSlot, kRun},
    {ClientCreate::kSlot, kRun},
    {ClientDestroy::kSlot, kRun},
    {ClientPlatformName::kSlot, kRun},
    {ClientPlatformVersion::kSlot, kRun},
    {ClientAddressableDevices::kSlot, kRun},
    {ClientCompile::kSlot, kRun},
    {ClientBufferFromHostBuffer::kSlot, kRun},
    {ClientCreateUninitializedBuffer::kSlot, kExtra},
    {DeviceDescriptionId::kSlot, kRun},
    {DeviceDescriptionKind::kSlot, kRun},
    {DeviceDescriptionDebugString::kSlot, kRun},
    {DeviceGetDescription::kSlot, kRun},
    {DeviceAddressableMemories::kSlot, kExtra},
    {DeviceDefaultMemory::kSlot, kExtra},
    {DeviceMemoryStats::kSlot, kExtra},
    {MemoryKind::kSlot, kExtra},
    {ExecutableDestroy::kSlot, kRun},
    {ExecutableNumOutputs::kSlot, kRun},
    {ExecutableOutputElementTypes::kSlot, kRun},
    {ExecutableOutputDimensions::kSlot, kRun},
    {ExecutableGetCompiledMemoryStats::kSlot, kRun},
    {ExecutableSerialize::kSlot, kExtra},
    {ExecutableDeserializeAndLoad::kSlot, kExtra},
    {LoadedExecutableDestroy::kSlot, kRun},
    {LoadedExecutableGetExecutable::kSlot, kRun},
    {LoadedExecutableAddressableDevices::kSlot, kRun},
    {LoadedExecutableExecute::kSlot, kRun},
    {BufferDestroy::kSlot, kRun},
    {BufferElementType::kSlot, kRun},
    {BufferDimensions::kSlot, kRun},
    {BufferOnDeviceSizeInBytes::kSlot, kRun},
    {BufferDelete::kSlot, kRun},
    {BufferIsDeleted::kSlot, kRun},
    {BufferToHostBuffer::kSlot, kRun},
    {BufferReadyEvent::kSlot, kRun},
    {BufferUnsafePointer::kSlot, kExtra},
    {Compile::kSlot, kCompileAhead},
    {TopologyDescriptionCreate::kSlot, kCompileAhead},
    {TopologyDescriptionDestroy::kSlot, kCompileAhead},
    {TopologyDescriptionPlatformName::kSlot, kCompileAhead},
    {TopologyDescriptionGetDeviceDescriptions::kSlot, kCompileAhead},
};

}  // namespace

absl::string_view PluginFunctionUseName(PluginFunctionUse use) {
  switch (use) {
    case PluginFunctionUse::kRun:
      return "run";
    case PluginFunctionUse::kCompileAhead:
      return "compile ahead";
    case PluginFunctionUse::kExtra:
      return "extra";
  }
  TIDEWHEEL_CHECK(false);
}

std::span<const PluginFunction> PluginFunctions() { return kFunctions; }

}  // namespace tidewheel
