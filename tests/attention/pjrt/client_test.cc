#include <chrono>
#include <functional>
#include <thread>

#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_c_api_client.h"
#include "attention/pjrt/pjrt_c_api_executable.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/pjrt/pjrt_topology.h"
#include "tests/attention/pjrt/fake_plugin_test_base.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ClientTest : public FakePluginTest {
 protected:
  // Everything that a user of this folder does, up to the first error.
  absl::Status UseEverything() {
    TIDEWHEEL_ASSIGN_OR_RETURN(const std::shared_ptr<PjrtPlugin> plugin,
                               PjrtPlugin::Load(path()));
    TIDEWHEEL_ASSIGN_OR_RETURN(const std::shared_ptr<PjrtClient> client,
                               PjrtClient::Create(plugin));
    TIDEWHEEL_RETURN_IF_ERROR(client->devices()[0].MemoryStats().status());
    TIDEWHEEL_ASSIGN_OR_RETURN(const auto compiled,
                               client->Compile(kProgram, PoolSignature()));
    TIDEWHEEL_RETURN_IF_ERROR(compiled->MemoryStats().status());
    TIDEWHEEL_ASSIGN_OR_RETURN(const std::string blob, compiled->Serialize());
    TIDEWHEEL_ASSIGN_OR_RETURN(const auto executable,
                               client->Load(blob, PoolSignature()));
    const float values[8] = {};
    const auto bytes = std::as_bytes(std::span(values));
    TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer pool, client->Upload(bytes, kPool));
    TIDEWHEEL_ASSIGN_OR_RETURN(PjrtBuffer row,
                               client->Upload(bytes.first(16), kRow));
    PjrtBuffer outputs[2];
    PjrtBuffer* const arguments[] = {&pool, &row};
    TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtEvent done,
                               executable->Launch(arguments, outputs));
    TIDEWHEEL_RETURN_IF_ERROR(UseOutputs(done, outputs));
    TIDEWHEEL_RETURN_IF_ERROR(client->CreateUninitialized(kRow).status());
    TIDEWHEEL_ASSIGN_OR_RETURN(const auto topology,
                               PjrtTopology::Create(plugin, {.name = "any"}));
    return topology->Compile(kProgram).status();
  }

  absl::Status UseOutputs(const PjrtEvent& done,
                          std::span<PjrtBuffer> outputs) {
    TIDEWHEEL_RETURN_IF_ERROR(*done.Poll());
    TIDEWHEEL_RETURN_IF_ERROR(done.Await());
    TIDEWHEEL_RETURN_IF_ERROR(outputs[1].ReadyEvent().status());
    TIDEWHEEL_RETURN_IF_ERROR(outputs[1].OnDeviceSizeInBytes().status());
    TIDEWHEEL_RETURN_IF_ERROR(outputs[1].UnsafePointer().status());
    float read[4] = {};
    TIDEWHEEL_RETURN_IF_ERROR(
        outputs[1].ToHost(std::as_writable_bytes(std::span(read))));
    return outputs[1].Delete();
  }

  // What must be there for UseEverything.
  static std::vector<pjrt_abi::Slot> NeededSlots() {
    using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)
    return {PluginInitialize::kSlot,
            PluginAttributes::kSlot,
            ClientCreate::kSlot,
            ClientPlatformName::kSlot,
            ClientPlatformVersion::kSlot,
            ClientAddressableDevices::kSlot,
            DeviceGetDescription::kSlot,
            DeviceDescriptionId::kSlot,
            DeviceDescriptionKind::kSlot,
            DeviceDescriptionDebugString::kSlot,
            MemoryKind::kSlot,
            ClientCompile::kSlot,
            LoadedExecutableGetExecutable::kSlot,
            ExecutableNumOutputs::kSlot,
            ExecutableOutputElementTypes::kSlot,
            ExecutableOutputDimensions::kSlot,
            LoadedExecutableAddressableDevices::kSlot,
            ExecutableGetCompiledMemoryStats::kSlot,
            ExecutableSerialize::kSlot,
            ExecutableDeserializeAndLoad::kSlot,
            ClientBufferFromHostBuffer::kSlot,
            LoadedExecutableExecute::kSlot,
            BufferElementType::kSlot,
            BufferDimensions::kSlot,
            EventIsReady::kSlot,
            EventError::kSlot,
            EventAwait::kSlot,
            BufferReadyEvent::kSlot,
            BufferOnDeviceSizeInBytes::kSlot,
            BufferUnsafePointer::kSlot,
            BufferToHostBuffer::kSlot,
            BufferDelete::kSlot,
            ClientCreateUninitializedBuffer::kSlot,
            TopologyDescriptionCreate::kSlot,
            TopologyDescriptionPlatformName::kSlot,
            TopologyDescriptionGetDeviceDescriptions::kSlot,
            Compile::kSlot};
  }
};

TEST_F(ClientTest, AnyCallMayFailAndNothingLeaks) {
  for (const pjrt_abi::Slot slot : NeededSlots()) {
    SCOPED_TRACE(slot.name);
    fake().failing_slot = slot.index;
    EXPECT_THAT(UseEverything(),
                StatusIs(absl::StatusCode::kInternal,
                         std::string(slot.name) + ": failed on demand"));
    ExpectNothingAlive();
  }
  fake().failing_slot = kNoSlot;
  EXPECT_THAT(UseEverything(), IsOk());
}

TEST_F(ClientTest, AnyFunctionMayBeMissingAndNothingLeaks) {
  ASSERT_THAT(PjrtPlugin::Load(path()), IsOk());
  const auto slots = NeededSlots();
  for (const pjrt_abi::Slot slot : std::span(slots).subspan(2)) {
    SCOPED_TRACE(slot.name);
    fake().null_slot = slot.index;
    fake().refresh();
    EXPECT_THAT(UseEverything(),
                StatusIs(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr(std::string("does not offer ") +
                                         slot.name + ","),
                               HasSubstr("its entry is null"))));
    ExpectNothingAlive();
  }
}

TEST_F(ClientTest, MemoryKindsAndStatisticsMayBeMissing) {
  ASSERT_THAT(PjrtPlugin::Load(path()), IsOk());
  fake().null_slot = pjrt_abi::DeviceAddressableMemories::kSlot.index;
  fake().refresh();
  EXPECT_THAT(MakeClient()->devices()[0].memory_kinds(), testing::IsEmpty());
  fake().null_slot = pjrt_abi::DeviceMemoryStats::kSlot.index;
  fake().refresh();
  const auto client = MakeClient();
  EXPECT_EQ(client->devices()[0].default_memory_kind(), "device");
  const auto stats = client->devices()[0].MemoryStats();
  ASSERT_THAT(stats, IsOk());
  EXPECT_FALSE(stats->has_value());
}

TEST_F(ClientTest, MemoryStatisticsThatAreNotSetAreAbsent) {
  const auto client = MakeClient();
  const auto stats = client->devices()[0].MemoryStats();
  ASSERT_THAT(stats, IsOk());
  ASSERT_TRUE(stats->has_value());
  EXPECT_EQ((*stats)->bytes_in_use, 100);
  EXPECT_EQ((*stats)->bytes_limit, 1000);
  EXPECT_EQ((*stats)->peak_bytes_in_use, std::nullopt);
}

TEST_F(ClientTest, CreationThatHangsIsLeftBehindAndCleansUpLater) {
  const auto plugin = PjrtPlugin::Load(path());
  ASSERT_THAT(plugin, IsOk());
  fake().hang_client_creation = true;
  {
    // The thread must have its own copy of the options.
    PjrtClientOptions options{.named_values = {{"name", std::string("value")}},
                              .create_timeout_ms = 20};
    EXPECT_THAT(PjrtClient::Create(*plugin, options),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr(path()), HasSubstr("after 20 ms"),
                               HasSubstr("raise create_timeout_ms"))));
  }
  fake().hang_client_creation = false;
  for (int i = 0; i < 2000; ++i) {
    if (fake().num_client_creations == 1 && fake().live_clients == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(fake().num_client_creations, 1);
  EXPECT_EQ(fake().live_clients, 0);
  EXPECT_THAT(fake().client_options, ElementsAre("name"));
}

TEST_F(ClientTest, TimeoutsOutOfRangeAreRefused) {
  const auto plugin = PjrtPlugin::Load(path());
  for (const int64_t timeout_ms :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(
        PjrtClient::Create(*plugin, {.create_timeout_ms = timeout_ms}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("create_timeout_ms " + std::to_string(timeout_ms))));
  }
}

TEST_F(ClientTest, ClientWithoutDevicesIsUnavailable) {
  fake().num_devices = 0;
  EXPECT_THAT(PjrtClient::Create(*PjrtPlugin::Load(path())),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("has 0 devices in this process")));
}

TEST_F(ClientTest, DeviceOfAProgramMustBeTheClients) {
  fake().num_devices = 2;
  const auto client = MakeClient();
  EXPECT_THAT(
      client->Compile(kProgram, PoolSignature(), {.device_id = 2}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("device_id 2 is none of this client's: 0, 1")));
  EXPECT_THAT(client->Compile(kProgram, PoolSignature(), {.device_id = 1}),
              IsOk());
  EXPECT_EQ(fake().compile_options,
            std::string("\x1A\x0F\x20\x01\x28\x01\x4A\x09\x08\x01\x10\x01\x1A"
                        "\x03\x0A\x01\x01",
                        17));
}

TEST_F(ClientTest, OptionsOfACompilerAreNeverEmpty) {
  const auto client = MakeClient();
  ASSERT_THAT(client->Compile(kProgram, PoolSignature()), IsOk());
  EXPECT_EQ(fake().compile_options, std::string("\x1A\x04\x20\x01\x28\x01", 6));
}

TEST_F(ClientTest, CompilerSeesNoProgramThatItMightDieOf) {
  const auto client = MakeClient();
  fake().failing_slot = pjrt_abi::ClientCompile::kSlot.index;
  EXPECT_THAT(client->Compile(" \n", PoolSignature()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the program is empty")));
  EXPECT_THAT(client->Compile("a\ntensor<?x4xf32>", PoolSignature()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("line 2 of the program has a dimension '?'")));
}

TEST_F(ClientTest, ProgramThatReturnsOtherArraysIsRefused) {
  const auto client = MakeClient();
  PjrtSignature signature = PoolSignature();
  signature.outputs[1] = kPool;
  EXPECT_THAT(client->Compile(kProgram, signature),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("output 1 is tensor<4xf32>, the signature "
                                 "says tensor<8xf32>")));
  signature.outputs.pop_back();
  EXPECT_THAT(client->Compile(kProgram, signature),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("returns 2 arrays, its signature has 1")));
  fake().outputs[1].type = static_cast<PjrtElementType>(29);
  EXPECT_THAT(client->Compile(kProgram, PoolSignature()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("output 1: PJRT element type 29")));
}

TEST_F(ClientTest, DonationThatTheCompilerDidNotTakeIsRefused) {
  const auto client = MakeClient();
  fake().donated_argument = -1;
  EXPECT_THAT(client->Compile(kProgram, PoolSignature()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("argument 0 of the signature is donated "
                                       "(32 bytes in all)"),
                             HasSubstr("reuses 0 bytes"))));
}

TEST_F(ClientTest, UploadOfAnotherSizeIsRefused) {
  const auto client = MakeClient();
  const float values[3] = {};
  EXPECT_THAT(client->Upload(std::as_bytes(std::span(values)), kRow),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("12 bytes were passed, tensor<4xf32> has "
                                 "16")));
  EXPECT_THAT(client->Upload({}, PjrtShape()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("")));
  EXPECT_THAT(client->CreateUninitialized(PjrtShape()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the shape is none")));
}

TEST_F(ClientTest, DeviceOfAnotherClientIsRefused) {
  const auto client = MakeClient();
  const auto other = MakeClient();
  const float values[4] = {};
  EXPECT_THAT(client->Upload(std::as_bytes(std::span(values)), kRow,
                             &other->devices()[0]),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is none of this client's")));
}

TEST_F(ClientTest, AnyOrderOfDestructionIsRight) {
  auto client = MakeClient();
  auto executable = *client->Compile(kProgram, PoolSignature());
  PjrtBuffer pool = Upload(*client, kPool, 1);
  PjrtBuffer row = Upload(*client, kRow, 2);
  client.reset();
  PjrtBuffer outputs[2];
  PjrtBuffer* const arguments[] = {&pool, &row};
  PjrtEvent done = *executable->Launch(arguments, outputs);
  executable.reset();
  pool = PjrtBuffer();
  row = PjrtBuffer();
  outputs[0] = PjrtBuffer();
  EXPECT_THAT(Read(outputs[1]), ElementsAre(2, 2, 2, 2));
  outputs[1] = PjrtBuffer();
  EXPECT_EQ(fake().live_clients, 1);
  EXPECT_THAT(done.Await(), IsOk());
}

TEST_F(ClientTest, CompiledProgramKeepsItsTopology) {
  auto topology =
      *PjrtTopology::Create(*PjrtPlugin::Load(path()), {.name = "chip"});
  EXPECT_EQ(topology->device_kind(), "chip");
  EXPECT_EQ(topology->num_devices(), 1u);
  const auto program = *topology->Compile(kProgram);
  topology.reset();
  EXPECT_EQ(fake().live_topologies, 1);
  EXPECT_THAT(program->outputs(), ElementsAre(kPool, kRow));
  EXPECT_EQ(program->MemoryStats()->temp_bytes, 42);
  EXPECT_EQ(*program->Serialize(), "blob");
}

}  // namespace
}  // namespace tidewheel
