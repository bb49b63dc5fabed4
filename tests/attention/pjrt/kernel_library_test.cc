#include "attention/pjrt/kernel_library.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

// Bytes of an artifact and their hash as Python's xxhash, which the exporter
// uses, prints it.
struct Content {
  const char* bytes;
  const char* xxh3_128;
};
constexpr Content kOne = {"kernel one", "6e6b19c0e22792d7591d87b4453f7a04"};
constexpr Content kTwo = {"kernel two!", "4748e354ecaab0aa40d77ff5a1e2455e"};

// The types that follow from an entry's sizes, as the exporter lists them.
void DescribeTensors(Json& entry) {
  const Json q = {entry["num_tokens"], entry["num_q_heads"], entry["head_dim"]};
  const Json kv = {entry["num_tokens"], entry["num_kv_heads"],
                   entry["head_dim"]};
  const Json pool = {entry["total_num_pages"], entry["page_size"],
                     2 * entry["num_kv_heads"].get<int64_t>(),
                     entry["pool_head_dim"]};
  const int64_t seqs = entry["max_num_seqs"];
  const auto tensor = [](const char* name, const Json& dtype,
                         const Json& shape) {
    return Json{{"name", name}, {"dtype", dtype}, {"shape", shape}};
  };
  entry["arguments"] = {tensor("q", entry["q_dtype"], q),
                        tensor("k", entry["new_kv_dtype"], kv),
                        tensor("v", entry["new_kv_dtype"], kv),
                        tensor("kv_pages", entry["kv_dtype"], pool),
                        tensor("kv_lens", "int32", Json::array({seqs})),
                        tensor("page_indices", "int32",
                               Json::array({seqs, entry["pages_per_seq"]})),
                        tensor("cu_q_lens", "int32", Json::array({seqs + 1})),
                        tensor("num_seqs", "int32", Json::array({1}))};
  entry["results"] = {tensor("out", entry["q_dtype"], q),
                      tensor("kv_pages", entry["kv_dtype"], pool)};
}

Json Entry(int64_t num_tokens, int64_t max_num_seqs, int64_t pages_per_seq,
           const Content& content = kOne) {
  Json entry = {{"file", std::string(content.xxh3_128) + ".mlirbc"},
                {"bytes", std::string(content.bytes).size()},
                {"xxh3_128", content.xxh3_128},
                {"stablehlo_version", "1.15.0"},
                {"mosaic_version", 11},
                {"generation", "v5e"},
                {"num_tokens", num_tokens},
                {"max_num_seqs", max_num_seqs},
                {"pages_per_seq", pages_per_seq},
                {"num_q_heads", 8},
                {"num_kv_heads", 2},
                {"head_dim", 64},
                {"pool_head_dim", 128},
                {"page_size", 16},
                {"total_num_pages", 256},
                {"q_dtype", "bfloat16"},
                {"new_kv_dtype", "bfloat16"},
                {"kv_dtype", "float8_e5m2"},
                {"num_kv_pages_per_block", 8},
                {"num_queries_per_block", 16},
                {"vmem_limit_bytes", nullptr},
                {"donated_argument", 3},
                {"donated_result", 1},
                {"options",
                 {{"sm_scale", 0.125},
                  {"sliding_window", nullptr},
                  {"soft_cap", nullptr},
                  {"mask_value", -2.381976426469702e+38},
                  {"k_scale", 0.30000001192092896},
                  {"v_scale", 1.0}}}};
  DescribeTensors(entry);
  return entry;
}

Json Manifest(std::vector<Json> entries) {
  return {{"format", "tidewheel-tpu-kernels"},
          {"format_version", 1},
          {"jax_version", "0.10.2"},
          {"jaxlib_version", "0.10.2"},
          {"artifacts", std::move(entries)}};
}

// What Entry() is for.
KernelNeed Need(int64_t num_tokens, int64_t max_num_seqs,
                int64_t pages_per_seq) {
  KernelNeed need;
  need.settings = {
      .generation = TpuGeneration::kV5e,
      .q_type = ScalarType::kBfloat16,
      .new_kv_type = ScalarType::kBfloat16,
      .kv_type = ScalarType::kFloat8E5m2,
      .num_q_heads = 8,
      .num_kv_heads = 2,
      .head_dim = 64,
      .pool_head_dim = 128,
      .page_size = 16,
      .total_num_pages = 256,
      .options = {.sm_scale = 0.125f, .k_scale = 0.3f, .v_scale = 1.0f}};
  need.bucket = {num_tokens, max_num_seqs, pages_per_seq};
  return need;
}

class KernelLibraryTest : public testing::Test {
 protected:
  KernelLibraryTest() {
    fs::create_directory(folder_);
    for (const Content& content : {kOne, kTwo}) {
      Write(std::string(content.xxh3_128) + ".mlirbc", content.bytes);
    }
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  absl::StatusOr<KernelLibrary> Load(const Json& manifest) {
    Write("manifest.json", manifest.dump());
    return KernelLibrary::Load(folder_.string());
  }

  const TemporaryFolder root_;
  const fs::path folder_ = root_.path() / "kernels";
};

TEST_F(KernelLibraryTest, ReadsWhatTheManifestSaysAndTheBytes) {
  Json second = Entry(64, 8, 64, kTwo);
  second["generation"] = "v7x";
  second["vmem_limit_bytes"] = 16777216;
  second["options"]["sliding_window"] = 128;
  second["options"]["soft_cap"] = 30.0;
  const auto library = Load(Manifest({Entry(16, 8, 64), second}));
  ASSERT_THAT(library, IsOk());
  EXPECT_EQ(library->manifest().jax_version, "0.10.2");
  ASSERT_EQ(library->manifest().artifacts.size(), 2u);
  const KernelArtifact& one = library->manifest().artifacts[0];
  EXPECT_THAT(DifferentSettings(one.settings, Need(1, 1, 1).settings),
              IsEmpty());
  EXPECT_EQ(one.bucket.num_tokens, 16);
  EXPECT_EQ(one.bucket.max_num_seqs, 8);
  EXPECT_EQ(one.bucket.pages_per_seq, 64);
  EXPECT_EQ(one.num_kv_pages_per_block, 8);
  EXPECT_EQ(one.num_queries_per_block, 16);
  EXPECT_EQ(one.vmem_limit_bytes, std::nullopt);
  EXPECT_EQ(one.stablehlo_version, "1.15.0");
  EXPECT_EQ(one.mosaic_version, 11);
  const KernelArtifact& two = library->manifest().artifacts[1];
  EXPECT_EQ(two.settings.generation, TpuGeneration::kV7x);
  EXPECT_EQ(two.vmem_limit_bytes, 16777216);
  EXPECT_EQ(two.settings.options.sliding_window, 128);
  EXPECT_EQ(two.settings.options.soft_cap, 30.0f);
  EXPECT_EQ(library->Read(one).value_or("?"), kOne.bytes);
  EXPECT_EQ(library->Read(two).value_or("?"), kTwo.bytes);
}

TEST_F(KernelLibraryTest, ChoosesTheSmallestBucketThatCovers) {
  const std::vector<Json> entries = {Entry(512, 8, 8),  Entry(64, 64, 64),
                                     Entry(64, 8, 128), Entry(16, 8, 8),
                                     Entry(64, 16, 64), Entry(64, 8, 64)};
  const auto library = Load(Manifest(entries));
  ASSERT_THAT(library, IsOk());
  const auto chosen = [&](int64_t tokens, int64_t seqs, int64_t pages) {
    const KernelChoice choice = library->Choose(Need(tokens, seqs, pages));
    if (choice.artifact == nullptr) return ptrdiff_t{-1};
    return choice.artifact - library->manifest().artifacts.data();
  };
  EXPECT_EQ(chosen(1, 1, 1), 3);
  EXPECT_EQ(chosen(16, 8, 8), 3);
  EXPECT_EQ(chosen(17, 8, 8), 5);
  EXPECT_EQ(chosen(1, 8, 9), 5);
  EXPECT_EQ(chosen(64, 9, 64), 4);
  EXPECT_EQ(chosen(64, 17, 1), 1);
  EXPECT_EQ(chosen(2, 2, 65), 2);
  EXPECT_EQ(chosen(65, 1, 1), 0);
  EXPECT_EQ(chosen(513, 1, 1), -1);
  EXPECT_EQ(chosen(65, 9, 1), -1);
  EXPECT_EQ(chosen(1, 64, 65), -1);
}

TEST_F(KernelLibraryTest, EverySettingMustMatch) {
  const auto library = Load(Manifest({Entry(16, 8, 8)}));
  ASSERT_THAT(library, IsOk());
  const std::vector<
      std::pair<const char*, std::function<void(KernelSettings&)>>>
      changes = {
          {"generation v5e where v6e is needed",
           [](auto& s) { s.generation = TpuGeneration::kV6e; }},
          {"q_dtype bfloat16 where float32 is needed",
           [](auto& s) { s.q_type = ScalarType::kFloat32; }},
          {"new_kv_dtype bfloat16 where float8_e5m2 is needed",
           [](auto& s) { s.new_kv_type = ScalarType::kFloat8E5m2; }},
          {"kv_dtype float8_e5m2 where int8 is needed",
           [](auto& s) { s.kv_type = ScalarType::kInt8; }},
          {"num_q_heads 8 where 4", [](auto& s) { s.num_q_heads = 4; }},
          {"num_kv_heads 2 where 4", [](auto& s) { s.num_kv_heads = 4; }},
          {"head_dim 64 where 128", [](auto& s) { s.head_dim = 128; }},
          {"pool_head_dim 128 where 64", [](auto& s) { s.pool_head_dim = 64; }},
          {"page_size 16 where 32", [](auto& s) { s.page_size = 32; }},
          {"total_num_pages 256 where 255",
           [](auto& s) { s.total_num_pages = 255; }},
          {"sm_scale 0.125 where 0.25",
           [](auto& s) { s.options.sm_scale = 0.25f; }},
          {"sliding_window none where 128 is needed",
           [](auto& s) { s.options.sliding_window = 128; }},
          {"soft_cap none where 30", [](auto& s) { s.options.soft_cap = 30; }},
          {"k_scale 0.3 where none is needed",
           [](auto& s) { s.options.k_scale = std::nullopt; }},
          {"v_scale 1 where 2", [](auto& s) { s.options.v_scale = 2; }},
          {"where -100 is needed",
           [](auto& s) { s.options.mask_value = -100; }},
      };
  for (const auto& [text, change] : changes) {
    KernelNeed need = Need(16, 8, 8);
    change(need.settings);
    const KernelChoice choice = library->Choose(need);
    EXPECT_EQ(choice.artifact, nullptr) << text;
    EXPECT_THAT(choice.reason,
                AllOf(HasSubstr(text), HasSubstr("tools/export_tpu_kernel.py"),
                      HasSubstr(folder_.string())));
  }
  // These change no result.
  KernelNeed need = Need(16, 8, 8);
  need.settings.options.mask_value = -std::numeric_limits<float>::infinity();
  need.settings.options.empty_rows = EmptyRows::kSkip;
  EXPECT_NE(library->Choose(need).artifact, nullptr);
}

TEST_F(KernelLibraryTest, TheReasonNamesTheNearestKernelAndEachDifference) {
  Json other = Entry(512, 8, 8, kTwo);
  other["generation"] = "v4";
  const auto library = Load(Manifest({other, Entry(16, 8, 8)}));
  ASSERT_THAT(library, IsOk());
  // A kernel that is too small is nearer than one of another generation.
  EXPECT_EQ(
      library->Choose(Need(64, 4, 9)).reason,
      "no ahead-of-time kernel in " + folder_.string() +
          " is for v5e, 64 tokens, 4 sequences of 9 pages: the nearest, " +
          kOne.xxh3_128 +
          ".mlirbc for v5e, has num_tokens 16 where 64 are needed, "
          "pages_per_seq 8 where 9 are needed; "
          "tools/export_tpu_kernel.py exports one");
  const auto empty = Load(Manifest({}));
  ASSERT_THAT(empty, IsOk());
  EXPECT_THAT(empty->Choose(Need(1, 1, 1)).reason,
              HasSubstr("the manifest lists none"));
}

TEST_F(KernelLibraryTest, AManifestThatIsNotOneIsRefusedWithThePlace) {
  using Change = std::function<void(Json&)>;
  const auto entry = [](auto change) -> Change {
    return [change](Json& manifest) { change(manifest["artifacts"][1]); };
  };
  const auto set = [&](const char* name, const Json& value) {
    return entry([=](Json& e) { e[name] = value; });
  };
  const auto option = [&](const char* name, const Json& value) {
    return entry([=](Json& e) { e["options"][name] = value; });
  };
  const std::vector<std::pair<const char*, Change>> changes = {
      {": format: is not", [](Json& m) { m["format"] = "other"; }},
      {"jax_version: is missing", [](Json& m) { m.erase("jax_version"); }},
      {"artifacts: is not a list", [](Json& m) { m["artifacts"] = 3; }},
      {"artifacts[1]: is not an object", entry([](Json& e) { e = 3; })},
      {"notes: is unknown to this version", [](Json& m) { m["notes"] = ""; }},
      {"artifacts[1].attention_sink: is unknown", set("attention_sink", 1)},
      {"artifacts[1].options.alibi: is unknown", option("alibi", 1)},
      {"artifacts[1].options: is not an object", set("options", 1)},
      {"artifacts[1].file: is missing",
       entry([](Json& e) { e.erase("file"); })},
      {"artifacts[1].options.k_scale: is missing",
       entry([](Json& e) { e["options"].erase("k_scale"); })},
      {"artifacts[1].file: is not a text", set("file", 1)},
      {"'../x', which is no file in the folder", set("file", "../x")},
      {"which is no file in the folder", set("file", "a/../../x")},
      {"which is no file in the folder", set("file", "/a")},
      {"which is no file in the folder", set("file", "")},
      {"which is no file in the folder", set("file", "a/")},
      {"artifacts[1].bytes: is not a whole number", set("bytes", 0)},
      {"artifacts[1].bytes: is not a whole number", set("bytes", 1.5)},
      {"artifacts[1].bytes: is not a whole number",
       set("bytes", std::numeric_limits<uint64_t>::max())},
      {"xxh3_128: is not 32 hexadecimal digits", set("xxh3_128", "6E6B")},
      {"xxh3_128: is not 32 hexadecimal digits",
       set("xxh3_128", std::string(32, 'F'))},
      {"generation: is 'v3', not v4, v5e", set("generation", "v3")},
      {"kv_dtype: is 'int4', which is no type", set("kv_dtype", "int4")},
      {"num_tokens: is not a whole number in [1, 2147483647]",
       set("num_tokens", int64_t{1} << 31)},
      {"head_dim: is not a whole number in [1, 128]", set("head_dim", 129)},
      {"vmem_limit_bytes: is not a whole number", set("vmem_limit_bytes", 0)},
      {"donated_argument: is not", set("donated_argument", 2)},
      {"donated_result: is not", set("donated_result", 0)},
      {"options.sm_scale: is not a finite", option("sm_scale", nullptr)},
      {"options.k_scale: is not a finite", option("k_scale", 1e39)},
      {"options.sliding_window: is not a whole number in [1, ",
       option("sliding_window", 0)},
      {"artifacts[1].arguments[3]: is {",
       entry([](Json& e) { e["arguments"][3]["shape"][0] = 255; })},
      {"but the sizes make it {",
       entry([](Json& e) { e["arguments"][0]["dtype"] = "float32"; })},
      {"artifacts[1].arguments: is not a list of 8",
       entry([](Json& e) { e["arguments"].erase(7); })},
      {"artifacts[1].results[0]: is",
       entry([](Json& e) { e["results"][0] = nullptr; })},
      {"artifacts[1]: is for the same as artifacts[0]",
       [](Json& m) { m["artifacts"][1] = m["artifacts"][0]; }},
  };
  for (const auto& [text, change] : changes) {
    Json manifest = Manifest({Entry(16, 8, 8), Entry(32, 8, 8, kTwo)});
    change(manifest);
    EXPECT_THAT(Load(manifest),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(text), HasSubstr("manifest.json"),
                               HasSubstr("export the kernels again"))))
        << text;
  }
}

TEST_F(KernelLibraryTest, TextThatIsNoJsonIsRefusedWithThePlace) {
  const std::vector<std::pair<std::string, const char*>> texts = {
      {"", "line 1, column 1"},
      {"{\n\"format\": 1,}", "line 2, column 13"},
      {"{\"format\": 1e999}", "number overflow"},
      {std::string(100000, '['), "line 1, column 100001"},
      {std::string(100000, '[') + std::string(100000, ']'), "more than 16"},
      {"3", "is not an object"},
  };
  for (const auto& [text, place] : texts) {
    Write("manifest.json", text);
    EXPECT_THAT(KernelLibrary::Load(folder_.string()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(place)));
  }
}

TEST_F(KernelLibraryTest, AnotherFormatVersionIsToldFromAMistake) {
  Json manifest = Manifest({});
  manifest["format_version"] = 2;
  manifest["something_new"] = true;
  EXPECT_THAT(Load(manifest), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("format_version 2 is not 1")));
}

TEST_F(KernelLibraryTest, DamagedFilesAreFoundAtTheStart) {
  const Json manifest = Manifest({Entry(16, 8, 8)});
  const std::string file = std::string(kOne.xxh3_128) + ".mlirbc";
  const std::string bytes = kOne.bytes;
  Write(file, bytes.substr(1));
  EXPECT_THAT(Load(manifest),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr(file), HasSubstr("has 9 bytes, not 10"),
                             HasSubstr("copy the folder again"))));
  Write(file, "kernel onE");
  EXPECT_THAT(Load(manifest),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr(std::string("not ") + kOne.xxh3_128)));
  fs::remove(folder_ / file);
  EXPECT_THAT(Load(manifest),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(file)));
  fs::create_directory(folder_ / file);
  EXPECT_THAT(Load(manifest), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("is no regular file")));
}

TEST_F(KernelLibraryTest, AFileThatChangesAfterTheLoadIsNotRead) {
  const auto library = Load(Manifest({Entry(16, 8, 8)}));
  ASSERT_THAT(library, IsOk());
  Write(std::string(kOne.xxh3_128) + ".mlirbc", "kernel 0ne");
  EXPECT_THAT(library->Read(library->manifest().artifacts[0]),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("XXH3-128")));
}

TEST_F(KernelLibraryTest, ALinkOutOfTheFolderIsRefusedAndOneWithinIsFine) {
  Json entry = Entry(16, 8, 8);
  entry["file"] = "link";
  fs::create_symlink(std::string(kOne.xxh3_128) + ".mlirbc", folder_ / "link");
  EXPECT_THAT(Load(Manifest({entry})), IsOk());
  root_.Write("outside", kOne.bytes);
  fs::remove(folder_ / "link");
  fs::create_symlink("../outside", folder_ / "link");
  EXPECT_THAT(Load(Manifest({entry})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("leads out of the folder")));
}

TEST_F(KernelLibraryTest, AFolderWithoutAManifestIsNotFound) {
  EXPECT_THAT(KernelLibrary::Load(folder_.string()),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("manifest.json is not there")));
  EXPECT_THAT(KernelLibrary::Load(root_.File("nowhere")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere")));
}

}  // namespace
}  // namespace tidewheel
