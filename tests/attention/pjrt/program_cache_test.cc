#include "attention/pjrt/program_cache.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "attention/pjrt/program_entry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/cpu_plugin_test_base.h"
#include "tests/attention/pjrt/fake_plugin_test_base.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::filesystem::path> FilesIn(const TemporaryFolder& folder) {
  return {std::filesystem::directory_iterator(folder.path()),
          std::filesystem::directory_iterator()};
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class ProgramCacheTest : public CpuPluginTest {
 protected:
  std::unique_ptr<ProgramCache> MakeCache() {
    auto cache = ProgramCache::Create(
        client_, {.folder = folder_.path().string(),
                  .note = [this](auto text) { notes_.emplace_back(text); }});
    EXPECT_THAT(cache, IsOk());
    return *std::move(cache);
  }
  // 1 + 2 on a new client, as after a restart.
  ProgramCache::Counts CompileAndRun() {
    const auto client = PjrtClient::Create(plugin_, CpuClientOptions());
    EXPECT_THAT(client, IsOk());
    client_ = *client;
    const auto cache = MakeCache();
    const auto add = cache->Compile(kAdd, AddSignature());
    EXPECT_THAT(add, IsOk());
    if (!add.ok()) return {};
    PjrtBuffer one = Upload<float>({1, 1, 1, 1}, kRow);
    PjrtBuffer two = Upload<float>({2, 3, 4, 5}, kRow);
    std::array<PjrtBuffer, 1> sum;
    EXPECT_THAT((*add)->Launch(std::array{&one, &two}, sum), IsOk());
    EXPECT_THAT(Read<float>(sum[0]), ElementsAre(3, 4, 5, 6));
    return cache->counts();
  }

  const TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST_P(ProgramCacheTest, CompiledProgramIsFoundAfterARestart) {
  const ProgramCache::Counts first = CompileAndRun();
  EXPECT_EQ(first.compiles, 1);
  EXPECT_EQ(first.stored, 1);
  EXPECT_THAT(FilesIn(folder_), SizeIs(1));
  const ProgramCache::Counts second = CompileAndRun();
  EXPECT_EQ(second.hits, 1);
  EXPECT_EQ(second.compiles, 0);
  EXPECT_EQ(second.bad_entries, 0);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_P(ProgramCacheTest, DamagedEntryIsReplaced) {
  CompileAndRun();
  ASSERT_THAT(FilesIn(folder_), SizeIs(1));
  const std::filesystem::path path = FilesIn(folder_).front();
  const std::string good = ReadFile(path);
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  std::string other_key = good;
  other_key[20] ^= 1;
  std::string other_version = good;
  other_version[8] ^= 3;
  for (const std::string& bad :
       {flipped, other_key, other_version, good.substr(0, good.size() - 1),
        good + "x", good.substr(0, 10), std::string(),
        std::string(5000, 'x')}) {
    WriteFile(path, bad);
    const ProgramCache::Counts counts = CompileAndRun();
    EXPECT_EQ(counts.bad_entries, 1);
    EXPECT_EQ(counts.compiles, 1);
    EXPECT_EQ(counts.stored, 1);
    EXPECT_EQ(CompileAndRun().hits, 1);
  }
  EXPECT_THAT(FilesIn(folder_), SizeIs(1));
  EXPECT_THAT(notes_, IsEmpty());
}

// A whole entry whose payload the plugin does not take.
TEST_P(ProgramCacheTest, EntryThatDoesNotLoadIsReplaced) {
  CompileAndRun();
  const std::filesystem::path path = FilesIn(folder_).front();
  const std::string key = ReadFile(path).substr(16, 16);
  ASSERT_THAT(WriteProgramEntry(path, key, "no executable"), IsOk());
  const ProgramCache::Counts counts = CompileAndRun();
  EXPECT_EQ(counts.bad_entries, 1);
  EXPECT_EQ(counts.stored, 1);
  EXPECT_EQ(CompileAndRun().hits, 1);
}

TEST_P(ProgramCacheTest, EntryThatIsAFolderIsAMiss) {
  CompileAndRun();
  const std::filesystem::path path = FilesIn(folder_).front();
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  const ProgramCache::Counts counts = CompileAndRun();
  EXPECT_EQ(counts.bad_entries, 1);
  EXPECT_EQ(counts.stored, 0);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("compiled programs are not kept")));
}

TEST_P(ProgramCacheTest, ProgramsOfOtherTextsHaveEntriesOfTheirOwn) {
  const auto cache = MakeCache();
  ASSERT_THAT(cache->Compile(kAdd, AddSignature()), IsOk());
  std::string other = kAdd;
  other.replace(other.find("stablehlo.add"), 13, "stablehlo.multiply");
  ASSERT_THAT(cache->Compile(other, AddSignature()), IsOk());
  EXPECT_EQ(cache->counts().compiles, 2);
  EXPECT_THAT(FilesIn(folder_), SizeIs(2));
}

// The two plugins share the folder.
TEST_P(ProgramCacheTest, EntriesOfAnotherPluginAreNotTaken) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(other_path, 1 - GetParam());
  CompileAndRun();
  const auto own = plugin_;
  const auto other = PjrtPlugin::Load(other_path);
  ASSERT_THAT(other, IsOk());
  plugin_ = *other;
  const ProgramCache::Counts counts = CompileAndRun();
  EXPECT_EQ(counts.hits, 0);
  EXPECT_EQ(counts.bad_entries, 0);
  EXPECT_THAT(FilesIn(folder_), SizeIs(2));
  plugin_ = own;
  EXPECT_EQ(CompileAndRun().hits, 1);
}

TEST_P(ProgramCacheTest, FolderThatCanNotBeMadeIsToldOnce) {
  const std::string file = folder_.Write("file", "");
  auto cache = ProgramCache::Create(
      client_, {.folder = file + "/folder",
                .note = [this](auto text) { notes_.emplace_back(text); }});
  ASSERT_THAT(cache, IsOk());
  EXPECT_THAT((*cache)->Compile(kAdd, AddSignature()), IsOk());
  EXPECT_THAT((*cache)->Compile(kAdd, AddSignature()), IsOk());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("can not make the folder")));
}

TEST_P(ProgramCacheTest, WithoutAFolderNothingIsKeptOrTold) {
  auto cache = ProgramCache::Create(
      client_, {.note = [this](auto text) { notes_.emplace_back(text); }});
  ASSERT_THAT(cache, IsOk());
  EXPECT_THAT((*cache)->Compile(kAdd, AddSignature()), IsOk());
  EXPECT_EQ((*cache)->counts().stored, 0);
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_P(ProgramCacheTest, CompilerErrorsAreTheCallers) {
  const auto cache = MakeCache();
  EXPECT_FALSE(cache->Compile("no program", AddSignature()).ok());
  EXPECT_THAT(FilesIn(folder_), IsEmpty());
}

TEST_P(ProgramCacheTest, UnknownDeviceIsRefused) {
  EXPECT_THAT(
      ProgramCache::Create(client_, {.device_id = 77}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("device_id 77")));
}

TEST_P(ProgramCacheTest, DonationSurvivesTheCache) {
  constexpr char kNegate[] = R"(
    func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32})
        -> tensor<4xf32> {
      %0 = stablehlo.negate %a : tensor<4xf32>
      return %0 : tensor<4xf32>
    })";
  const PjrtSignature signature = {
      .arguments = {{.shape = kRow, .donated = true}}, .outputs = {kRow}};
  ASSERT_THAT(MakeCache()->Compile(kNegate, signature), IsOk());
  const auto cache = MakeCache();
  const auto loaded = cache->Compile(kNegate, signature);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(cache->counts().hits, 1);
  PjrtBuffer array = Upload<float>({1, 2, 3, 4}, kRow);
  std::array<PjrtBuffer, 1> result;
  ASSERT_THAT((*loaded)->Launch(std::array{&array}, result), IsOk());
  EXPECT_TRUE(array.IsDeleted());
  EXPECT_THAT(Read<float>(result[0]), ElementsAre(-1, -2, -3, -4));
}

TEST(ProgramEntryTest, WritersOfOneEntryLeaveAWholeOne) {
  const TemporaryFolder folder;
  const std::string path = folder.File("entry");
  const std::string key(16, 'k');
  const auto write = [&](char fill) {
    for (size_t i = 0; i < 200; ++i) {
      EXPECT_THAT(WriteProgramEntry(path, key, std::string(i * 100, fill)),
                  IsOk());
      const auto read = ReadProgramEntry(path, key);
      ASSERT_THAT(read, IsOk());
      EXPECT_EQ(*read,
                std::string(read->size(), read->empty() ? 'x' : read->front()));
    }
  };
  std::thread other(write, 'a');
  write('b');
  other.join();
  EXPECT_THAT(FilesIn(folder), SizeIs(1));
}

TEST(ProgramEntryTest, PartsAreHashedWithTheirLengths) {
  const absl::string_view one[] = {"ab", "c"};
  const absl::string_view two[] = {"a", "bc"};
  EXPECT_NE(HashOfParts(one), HashOfParts(two));
  EXPECT_EQ(HashOfParts(one).size(), 16u);
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, ProgramCacheTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
