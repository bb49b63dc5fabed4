#include "tools/check_command.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"
#include "tools/batch_file.h"
#include "tools/json_place.h"

namespace tidewheel {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const char kProbes[] = TIDEWHEEL_SOURCE_DIR "/tests/data/golden/errors.json";

json SoundFile() {
  return json::parse(R"({
    "arrays": {
      "q": {"dtype": "float32", "shape": [8, 4, 128]},
      "kv_pages": {"dtype": "float32", "shape": [6, 4, 4, 128]},
      "kv_lens": {"dtype": "int32", "shape": [3], "values": [7, 5, 0]},
      "page_indices": {"dtype": "int32", "shape": [3, 2],
                       "values": [[1, 2], [3, 4], [0, 0]]},
      "cu_q_lens": {"dtype": "int32", "shape": [4], "values": [0, 3, 5, 5]},
      "num_seqs": {"dtype": "int32", "shape": [1], "values": [2]}},
    "options": {}})");
}

Outcome RunCheck(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "check");
  return RunTidewheel(std::move(arguments));
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(folder_.Write("batch.json", text)) {}
  const std::string& path() const { return path_; }

 private:
  const TemporaryFolder folder_;
  const std::string path_;
};

json CheckAsJson(const json& file, int exit_code) {
  const TemporaryFile on_disk(file.dump());
  const Outcome result = RunCheck({"--batch", on_disk.path(), "--json"});
  EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  return json::parse(result.out);
}

// Every recorded answer of the two validators, through the command.
void ExpectProbesAgree(const std::string& path) {
  std::ifstream stream(path);
  const json probes = json::parse(stream);
  int checked = 0;
  for (const json& probe : probes) {
    const std::string check = probe["check"].get<std::string>();
    if (check != "static" && check != "dynamic") continue;
    SCOPED_TRACE(check + " " + probe["name"].get<std::string>());
    const TemporaryFile on_disk(probe.dump());
    const Outcome result = RunCheck({"--batch", on_disk.path(), "--json"});
    ASSERT_EQ(result.err, "");
    const json answer = json::parse(result.out);
    json said = answer["jax_" + check];
    json numpy = said["numpy"];
    said.erase("numpy");
    json wanted = probe["jax"];
    json wanted_numpy = probe["numpy"];
    wanted.erase("result");
    wanted_numpy.erase("result");
    EXPECT_EQ(said, wanted);
    EXPECT_EQ(numpy, wanted_numpy);
    if (!wanted["passes"].get<bool>()) {
      EXPECT_EQ(result.exit_code, 1);
    }
    EXPECT_EQ(answer["holds"].get<bool>(), result.exit_code == 0);
    ++checked;
  }
  EXPECT_GE(checked, 157);
}

TEST(CheckCommandTest, SoundBatchHoldsAndExitsWithZero) {
  const json answer = CheckAsJson(SoundFile(), 0);
  EXPECT_EQ(answer["jax_static"]["passes"], true);
  EXPECT_EQ(answer["jax_dynamic"]["passes"], true);
  EXPECT_EQ(answer["jax_dynamic"]["message"], nullptr);
  EXPECT_EQ(answer["strict"], json::array());
  EXPECT_EQ(answer["limits"], json::array());
}

TEST(CheckCommandTest, SelectedProbesAreValidFilesAndAgree) {
  ExpectProbesAgree(kProbes);
}

TEST(CheckCommandTest, EveryProbeIsAValidFileAndAgrees) {
  TIDEWHEEL_REQUIRE_SHARED(path, "golden/errors.json");
  ExpectProbesAgree(path);
}

TEST(CheckCommandTest, DynamicVerdictBeginsWithTheStaticChecks) {
  json file = SoundFile();
  file["options"]["sliding_window"] = 0;
  file["arrays"]["num_seqs"]["values"] = {9};
  const json answer = CheckAsJson(file, 1);
  EXPECT_EQ(answer["jax_static"]["message"],
            "sliding_window=0 must be positive.");
  EXPECT_EQ(answer["jax_dynamic"]["message"], answer["jax_static"]["message"]);
}

TEST(CheckCommandTest, HolesOfJaxAreStrictFindings) {
  json file = SoundFile();
  file["arrays"]["cu_q_lens"]["values"] = {0, 3, 3, 3};
  file["arrays"]["page_indices"]["values"] = {{1, 6}, {3, 1}, {0, 0}};
  const json answer = CheckAsJson(file, 1);
  EXPECT_EQ(answer["jax_dynamic"]["passes"], true);
  EXPECT_EQ(answer["jax_trace"]["passes"], true);
  const std::string all = answer["strict"].dump();
  EXPECT_THAT(all, AllOf(HasSubstr("row 1 has q_len 0"),
                         HasSubstr("row 0 names page 6"), HasSubstr("[1, 6)")));
}

TEST(CheckCommandTest, PageOfTwoRowsThatWriteItIsAStrictFinding) {
  json file = SoundFile();
  file["arrays"]["page_indices"]["values"] = {{1, 2}, {1, 2}, {0, 0}};
  const json answer = CheckAsJson(file, 1);
  EXPECT_THAT(answer["strict"].dump(),
              HasSubstr("page 2 is written by rows 0 and 1"));
}

TEST(CheckCommandTest, DtypeOfNumSeqsIsAStrictFinding) {
  json file = SoundFile();
  file["arrays"]["num_seqs"]["dtype"] = "uint32";
  const json answer = CheckAsJson(file, 1);
  EXPECT_EQ(answer["jax_dynamic"]["passes"], true);
  EXPECT_THAT(answer["strict"].dump(),
              HasSubstr("num_seqs has dtype uint32 and must be int32"));
}

TEST(CheckCommandTest, TraceTimeErrorsSayWhatJaxDoesNot) {
  json file = SoundFile();
  file["arrays"]["q"]["shape"] = {8, 4, 80};
  file["arrays"]["kv_pages"]["shape"] = {6, 4, 4, 80};
  json answer = CheckAsJson(file, 1);
  EXPECT_EQ(answer["jax_static"]["passes"], true);
  EXPECT_EQ(answer["jax_trace"]["exception"], "AssertionError");
  EXPECT_EQ(answer["jax_trace"]["message"], "");
  EXPECT_THAT(answer["trace"].dump(),
              HasSubstr("head_dim 80 must be a multiple of 128; pad q, K and V "
                        "to 128"));

  file = SoundFile();
  file["arrays"]["q"]["shape"] = {8, 6, 128};
  file["arrays"]["kv_pages"]["shape"] = {6, 4, 6, 128};
  answer = CheckAsJson(file, 1);
  EXPECT_THAT(answer["trace"].dump(),
              AllOf(HasSubstr("3 KV heads of float32"),
                    HasSubstr("1, 2, or a multiple of 4"),
                    HasSubstr("num_combined_kv_heads=6")));

  file = SoundFile();
  file["arrays"]["kv_pages"]["dtype"] = "float8_e5m2";
  file["arrays"]["kv_pages"]["shape"] = {6, 4, 8, 128};
  file["options"]["v_scale"] = 0.5;
  answer = CheckAsJson(file, 1);
  EXPECT_THAT(answer["trace"].dump(), HasSubstr("only v_scale is given"));
}

TEST(CheckCommandTest, LimitsOfTheChipAreFindings) {
  json file = SoundFile();
  file["options"]["vmem_limit_bytes"] = 1000;
  json answer = CheckAsJson(file, 1);
  EXPECT_EQ(answer["jax_static"]["passes"], true);
  EXPECT_EQ(answer["strict"], json::array());
  EXPECT_THAT(answer["limits"].dump(), HasSubstr("1000"));
  file = SoundFile();
  file["options"]["mask_value"] = 0.0;
  answer = CheckAsJson(file, 1);
  EXPECT_THAT(answer["limits"].dump(), HasSubstr("mask_value 0.0 is above"));
}

TEST(CheckCommandTest, TextNamesEveryPart) {
  json file = SoundFile();
  file["arrays"]["num_seqs"]["values"] = {4};
  const TemporaryFile on_disk(file.dump());
  const Outcome result = RunCheck({"--batch", on_disk.path()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("JAX, static checks   passes"),
                    HasSubstr("num_seqs[0]=Array(4, dtype=int32) must be"),
                    HasSubstr("num_seqs[0]=np.int32(4) must be"),
                    HasSubstr("num_seqs 4 exceeds max_num_seqs 3"),
                    HasSubstr("limits of v6e"), HasSubstr("Not all hold.")));
}

TEST(CheckCommandTest, UnusableFileOrChipExitsWithTwo) {
  Outcome result = RunCheck({"--batch", "/no/such/file.json"});
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_THAT(result.err, HasSubstr("cannot open /no/such/file.json"));
  const TemporaryFile on_disk(SoundFile().dump());
  result = RunCheck({"--batch", on_disk.path(), "--chip", "v9"});
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_THAT(result.err, HasSubstr("v9"));
  EXPECT_EQ(result.out, "");
}

TEST(CheckCommandTest, OneThingIsCheckedAtATime) {
  EXPECT_THROW(RunCheck({}), CLI::ParseError);
  EXPECT_THROW(RunCheck({"--batch", "a", "--against", "b"}), CLI::ParseError);
}

void ExpectRefused(const std::string& text, const std::string& message) {
  EXPECT_THAT(ParseBatchFile(text),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
      << text.substr(0, 200);
}

void ExpectRefused(const std::function<void(json&)>& change,
                   const std::string& message) {
  json file = SoundFile();
  change(file);
  ExpectRefused(file.dump(), message);
}

TEST(BatchFileTest, TextThatIsNotJsonNamesLineAndColumn) {
  ExpectRefused("", "line 1, column 1: the text ends too early");
  ExpectRefused("{\"arrays\": {\n  \"q\": }\n",
                "line 2, column 8: unexpected '}'");
  ExpectRefused("{\"arrays\": {", "the text ends too early");
  ExpectRefused("{} trailing", "line 1, column 6: unexpected 'a'");
  ExpectRefused("nonsense", "line 1, column 2");
  ExpectRefused("{\"a\": \"\xff\"}", "line 1, column 8");
  ExpectRefused("[1, 2]", "the file is a list and must be an object");
}

TEST(BatchFileTest, AMegabyteOfNestingIsAnError) {
  const std::string lists(1 << 20, '[');
  ExpectRefused(lists, "more than 1024 levels deep at [0][0]");
  ExpectRefused("{\"arrays\": " + lists,
                "more than 1024 levels deep at arrays");
  std::string objects;
  for (int i = 0; i < 1 << 18; ++i) objects += "{\"a\":";
  ExpectRefused(objects, "more than 1024 levels deep at a.a.a");
  // Deep, but within what can be parsed.
  json file = SoundFile();
  json nested = 1;
  for (int i = 0; i < 500; ++i) nested = json::array({nested});
  file["arrays"]["kv_lens"]["values"] = nested;
  ExpectRefused(file.dump(), "arrays.kv_lens.values[0] is a list");
}

TEST(BatchFileTest, MissingPartsAreNamed) {
  ExpectRefused("{}", "the file lacks \"arrays\"");
  for (const char* name :
       {"q", "kv_pages", "kv_lens", "page_indices", "cu_q_lens", "num_seqs"}) {
    ExpectRefused([&](json& f) { f["arrays"].erase(name); },
                  std::string("arrays lacks \"") + name + "\"");
  }
  ExpectRefused([](json& f) { f["arrays"]["q"].erase("dtype"); },
                "arrays.q lacks \"dtype\"");
  ExpectRefused([](json& f) { f["arrays"]["kv_lens"].erase("values"); },
                "arrays.kv_lens lacks \"values\"");
}

TEST(BatchFileTest, UnknownNamesAreRefusedWithTheKnown) {
  ExpectRefused([](json& f) { f["arrays"]["qq"] = 1; },
                "unknown array \"qq\"; known are q, kv_pages");
  ExpectRefused([](json& f) { f["options"]["softcap"] = 1; },
                "unknown option \"softcap\"; known are sm_scale");
}

TEST(BatchFileTest, RaggedRowsNameTheRow) {
  ExpectRefused(
      [](json& f) {
        f["arrays"]["page_indices"]["values"] = {{1, 2}, {3}, {0, 0}};
      },
      "arrays.page_indices.values[1] has 1 elements and the shape [3, 2] says "
      "2");
  ExpectRefused(
      [](json& f) {
        f["arrays"]["page_indices"]["values"] = {{1, 2}, {3, 4, 5}, {0, 0}};
      },
      "arrays.page_indices.values[1] has 3 elements");
  ExpectRefused(
      [](json& f) {
        f["arrays"]["page_indices"]["values"] = {{1, 2}, 3, {0, 0}};
      },
      "arrays.page_indices.values[1] is 3 and must be a list of 2");
  ExpectRefused(
      [](json& f) {
        f["arrays"]["kv_lens"]["values"] = {7, 5};
      },
      "arrays.kv_lens.values has 2 elements");
}

TEST(BatchFileTest, ValuesBeyondInt32NameTheirPlace) {
  for (const char* value : {"2147483648", "-2147483649", "9223372036854775808",
                            "18446744073709551615"}) {
    json file = SoundFile();
    file["arrays"]["kv_lens"]["values"][1] = json::parse(value);
    ExpectRefused(file.dump(), std::string("arrays.kv_lens.values[1] is ") +
                                   value + ", beyond int32");
  }
  // Beyond what the parser takes as a number.
  std::string text = SoundFile().dump();
  text.replace(text.find("[7,5,0]"), 7, "[7,99999999999999999999999,0]");
  ExpectRefused(text,
                "arrays.kv_lens.values[1]: 99999999999999999999999 is beyond");
  text = SoundFile().dump();
  text.replace(text.find("[7,5,0]"), 7, "[7,1e999,0]");
  ExpectRefused(text, "arrays.kv_lens.values[1]");
  ExpectRefused([](json& f) { f["arrays"]["q"]["shape"][0] = 1ll << 31; },
                "arrays.q.shape[0] is 2147483648, beyond int32");
}

TEST(BatchFileTest, ValuesOfAnotherKindNameTheirPlace) {
  ExpectRefused([](json& f) { f["arrays"]["kv_lens"]["values"][2] = 1.5; },
                "arrays.kv_lens.values[2] is 1.5 and must be an integer");
  ExpectRefused([](json& f) { f["arrays"]["kv_lens"]["values"][2] = nullptr; },
                "arrays.kv_lens.values[2] is null");
  ExpectRefused(
      [](json& f) {
        f["arrays"]["q"]["shape"] = {8, -4, 128};
      },
      "arrays.q.shape[1] is -4");
  ExpectRefused(
      [](json& f) { f["arrays"]["q"]["shape"] = json::array_t(9, 1); },
      "arrays.q.shape has more than 8 dimensions");
  ExpectRefused([](json& f) { f["arrays"]["q"]["dtype"] = "float 32"; },
                "arrays.q.dtype is no dtype");
  ExpectRefused([](json& f) { f["arrays"]["q"] = "none"; },
                "arrays.q is a string and must be an object");
  ExpectRefused([](json& f) { f["options"]["k_scale"] = "high"; },
                "options.k_scale: \"high\" is not a number");
  ExpectRefused([](json& f) { f["options"]["k_scale"] = json::array(); },
                "options.k_scale is a list and must be a number");
  ExpectRefused([](json& f) { f["options"] = 3; },
                "options is 3 and must be an object");
}

TEST(BatchFileTest, OptionsMayBeAbsentNullOrPythonsText) {
  json file = SoundFile();
  file.erase("options");
  EXPECT_THAT(ParseBatchFile(file.dump()), IsOk());
  file["options"] = {{"mask_value", "-inf"},
                     {"k_scale", "np.float32(0.5)"},
                     {"v_scale", nullptr}};
  const auto parsed = ParseBatchFile(file.dump());
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->options.mask_value.Repr(), "-inf");
  EXPECT_EQ(parsed->options.k_scale.Repr(), "np.float32(0.5)");
  EXPECT_TRUE(parsed->options.v_scale.is_none());
}

TEST(BatchFileTest, FileAboveTheLimitIsRefusedBeforeItIsParsed) {
  ExpectRefused(std::string(kMaxBatchFileBytes + 1, ' '),
                "exceeds the limit of 67108864");
}

// One byte of a sound file replaced or cut, everywhere.
TEST(BatchFileTest, DamagedFilesAreErrorsOrFilesNeverAFault) {
  const std::string sound = SoundFile().dump();
  int errors = 0;
  for (size_t i = 0; i < sound.size(); ++i) {
    if (!ParseBatchFile(sound.substr(0, i)).ok()) ++errors;
    for (const char c : {'\0', '"', '{', ']', '9', '-', '\xff'}) {
      std::string damaged = sound;
      damaged[i] = c;
      const auto parsed = ParseBatchFile(damaged);
      if (!parsed.ok()) {
        EXPECT_NE(parsed.status().message(), "");
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, static_cast<int>(sound.size()));
}

}  // namespace
}  // namespace tidewheel
