#include "tests/attention/stablehlo/device_program.h"

#include <map>
#include <utility>

#include "attention/pjrt/pjrt_plugin.h"
#include "gtest/gtest.h"

namespace tidewheel {

std::shared_ptr<PjrtClient> CpuClient(const std::string& plugin_path) {
  static auto& clients =
      *new std::map<std::string, std::shared_ptr<PjrtClient>>;
  std::shared_ptr<PjrtClient>& client = clients[plugin_path];
  if (client != nullptr) return client;
  const auto plugin = PjrtPlugin::Load(plugin_path);
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  if (!plugin.ok()) return nullptr;
  auto created = PjrtClient::Create(*plugin, CpuClientOptions());
  EXPECT_TRUE(created.ok()) << created.status();
  if (created.ok()) client = *std::move(created);
  return client;
}

PjrtShape PjrtShapeOf(const TensorType& type) {
  std::string name(ElementTypeName(type.element));
  const auto element = PjrtElementTypeOfName(name);
  EXPECT_TRUE(element.has_value()) << name;
  const auto shape =
      PjrtShape::Create(element.value_or(PjrtElementType::kInvalid), type.dims);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return shape.value_or(PjrtShape());
}

DeviceProgram::DeviceProgram(std::shared_ptr<PjrtClient> client,
                             Program program)
    : client_(std::move(client)), program_(std::move(program)) {
  PjrtSignature signature;
  for (const ProgramArgument& argument : program_.arguments) {
    signature.arguments.push_back(
        {PjrtShapeOf(argument.type), argument.donated()});
  }
  for (const TensorType& type : program_.results) {
    signature.outputs.push_back(PjrtShapeOf(type));
  }
  auto compiled = client_->Compile(program_.text, signature);
  EXPECT_TRUE(compiled.ok()) << compiled.status() << "\n" << program_.text;
  if (compiled.ok()) executable_ = *std::move(compiled);
}

PjrtCompiledMemoryStats DeviceProgram::MemoryStats() const {
  const auto stats = executable_->MemoryStats();
  EXPECT_TRUE(stats.ok()) << stats.status();
  return stats.value_or(PjrtCompiledMemoryStats());
}

PjrtBuffer DeviceProgram::Upload(size_t argument, const Bytes& bytes) const {
  auto buffer = client_->Upload(std::as_bytes(std::span(bytes)),
                                PjrtShapeOf(program_.arguments[argument].type));
  EXPECT_TRUE(buffer.ok()) << program_.arguments[argument].name << ": "
                           << buffer.status();
  return buffer.ok() ? *std::move(buffer) : PjrtBuffer();
}

Bytes DeviceProgram::Download(const PjrtBuffer& buffer) const {
  Bytes bytes(static_cast<size_t>(buffer.shape().num_bytes()));
  const absl::Status status =
      buffer.ToHost(std::as_writable_bytes(std::span(bytes)));
  EXPECT_TRUE(status.ok()) << status;
  return bytes;
}

std::vector<PjrtBuffer> DeviceProgram::Launch(
    std::vector<PjrtBuffer>& arguments) const {
  std::vector<PjrtBuffer*> pointers;
  for (PjrtBuffer& argument : arguments) pointers.push_back(&argument);
  std::vector<PjrtBuffer> outputs(program_.results.size());
  auto event = executable_->Launch(pointers, outputs);
  EXPECT_TRUE(event.ok()) << event.status();
  if (event.ok()) {
    const absl::Status status = event->Await();
    EXPECT_TRUE(status.ok()) << status;
  }
  return outputs;
}

std::vector<Bytes> DeviceProgram::Run(
    const std::vector<Bytes>& arguments) const {
  std::vector<PjrtBuffer> buffers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    buffers.push_back(Upload(i, arguments[i]));
  }
  std::vector<Bytes> results;
  for (const PjrtBuffer& output : Launch(buffers)) {
    results.push_back(Download(output));
  }
  return results;
}

}  // namespace tidewheel
