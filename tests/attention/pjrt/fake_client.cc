#include <chrono>
#include <thread>

#include "tests/attention/pjrt/fake_objects.h"

namespace tidewheel::fake {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

// ---- Client and devices ----

Error* CreateClient(void* block) {
  FakePlugin* const state = State();
  while (state->hang_client_creation) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Error* error = nullptr;
  ClientCreate* const args = Open<ClientCreate>(block, &error);
  if (error == nullptr) {
    state->client_options.clear();
    for (size_t i = 0; i < args->num_options; ++i) {
      const NamedValue& option = args->create_options[i];
      state->client_options.emplace_back(option.name, option.name_size);
    }
    auto* const client = Track(new Client, state->live_clients);
    client->devices.resize(static_cast<size_t>(state->num_devices));
    for (size_t i = 0; i < client->devices.size(); ++i) {
      Device& device = client->devices[i];
      device.description.id = static_cast<int>(i);
      device.memories = {&device.memory};
      client->handles.push_back(&device);
    }
    args->client = client;
  }
  ++state->num_client_creations;
  return error;
}

Error* DestroyClient(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientDestroy, args);
  if (State()->live_buffers + State()->live_loaded_executables > 0 &&
      State()->live_clients == 1) {
    Violation("a client is destroyed before its buffers and executables");
  }
  Destroy(args->client, State()->live_clients, "PJRT_Client_Destroy");
  return nullptr;
}

Error* PlatformName(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientPlatformName, args);
  args->platform_name = "fake";
  args->platform_name_size = 4;
  return nullptr;
}

Error* PlatformVersion(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientPlatformVersion, args);
  args->platform_version = "7";
  args->platform_version_size = 1;
  return nullptr;
}

Error* AddressableDevices(void* block) {
  TIDEWHEEL_FAKE_OPEN(ClientAddressableDevices, args);
  CheckLive(args->client, "PJRT_Client_AddressableDevices");
  args->addressable_devices = args->client->handles.data();
  args->num_addressable_devices = args->client->handles.size();
  return nullptr;
}

Error* DescriptionOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceGetDescription, args);
  args->device_description = &args->device->description;
  return nullptr;
}

Error* IdOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceDescriptionId, args);
  args->id = args->device_description->id;
  return nullptr;
}

Error* KindOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceDescriptionKind, args);
  SetText(args->device_description->kind, &args->device_kind,
          &args->device_kind_size);
  return nullptr;
}

Error* TextOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceDescriptionDebugString, args);
  SetText(args->device_description->text, &args->debug_string,
          &args->debug_string_size);
  return nullptr;
}

Error* MemoriesOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceAddressableMemories, args);
  args->memories = args->device->memories.data();
  args->num_memories = args->device->memories.size();
  return nullptr;
}

Error* DefaultMemoryOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceDefaultMemory, args);
  args->memory = &args->device->memory;
  return nullptr;
}

Error* KindOfMemory(void* block) {
  TIDEWHEEL_FAKE_OPEN(MemoryKind, args);
  SetText(args->memory->kind, &args->kind, &args->kind_size);
  return nullptr;
}

Error* MemoryStatsOfDevice(void* block) {
  TIDEWHEEL_FAKE_OPEN(DeviceMemoryStats, args);
  args->bytes_in_use = 100;
  args->bytes_limit = 1000;
  args->bytes_limit_is_set = true;
  return nullptr;
}

// ---- Topologies ----

Error* CreateTopology(void* block) {
  TIDEWHEEL_FAKE_OPEN(TopologyDescriptionCreate, args);
  auto* const topology =
      Track(new TopologyDescription, State()->live_topologies);
  topology->description.kind.assign(args->topology_name,
                                    args->topology_name_size);
  topology->descriptions = {&topology->description};
  args->topology = topology;
  return nullptr;
}

Error* DestroyTopology(void* block) {
  TIDEWHEEL_FAKE_OPEN(TopologyDescriptionDestroy, args);
  if (args->topology->num_live_programs > 0) {
    Violation("a topology is destroyed before its executables");
  }
  Destroy(args->topology, State()->live_topologies,
          "PJRT_TopologyDescription_Destroy");
  return nullptr;
}

Error* NameOfTopology(void* block) {
  TIDEWHEEL_FAKE_OPEN(TopologyDescriptionPlatformName, args);
  args->platform_name = "fake";
  args->platform_name_size = 4;
  return nullptr;
}

Error* DescriptionsOfTopology(void* block) {
  TIDEWHEEL_FAKE_OPEN(TopologyDescriptionGetDeviceDescriptions, args);
  args->descriptions = args->topology->descriptions.data();
  args->num_descriptions = args->topology->descriptions.size();
  return nullptr;
}

}  // namespace

void SetClientSlots() {
  SetSlot(ClientCreate::kSlot, CreateClient);
  SetSlot(ClientDestroy::kSlot, DestroyClient);
  SetSlot(ClientPlatformName::kSlot, PlatformName);
  SetSlot(ClientPlatformVersion::kSlot, PlatformVersion);
  SetSlot(ClientAddressableDevices::kSlot, AddressableDevices);
  SetSlot(DeviceGetDescription::kSlot, DescriptionOfDevice);
  SetSlot(DeviceDescriptionId::kSlot, IdOfDevice);
  SetSlot(DeviceDescriptionKind::kSlot, KindOfDevice);
  SetSlot(DeviceDescriptionDebugString::kSlot, TextOfDevice);
  SetSlot(DeviceAddressableMemories::kSlot, MemoriesOfDevice);
  SetSlot(DeviceDefaultMemory::kSlot, DefaultMemoryOfDevice);
  SetSlot(DeviceMemoryStats::kSlot, MemoryStatsOfDevice);
  SetSlot(MemoryKind::kSlot, KindOfMemory);
  SetSlot(TopologyDescriptionCreate::kSlot, CreateTopology);
  SetSlot(TopologyDescriptionDestroy::kSlot, DestroyTopology);
  SetSlot(TopologyDescriptionPlatformName::kSlot, NameOfTopology);
  SetSlot(TopologyDescriptionGetDeviceDescriptions::kSlot,
          DescriptionsOfTopology);
}

}  // namespace tidewheel::fake
