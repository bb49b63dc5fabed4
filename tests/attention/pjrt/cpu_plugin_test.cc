#include <atomic>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "attention/pjrt/pjrt_topology.h"
#include "tests/attention/pjrt/cpu_plugin_test_base.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Plugins, CpuPluginTest,
                         testing::Range(0, kNumCpuPlugins));

TEST_P(CpuPluginTest, DescribesItself) {
  EXPECT_GE(plugin_->minor_version(), 57);
  EXPECT_TRUE(plugin_->stablehlo_current_version().has_value());
  EXPECT_EQ(client_->platform_name(), "cpu");
  ASSERT_EQ(client_->devices().size(), 1u);
  const PjrtDevice& device = client_->devices()[0];
  EXPECT_EQ(device.id(), 0);
  EXPECT_EQ(device.kind(), "cpu");
  EXPECT_THAT(device.memory_kinds(), Contains("device"));
  EXPECT_EQ(device.default_memory_kind(), "device");
  const auto stats = device.MemoryStats();
  ASSERT_THAT(stats, IsOk());
  EXPECT_FALSE(stats->has_value());
}

TEST_P(CpuPluginTest, RunsAProgram) {
  const auto executable = client_->Compile(kAdd, AddSignature());
  ASSERT_THAT(executable, IsOk());
  EXPECT_EQ((*executable)->MemoryStats()->argument_bytes, 32);
  EXPECT_EQ((*executable)->MemoryStats()->output_bytes, 16);
  PjrtBuffer a = Upload<float>({1, 2, 3, 4}, kRow);
  PjrtBuffer b = Upload<float>({10, 20, 30, 40}, kRow);
  PjrtBuffer out[1];
  const auto done =
      (*executable)->Launch(std::vector<PjrtBuffer*>{&a, &b}, out);
  ASSERT_THAT(done, IsOk());
  EXPECT_THAT(done->Await(), IsOk());
  EXPECT_THAT(*done->Poll(), IsOk());
  EXPECT_THAT(out[0].ReadyEvent()->Await(), IsOk());
  EXPECT_THAT(Read<float>(out[0]), ElementsAre(11, 22, 33, 44));
  EXPECT_EQ(*out[0].OnDeviceSizeInBytes(), 16);
  EXPECT_FALSE(a.IsDeleted());
}

TEST_P(CpuPluginTest, RefusesBadProgramsWithItsOwnText) {
  const auto compile = [this](absl::string_view text) {
    return client_->Compile(text, AddSignature()).status();
  };
  constexpr auto kUnknown = absl::StatusCode::kUnknown;
  EXPECT_THAT(compile("func.func @main("),
              StatusIs(kUnknown, HasSubstr("Failed to parse using StableHLO")));
  EXPECT_THAT(compile("module {}"),
              StatusIs(kUnknown, HasSubstr("requires module with `main`")));
  EXPECT_THAT(compile("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                      "%0 = stablehlo.nonsense %a : tensor<4xf32>\n"
                      "return %0 : tensor<4xf32>}"),
              StatusIs(kUnknown, HasSubstr("stablehlo.nonsense")));
  EXPECT_THAT(
      compile("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
              "%0 = stablehlo.custom_call @tpu_custom_call(%a) : "
              "(tensor<4xf32>) -> tensor<4xf32>\n"
              "return %0 : tensor<4xf32>}"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("tpu_custom_call")));
  EXPECT_THAT(compile(kAdd), IsOk());
}

TEST_P(CpuPluginTest, SameByteSizeOfAnotherTypeIsRefusedBeforeTheLaunch) {
  const auto executable = *client_->Compile(kAdd, AddSignature());
  PjrtBuffer good = Upload<float>({1, 2, 3, 4}, kRow);
  PjrtBuffer out[1];
  for (const PjrtShape& shape : {PjrtShape(PjrtElementType::kI32, {4}),
                                 PjrtShape(PjrtElementType::kBf16, {8}),
                                 PjrtShape(PjrtElementType::kF32, {2, 2}),
                                 PjrtShape(PjrtElementType::kUi8, {16})}) {
    PjrtBuffer bad = Upload<int32_t>({1, 2, 3, 4}, shape);
    EXPECT_THAT(
        executable->Launch(std::vector<PjrtBuffer*>{&good, &bad}, out),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat("argument 1 is ", shape.ToString(),
                                        ", tensor<4xf32> is expected"))));
    EXPECT_TRUE(out[0].empty());
  }
}

// The plugin has the last word where the signature is wrong about the program.
TEST_P(CpuPluginTest, WrongSignatureIsThePluginsErrorNotACrash) {
  PjrtSignature signature = AddSignature();
  signature.arguments.pop_back();
  const auto one = *client_->Compile(kAdd, signature);
  PjrtBuffer row = Upload<float>({1, 2, 3, 4}, kRow);
  PjrtBuffer out[1];
  EXPECT_THAT(
      one->Launch(std::vector<PjrtBuffer*>{&row}, out),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("supplied 1"), HasSubstr("expected 2"))));
  const PjrtShape longer(PjrtElementType::kF32, {5});
  signature.arguments.push_back({.shape = longer});
  const auto two = *client_->Compile(kAdd, signature);
  PjrtBuffer five = Upload<float>({1, 2, 3, 4, 5}, longer);
  EXPECT_THAT(two->Launch(std::vector<PjrtBuffer*>{&row, &five}, out),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected parameter 1 of size 16")));
}

TEST_P(CpuPluginTest, ElementTypesComeBackByteForByte) {
  for (int number = 0; number < 64; ++number) {
    const auto type = static_cast<PjrtElementType>(number);
    if (!IsKnown(type)) continue;
    SCOPED_TRACE(std::string(PjrtElementTypeName(type)));
    const PjrtShape shape(type, {3, 5});
    std::vector<uint8_t> bytes(static_cast<size_t>(shape.num_bytes()));
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    // A predicate's byte is 0 or 1.
    for (uint8_t& byte : bytes) {
      if (type == PjrtElementType::kPred) byte &= 1;
    }
    const std::string text =
        absl::StrReplaceAll("func.func @main(%a: T) -> T { return %a : T }",
                            {{"T", shape.ToString()}});
    const auto executable = client_->Compile(
        text, {.arguments = {{.shape = shape}}, .outputs = {shape}});
    ASSERT_THAT(executable, IsOk());
    PjrtBuffer in = *client_->Upload(std::as_bytes(std::span(bytes)), shape);
    PjrtBuffer out[1];
    ASSERT_THAT((*executable)->Launch(std::vector<PjrtBuffer*>{&in}, out),
                IsOk());
    std::vector<uint8_t> read(bytes.size());
    EXPECT_THAT(out[0].ToHost(std::as_writable_bytes(std::span(read))), IsOk());
    EXPECT_EQ(read, bytes);
  }
}

TEST_P(CpuPluginTest, ScalarsAndEmptyArraysWork) {
  const PjrtShape scalar(PjrtElementType::kI32, {});
  EXPECT_THAT(Read<int32_t>(Upload<int32_t>({7}, scalar)), ElementsAre(7));
  const PjrtShape empty(PjrtElementType::kF32, {0, 4});
  EXPECT_THAT(Read<float>(Upload<float>({}, empty)), ElementsAre());
}

TEST_P(CpuPluginTest, ZeroedArraysAreZeroAndTheirOwn) {
  for (const PjrtElementType type :
       {PjrtElementType::kF32, PjrtElementType::kBf16,
        PjrtElementType::kF8E4m3fn, PjrtElementType::kF8E5m2,
        PjrtElementType::kI8, PjrtElementType::kUi8, PjrtElementType::kPred}) {
    SCOPED_TRACE(std::string(PjrtElementTypeName(type)));
    const PjrtShape shape(type, {64, 33});
    const auto buffers = client_->CreateZeroed(shape, 2);
    ASSERT_THAT(buffers, IsOk());
    ASSERT_EQ(buffers->size(), 2u);
    EXPECT_NE(*(*buffers)[0].UnsafePointer(), *(*buffers)[1].UnsafePointer());
    for (const PjrtBuffer& buffer : *buffers) {
      std::vector<uint8_t> bytes(static_cast<size_t>(shape.num_bytes()), 1);
      EXPECT_THAT(buffer.ToHost(std::as_writable_bytes(std::span(bytes))),
                  IsOk());
      EXPECT_THAT(bytes, Each(0));
    }
  }
}

TEST_P(CpuPluginTest, UninitializedArrayHasItsShape) {
  const PjrtShape shape(PjrtElementType::kBf16, {16, 128});
  const auto buffer = client_->CreateUninitialized(shape);
  ASSERT_THAT(buffer, IsOk());
  EXPECT_EQ(buffer->shape(), shape);
  EXPECT_EQ(*buffer->OnDeviceSizeInBytes(), shape.num_bytes());
}

TEST_P(CpuPluginTest, SerializedProgramRunsAgain) {
  const auto executable = *client_->Compile(kAdd, AddSignature());
  const auto blob = executable->Serialize();
  ASSERT_THAT(blob, IsOk());
  const auto loaded = client_->Load(*blob, AddSignature());
  ASSERT_THAT(loaded, IsOk());
  PjrtBuffer row = Upload<float>({1, 2, 3, 4}, kRow);
  PjrtBuffer out[1];
  ASSERT_THAT((*loaded)->Launch(std::vector<PjrtBuffer*>{&row, &row}, out),
              IsOk());
  EXPECT_THAT(Read<float>(out[0]), ElementsAre(2, 4, 6, 8));
  for (const std::string& bad : {std::string(), std::string("nonsense"),
                                 blob->substr(0, blob->size() / 2)}) {
    EXPECT_FALSE(client_->Load(bad, AddSignature()).ok());
  }
}

TEST_P(CpuPluginTest, ProgramsRunOnTheDeviceThatTheyAreCompiledFor) {
  const auto client = *PjrtClient::Create(plugin_, CpuClientOptions(2));
  ASSERT_EQ(client->devices().size(), 2u);
  const PjrtDevice& second = client->devices()[1];
  const auto executable =
      client->Compile(kAdd, AddSignature(), {.device_id = second.id()});
  ASSERT_THAT(executable, IsOk());
  EXPECT_EQ(&(*executable)->device(), &second);
  const float values[4] = {1, 2, 3, 4};
  const auto bytes = std::as_bytes(std::span(values));
  PjrtBuffer here = *client->Upload(bytes, kRow);
  PjrtBuffer there = *client->Upload(bytes, kRow, &second);
  PjrtBuffer out[1];
  EXPECT_THAT(
      (*executable)->Launch(std::vector<PjrtBuffer*>{&there, &here}, out),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("argument 1 is on device 0, the program runs on "
                         "device 1")));
  ASSERT_THAT(
      (*executable)->Launch(std::vector<PjrtBuffer*>{&there, &there}, out),
      IsOk());
  EXPECT_THAT(Read<float>(out[0]), ElementsAre(2, 4, 6, 8));
}

TEST_P(CpuPluginTest, BuffersOutliveTheClientsOwner) {
  auto executable = *client_->Compile(kAdd, AddSignature());
  PjrtBuffer row = Upload<float>({1, 2, 3, 4}, kRow);
  client_.reset();
  PjrtBuffer out[1];
  PjrtEvent done =
      *executable->Launch(std::vector<PjrtBuffer*>{&row, &row}, out);
  executable.reset();
  row = PjrtBuffer();
  EXPECT_THAT(Read<float>(out[0]), ElementsAre(2, 4, 6, 8));
  out[0] = PjrtBuffer();
  EXPECT_THAT(done.Await(), IsOk());
}

TEST_P(CpuPluginTest, ThreadsLaunchOneExecutableWhileAnotherCompiles) {
  const auto executable = *client_->Compile(kAdd, AddSignature());
  std::atomic<int> num_wrong = 0;
  const auto launch = [&](float value) {
    PjrtBuffer a = Upload<float>(std::vector<float>(4, value), kRow);
    PjrtBuffer out[1];
    PjrtBuffer* const arguments[] = {&a, &a};
    for (int i = 0; i < 1000; ++i) {
      const auto done = executable->Launch(arguments, out);
      if (!done.ok() || !done->Await().ok()) ++num_wrong;
    }
    if (Read<float>(out[0]) != std::vector<float>(4, 2 * value)) ++num_wrong;
  };
  std::thread first(launch, 1.0f);
  std::thread second(launch, 5.0f);
  for (int i = 0; i < 3; ++i) {
    if (!client_->Compile(kAdd, AddSignature()).ok()) ++num_wrong;
  }
  first.join();
  second.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST_P(CpuPluginTest, OffersNoTopologyToCompileFor) {
  EXPECT_THAT(
      PjrtTopology::Create(plugin_, TpuCompileTarget(TpuGeneration::kV5e)),
      StatusIs(absl::StatusCode::kUnimplemented,
               HasSubstr("Topology not supported for CPU")));
}

}  // namespace
}  // namespace tidewheel
