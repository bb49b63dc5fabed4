#include <filesystem>
#include <fstream>

#include "attention/pjrt/pjrt_c_api_buffer.h"
#include "attention/pjrt/pjrt_plugin.h"
#include "tests/attention/pjrt/fake_plugin_test_base.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PluginTest : public FakePluginTest {};

TEST_F(PluginTest, MissingFileIsNotFound) {
  EXPECT_THAT(PjrtPlugin::Load("no/such/plugin.so"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("no/such/plugin.so"),
                             HasSubstr("No such file"))));
  EXPECT_THAT(PjrtPlugin::Load(""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("''")));
}

TEST_F(PluginTest, WhatIsNoSharedLibraryIsRefused) {
  EXPECT_THAT(
      PjrtPlugin::Load(folder().path().string()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a file")));
  const std::string text_file = folder().Write("text", "not a library");
  EXPECT_THAT(PjrtPlugin::Load(text_file),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("can not be loaded")));
}

TEST_F(PluginTest, LibraryWithoutGetPjrtApiIsRefused) {
  EXPECT_THAT(PjrtPlugin::Load(TIDEWHEEL_NOT_A_PLUGIN),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("is no PJRT plugin"),
                             HasSubstr("undefined symbol: GetPjrtApi"))));
}

TEST_F(PluginTest, NullTableIsRefused) {
  fake().no_table = true;
  EXPECT_THAT(PjrtPlugin::Load(path()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("GetPjrtApi returned null")));
}

TEST_F(PluginTest, VersionsOutsideTheWindowAreRefused) {
  fake().minor_version = 56;
  EXPECT_THAT(PjrtPlugin::Load(path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("version 0.56; 0.57 or newer"),
                             HasSubstr("install a newer plugin"))));
  fake().major_version = 1;
  fake().minor_version = 57;
  EXPECT_THAT(PjrtPlugin::Load(path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("version 1.57")));
  fake().major_version = 0;
  EXPECT_THAT(PjrtPlugin::Load(path()), IsOk());
}

TEST_F(PluginTest, TableWithoutDestroyersIsRefused) {
  fake().num_slots = 60;  // ends before PJRT_Buffer_IsDeleted
  EXPECT_THAT(
      PjrtPlugin::Load(path()),
      StatusIs(absl::StatusCode::kUnimplemented,
               AllOf(HasSubstr("PJRT_Buffer_IsDeleted"), HasSubstr("number 68"),
                     HasSubstr("0.81"), HasSubstr("its table ends before that"),
                     HasSubstr("install a newer plugin"))));
}

TEST_F(PluginTest, FunctionBehindAShortTableIsUnimplemented) {
  fake().num_slots = 112;
  const std::shared_ptr<PjrtClient> client = MakeClient();
  EXPECT_FALSE(
      client->plugin().Has(pjrt_abi::ClientCreateUninitializedBuffer::kSlot));
  EXPECT_THAT(client->CreateUninitialized(kRow),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("PJRT_Client_CreateUninitializedBuffer"),
                             HasSubstr("112 functions"),
                             HasSubstr("its table ends before that"))));
}

TEST_F(PluginTest, FailedInitialisationIsTriedAnew) {
  fake().failing_slot = pjrt_abi::PluginInitialize::kSlot.index;
  fake().failure_code = 9;
  EXPECT_THAT(PjrtPlugin::Load(path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "PJRT_Plugin_Initialize: failed on demand"));
  fake().failing_slot = kNoSlot;
  EXPECT_THAT(PjrtPlugin::Load(path()), IsOk());
}

TEST_F(PluginTest, ErrorCodesOutsideAbslsAreUnknown) {
  fake().failing_slot = pjrt_abi::PluginInitialize::kSlot.index;
  for (const int code : {-1, 0, 17, 1000}) {
    fake().failure_code = code;
    EXPECT_THAT(PjrtPlugin::Load(path()),
                StatusIs(absl::StatusCode::kUnknown, HasSubstr("on demand")));
  }
}

TEST_F(PluginTest, ErrorWhoseCodeCanNotBeReadIsUnknown) {
  ASSERT_THAT(PjrtPlugin::Load(path()), IsOk());
  const std::shared_ptr<PjrtClient> client = MakeClient();
  const PjrtBuffer buffer = Upload(*client, kRow, 1);
  fake().failing_slot = pjrt_abi::ErrorGetCode::kSlot.index;
  fake().null_slot = pjrt_abi::BufferUnsafePointer::kSlot.index;
  fake().fail_after_launch = true;
  const auto executable = client->Compile(kProgram, PoolSignature());
  PjrtBuffer pool = Upload(*client, kPool, 2);
  PjrtBuffer row = Upload(*client, kRow, 2);
  PjrtBuffer outputs[2];
  const auto event =
      (*executable)->Launch(std::vector<PjrtBuffer*>{&pool, &row}, outputs);
  ASSERT_THAT(event, IsOk());
  EXPECT_THAT(event->Await(), StatusIs(absl::StatusCode::kUnknown,
                                       "PJRT_Event_Await: device lost"));
}

TEST_F(PluginTest, SameFileByAnyNameIsTheSamePlugin) {
  const auto plugin = PjrtPlugin::Load(path());
  ASSERT_THAT(plugin, IsOk());
  const std::string link = folder().File("link");
  std::filesystem::create_symlink(path(), link);
  EXPECT_EQ(*PjrtPlugin::Load(path()), *plugin);
  EXPECT_EQ(*PjrtPlugin::Load(link), *plugin);
  EXPECT_EQ((*plugin)->xla_version(), 2);
  EXPECT_EQ((*plugin)->stablehlo_current_version(),
            (PjrtPlugin::Version{1, 2, 3}));
  EXPECT_EQ((*plugin)->stablehlo_minimum_version(), std::nullopt);
}

TEST_F(PluginTest, HashIsOfTheFileThatWasLoaded) {
  const auto plugin = PjrtPlugin::Load(path());
  const auto original = PjrtPlugin::Load(TIDEWHEEL_FAKE_PLUGIN);
  ASSERT_THAT(plugin, IsOk());
  ASSERT_THAT(original, IsOk());
  EXPECT_NE(*plugin, *original);
  // An upgrade replaces the file; what runs here is still the old one.
  std::filesystem::remove(path());
  std::ofstream(path()) << "another build";
  const auto hash = (*plugin)->file_hash();
  ASSERT_THAT(hash, IsOk());
  EXPECT_THAT(*hash, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(hash->size(), 32u);
  EXPECT_EQ(*hash, *(*original)->file_hash());
}

TEST_F(PluginTest, HashTellsTwoBuildsApart) {
  const std::string changed = folder().File("changed");
  std::filesystem::copy_file(path(), changed);
  std::ofstream(changed, std::ios::app) << 'x';
  EXPECT_NE(*(*PjrtPlugin::Load(changed))->file_hash(),
            *(*PjrtPlugin::Load(path()))->file_hash());
}

}  // namespace
}  // namespace tidewheel
