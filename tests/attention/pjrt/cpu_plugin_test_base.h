// CpuPluginTest: a test that runs on each CPU plugin that the environment
// names, with a client of one device.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_ATTENTION_PJRT_CPU_PLUGIN_TEST_BASE_H_
#define TIDEWHEEL_TESTS_ATTENTION_PJRT_CPU_PLUGIN_TEST_BASE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attention/pjrt/pjrt_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/status_matchers.h"

namespace tidewheel {

class CpuPluginTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(path, GetParam());
    const auto plugin = PjrtPlugin::Load(path);
    ASSERT_THAT(plugin, IsOk());
    plugin_ = *plugin;
    const auto client = PjrtClient::Create(plugin_, CpuClientOptions());
    ASSERT_THAT(client, IsOk());
    client_ = *client;
  }

  template <typename T>
  PjrtBuffer Upload(const std::vector<T>& values, const PjrtShape& shape) {
    return *client_->Upload(std::as_bytes(std::span(values)), shape);
  }
  template <typename T>
  static std::vector<T> Read(const PjrtBuffer& buffer) {
    std::vector<T> values(static_cast<size_t>(buffer.shape().num_elements()));
    EXPECT_THAT(buffer.ToHost(std::as_writable_bytes(std::span(values))),
                IsOk());
    return values;
  }

  // f32[4] + f32[4].
  static constexpr char kAdd[] = R"(
    func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>)
        -> tensor<4xf32> {
      %0 = stablehlo.add %a, %b : tensor<4xf32>
      return %0 : tensor<4xf32>
    })";
  static PjrtSignature AddSignature() {
    return {.arguments = {{.shape = kRow}, {.shape = kRow}}, .outputs = {kRow}};
  }

  inline static const PjrtShape kRow{PjrtElementType::kF32, {4}};
  std::shared_ptr<PjrtPlugin> plugin_;
  std::shared_ptr<PjrtClient> client_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_PJRT_CPU_PLUGIN_TEST_BASE_H_
