// FakePluginTest: a test with a fake plugin of its own.
//
// Each test loads its own copy of the library, so that no test sees what
// another left behind: plugins are never closed, and loaded once a process.
// At its end nothing may be alive, and the plugin may not have complained.
//
// Thread-safety: single-threaded.

#ifndef TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_PLUGIN_TEST_BASE_H_
#define TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_PLUGIN_TEST_BASE_H_

#include <dlfcn.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "attention/pjrt/pjrt_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/fake_plugin.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"

namespace tidewheel {

class FakePluginTest : public testing::Test {
 protected:
  // The program of most tests: 4 floats and a donated pool of 8, both back.
  static PjrtSignature PoolSignature() {
    return {.arguments = {{.shape = kPool, .donated = true}, {.shape = kRow}},
            .outputs = {kPool, kRow}};
  }

  // Here and not in SetUp: a test whose constructor fails is ended without
  // SetUp and TearDown, which all need the plugin.
  FakePluginTest() { Load(); }

  void TearDown() override {
    ExpectNothingAlive();
    EXPECT_THAT(fake_->violations, testing::IsEmpty());
  }

  void ExpectNothingAlive() const {
    EXPECT_EQ(fake_->live_errors, 0);
    EXPECT_EQ(fake_->live_events, 0);
    EXPECT_EQ(fake_->live_clients, 0);
    EXPECT_EQ(fake_->live_buffers, 0);
    EXPECT_EQ(fake_->live_executables, 0);
    EXPECT_EQ(fake_->live_loaded_executables, 0);
    EXPECT_EQ(fake_->live_serialized, 0);
    EXPECT_EQ(fake_->live_topologies, 0);
  }

  FakePlugin& fake() { return *fake_; }
  const std::string& path() const { return path_; }
  // For more files; the plugin's copy is in it.
  const TemporaryFolder& folder() const { return folder_; }

  // For tests in which these can not fail.
  std::shared_ptr<PjrtClient> MakeClient() {
    return *PjrtClient::Create(*PjrtPlugin::Load(path_));
  }
  static PjrtBuffer Upload(const PjrtClient& client, const PjrtShape& shape,
                           float value) {
    const std::vector<float> values(static_cast<size_t>(shape.num_elements()),
                                    value);
    return *client.Upload(std::as_bytes(std::span(values)), shape);
  }
  static std::vector<float> Read(const PjrtBuffer& buffer) {
    std::vector<float> values(
        static_cast<size_t>(buffer.shape().num_elements()));
    EXPECT_THAT(buffer.ToHost(std::as_writable_bytes(std::span(values))),
                IsOk());
    return values;
  }

  inline static const PjrtShape kPool{PjrtElementType::kF32, {8}};
  inline static const PjrtShape kRow{PjrtElementType::kF32, {4}};
  static constexpr char kProgram[] = "any text";

 private:
  void Load() {
    std::error_code error;
    std::filesystem::copy_file(TIDEWHEEL_FAKE_PLUGIN, path_, error);
    ASSERT_FALSE(error) << path_ << ": " << error.message();
    void* const library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    void* const get_fake = dlsym(library, kGetFakePlugin);
    ASSERT_NE(get_fake, nullptr) << dlerror();
    fake_ = reinterpret_cast<GetFakePluginFunction>(get_fake)();
    fake_->outputs = {{PjrtElementType::kF32, {8}},
                      {PjrtElementType::kF32, {4}}};
    fake_->donated_argument = 0;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("fake_plugin.so");
  FakePlugin* fake_ = nullptr;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ATTENTION_PJRT_FAKE_PLUGIN_TEST_BASE_H_
