#include "tools/tpu_compile_command.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/captured_output.h"
#include "tests/tools/scoped_variable.h"
#include "tools/check_command.h"
#include "tools/pjrt/compile_report.h"
#include "tools/pjrt/compile_shapes.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFault[] = "TIDEWHEEL_TEST_FAULT";
constexpr char kAlias[] = "TIDEWHEEL_TEST_ALIAS";
// A pool of 64 pages, as the shapes below have it: 64 x 16 x 2 x 2 x 128 x 2.
constexpr char kPoolBytes[] = "1048576";

// Three programs, told apart by their numbers of tokens.
constexpr char kThreeShapes[] = R"([
  {"form": "decode", "num_tokens": 11, "max_num_seqs": 4, "pages_per_seq": 8,
   "page_size": 16, "num_q_heads": 4, "num_kv_heads": 2, "head_dim": 128,
   "total_num_pages": 64, "generations": ["v5e"]},
  {"form": "decode", "num_tokens": 13, "max_num_seqs": 4, "pages_per_seq": 8,
   "page_size": 16, "num_q_heads": 4, "num_kv_heads": 2, "head_dim": 128,
   "total_num_pages": 64},
  {"form": "prefill", "num_tokens": 17, "max_num_seqs": 4, "pages_per_seq": 8,
   "page_size": 16, "num_q_heads": 4, "num_kv_heads": 2, "head_dim": 128,
   "total_num_pages": 64}])";

class TpuCompileTest : public testing::Test {
 protected:
  TpuCompileOptions Options(const std::string& plugin,
                            const std::string& shapes) {
    TpuCompileOptions options;
    options.flags.libtpu = plugin;
    options.flags.shapes = folder_.Write("shapes.json", shapes);
    options.json = true;
    options.executable = TIDEWHEEL_COMMAND;
    return options;
  }

  static Outcome Run(const TpuCompileOptions& options) {
    return Capture([&](std::FILE* out, std::FILE* err) {
      return RunTpuCompile(options, out, err);
    });
  }

  static std::vector<std::string> Verdicts(const nlohmann::json& report) {
    std::vector<std::string> verdicts;
    for (const auto& shape : report["shapes"]) {
      verdicts.push_back(shape["verdict"]);
    }
    return verdicts;
  }

  const TemporaryFolder folder_;
};

TEST_F(TpuCompileTest, ProgramsThatReuseTheirPoolAgree) {
  const ScopedVariable alias(kAlias, kPoolBytes);
  TpuCompileOptions options = Options(TIDEWHEEL_FAULTY_PLUGIN, kThreeShapes);
  options.flags.jobs = 2;
  const Outcome output = Run(options);
  EXPECT_EQ(output.exit_code, 0) << output.err;
  const nlohmann::json report = output.json();
  EXPECT_THAT(Verdicts(report),
              ElementsAre("compiled", "compiled", "compiled"));
  EXPECT_EQ(report["num_agree"], 3);
  // In the order of the file, whoever compiled it; v6e is the default.
  EXPECT_EQ(report["shapes"][0]["num_tokens"], 11);
  EXPECT_EQ(report["shapes"][0]["chip"], "v5e");
  EXPECT_EQ(report["shapes"][1]["chip"], "v6e");
  EXPECT_EQ(report["shapes"][2]["program"], "prefill");
  EXPECT_EQ(report["shapes"][2]["temp_bytes"], 42);
  EXPECT_TRUE(report["shapes"][2]["pool_in_place"]);
}

TEST_F(TpuCompileTest, ProgramThatDoesNotReuseItsPoolDisagrees) {
  const ScopedVariable alias(kAlias, "1048575");
  const Outcome output = Run(Options(TIDEWHEEL_FAULTY_PLUGIN, kThreeShapes));
  EXPECT_EQ(output.exit_code, 1);
  const nlohmann::json shape = output.json()["shapes"][0];
  EXPECT_EQ(shape["agreement"], "wrong");
  EXPECT_FALSE(shape["pool_in_place"]);
  EXPECT_THAT(shape["disagreement"].get<std::string>(),
              HasSubstr("reuses 1048575 of the 1048576 bytes"));
}

TEST_F(TpuCompileTest, CompilerThatAbortsCostsOneShape) {
  const ScopedVariable alias(kAlias, kPoolBytes);
  const ScopedVariable fault(kFault, "abort:<13x");
  const Outcome output = Run(Options(TIDEWHEEL_FAULTY_PLUGIN, kThreeShapes));
  EXPECT_EQ(output.exit_code, 1);
  const nlohmann::json report = output.json();
  EXPECT_THAT(Verdicts(report), ElementsAre("compiled", "died", "compiled"));
  EXPECT_EQ(report["num_unknown"], 1);
  EXPECT_THAT(report["shapes"][1]["error"].get<std::string>(),
              AllOf(HasSubstr("signal 6"), HasSubstr("told to abort")));
}

TEST_F(TpuCompileTest, CompilerThatHangsCostsOneShape) {
  const ScopedVariable alias(kAlias, kPoolBytes);
  const ScopedVariable fault(kFault, "hang:<13x");
  TpuCompileOptions options = Options(TIDEWHEEL_FAULTY_PLUGIN, kThreeShapes);
  options.flags.timeout_s = 2;
  const Outcome output = Run(options);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(Verdicts(output.json()),
              ElementsAre("compiled", "timed out", "compiled"));
}

TEST_F(TpuCompileTest, RefusalThatWasNotPredictedDisagrees) {
  const ScopedVariable alias(kAlias, kPoolBytes);
  const ScopedVariable fault(kFault, "refuse:<13x");
  TpuCompileOptions options = Options(TIDEWHEEL_FAULTY_PLUGIN, kThreeShapes);
  options.json = false;
  const Outcome output = Run(options);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(
      output.out,
      AllOf(HasSubstr("v6e decode: 13 tokens, 4 x 8 pages of 16, heads 4/2"),
            HasSubstr("oom_scoped_vmem: RESOURCE_EXHAUSTED"),
            HasSubstr("DISAGREES: it was predicted to compile"),
            HasSubstr("2 of 3 shapes compile; the prediction agrees on 2, "
                      "leaves 0 open, is wrong on 1;")));
}

TEST_F(TpuCompileTest, PluginThatCanNotBeLoadedIsNotAVerdict) {
  const Outcome none = Run(Options(TIDEWHEEL_NOT_A_PLUGIN, kThreeShapes));
  EXPECT_EQ(none.exit_code, kExitBadInput);
  EXPECT_THAT(none.err, HasSubstr("is no PJRT plugin"));
  const ScopedVariable fault(kFault, "load:abort");
  const Outcome died = Run(Options(TIDEWHEEL_FAULTY_PLUGIN, kThreeShapes));
  EXPECT_EQ(died.exit_code, 1);
  EXPECT_THAT(died.err, AllOf(HasSubstr("the compiler's process was ended by"),
                              HasSubstr("told to abort")));
}

TEST_F(TpuCompileTest, PluginThatCompilesForNoTpuIsBadInput) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(path, 0);
  const Outcome output = Run(Options(path, kThreeShapes));
  EXPECT_EQ(output.exit_code, kExitBadInput);
  EXPECT_THAT(output.err, HasSubstr("compiles for no TPU; give the path of"));
}

TEST_F(TpuCompileTest, MistakesInAShapeFileHaveAPlace) {
  const struct {
    const char* text;
    const char* error;
  } kCases[] = {
      {"{}", "is no JSON list"},
      {"[1]", "shapes.json[0]: is not an object"},
      {R"([{"num_tokens": 0}])", "num_tokens 0 is not a whole number in [1"},
      {R"([{"num_tokens": 4}])", "max_num_seqs is missing"},
      {R"([{"tokens": 4, "num_tokens": 4, "max_num_seqs": 4,
            "pages_per_seq": 8, "page_size": 16, "num_q_heads": 4,
            "num_kv_heads": 2, "head_dim": 128}])",
       "unknown field tokens"},
      {R"([{"num_tokens": 4, "max_num_seqs": 4,
            "pages_per_seq": 8, "page_size": 16, "num_q_heads": 3,
            "num_kv_heads": 2, "head_dim": 128}])",
       "shapes.json[0]: num_q_heads 3 must be a multiple"},
      {R"([{"form": "both", "num_tokens": 4, "max_num_seqs": 4,
            "pages_per_seq": 8, "page_size": 16, "num_q_heads": 4,
            "num_kv_heads": 2, "head_dim": 128}])",
       "form 'both' is neither"},
  };
  for (const auto& test_case : kCases) {
    const Outcome output =
        Run(Options(TIDEWHEEL_FAULTY_PLUGIN, test_case.text));
    EXPECT_EQ(output.exit_code, kExitBadInput) << test_case.text;
    EXPECT_THAT(output.err, HasSubstr(test_case.error)) << test_case.text;
  }
}

TEST_F(TpuCompileTest, LibtpuCompilesOurProgramsWithThePoolInPlace) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  const Outcome output = Run(Options(path, R"([
    {"num_tokens": 16, "max_num_seqs": 8, "pages_per_seq": 16,
     "page_size": 16, "num_q_heads": 8, "num_kv_heads": 2, "head_dim": 128,
     "generations": ["v5e"]}])"));
  EXPECT_EQ(output.exit_code, 0) << output.out << output.err;
  const nlohmann::json report = output.json();
  EXPECT_THAT(Verdicts(report), ElementsAre("compiled", "compiled"));
  for (const auto& shape : report["shapes"]) {
    EXPECT_TRUE(shape["pool_in_place"]);
    EXPECT_GE(shape["pool_bytes"], 512 << 20);
    EXPECT_EQ(shape["alias_bytes"], shape["pool_bytes"]);
  }
}

TEST_F(TpuCompileTest, LibtpuCompilesAnExportedKernelAsPredicted) {
  TIDEWHEEL_REQUIRE_LIBTPU(path);
  TIDEWHEEL_REQUIRE_JAX_PYTHON(python);
  const std::string kernels = folder_.File("kernels");
  const std::string command =
      python + " -B " + TIDEWHEEL_SOURCE_DIR +
      "/tools/export_tpu_kernel.py --force --out " + kernels +
      " --generation v5e --num-q-heads 32 --num-kv-heads 8 --page-size 16"
      " --total-num-pages 1024 --bucket 64,8,64,8,16 --bucket 64,2100,64,8,16"
      " > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  TpuCompileOptions options;
  options.flags.libtpu = path;
  options.flags.kernels = kernels;
  options.json = true;
  options.executable = TIDEWHEEL_COMMAND;
  options.flags.timeout_s = 300;
  const nlohmann::json report = Run(options).json();
  ASSERT_EQ(report["shapes"].size(), 2) << report.dump();
  const nlohmann::json& fits = report["shapes"][0];
  EXPECT_EQ(fits["verdict"], "compiled") << fits.dump();
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(kernels) /
                                      fits["file"].get<std::string>()));
  EXPECT_EQ(fits["agreement"], "agrees");
  EXPECT_TRUE(fits["pool_in_place"]);
  EXPECT_GT(fits["predicted"]["limit_bytes"],
            fits["predicted"]["needed_bytes"]);
  const nlohmann::json& too_large = report["shapes"][1];
  EXPECT_EQ(too_large["verdict"], "refused") << too_large.dump();
  EXPECT_EQ(too_large["agreement"], "agrees");
  EXPECT_EQ(too_large["error_class"], "oom_smem_one_allocation");
  EXPECT_EQ(too_large["predicted"]["failure"], "oom_smem_one_allocation");
}

// A manifest of one kernel, whose file holds "kernel one".
nlohmann::json ManifestOfOne() {
  const nlohmann::json q = {64, 8, 128};
  const nlohmann::json kv = {64, 2, 128};
  const nlohmann::json pool = {256, 16, 4, 128};
  const auto array = [](const char* name, const char* dtype,
                        const nlohmann::json& shape) {
    return nlohmann::json{{"name", name}, {"dtype", dtype}, {"shape", shape}};
  };
  nlohmann::json entry = nlohmann::json::parse(R"({
      "file": "one.mlirbc", "bytes": 10,
      "xxh3_128": "6e6b19c0e22792d7591d87b4453f7a04",
      "stablehlo_version": "1.15.0", "mosaic_version": 11,
      "generation": "v5e", "num_tokens": 64, "max_num_seqs": 8,
      "pages_per_seq": 64, "num_q_heads": 8, "num_kv_heads": 2,
      "head_dim": 128, "pool_head_dim": 128, "page_size": 16,
      "total_num_pages": 256, "q_dtype": "bfloat16",
      "new_kv_dtype": "bfloat16", "kv_dtype": "bfloat16",
      "num_kv_pages_per_block": 8, "num_queries_per_block": 16,
      "vmem_limit_bytes": null, "donated_argument": 3, "donated_result": 1,
      "options": {"sm_scale": 0.125, "sliding_window": null, "soft_cap": null,
                  "mask_value": -2.381976426469702e+38, "k_scale": null,
                  "v_scale": null}})");
  entry["arguments"] = {array("q", "bfloat16", q),
                        array("k", "bfloat16", kv),
                        array("v", "bfloat16", kv),
                        array("kv_pages", "bfloat16", pool),
                        array("kv_lens", "int32", nlohmann::json::array({8})),
                        array("page_indices", "int32", {8, 64}),
                        array("cu_q_lens", "int32", nlohmann::json::array({9})),
                        array("num_seqs", "int32", nlohmann::json::array({1}))};
  entry["results"] = {array("out", "bfloat16", q),
                      array("kv_pages", "bfloat16", pool)};
  return {{"format", "tidewheel-tpu-kernels"},
          {"format_version", 1},
          {"jax_version", "0.10.2"},
          {"jaxlib_version", "0.10.2"},
          {"artifacts", {entry}}};
}

class KernelFolderTest : public TpuCompileTest {
 protected:
  KernelFolderTest() {
    options_.flags.libtpu = TIDEWHEEL_FAULTY_PLUGIN;
    options_.flags.kernels = folder_.path().string();
    options_.executable = TIDEWHEEL_COMMAND;
    folder_.Write("one.mlirbc", "kernel one");
    folder_.Write("manifest.json", ManifestOfOne().dump());
  }

  TpuCompileOptions options_;
};

TEST_F(KernelFolderTest, KernelIsNamedByItsFile) {
  // Of 256 x 16 x 4 x 128 x 2 bytes.
  const ScopedVariable alias(kAlias, "4194304");
  const Outcome text = Run(options_);
  EXPECT_EQ(text.exit_code, 0) << text.out << text.err;
  EXPECT_THAT(text.out, HasSubstr("one.mlirbc"));
  options_.json = true;
  const nlohmann::json report = Run(options_).json();
  ASSERT_EQ(report["shapes"].size(), 1) << report.dump();
  EXPECT_EQ(report["shapes"][0]["file"], "one.mlirbc");
  EXPECT_EQ(report["shapes"][0]["program"], "kernel");
}

TEST_F(KernelFolderTest, FolderThatIsNotWhatItsManifestSaysIsBadInput) {
  const auto expect_refused = [this](const std::string& error) {
    const Outcome output = Run(options_);
    EXPECT_EQ(output.exit_code, kExitBadInput) << output.out;
    EXPECT_THAT(output.err, HasSubstr(error));
    EXPECT_EQ(output.out, "");
  };
  options_.chip = TpuGeneration::kV6e;
  expect_refused("has no kernel for v6e; export one");
  options_.chip.reset();
  folder_.Write("one.mlirbc", "kernel 0ne");
  expect_refused("not 6e6b19c0e22792d7591d87b4453f7a04 as the manifest says");
  std::filesystem::remove(folder_.File("one.mlirbc"));
  expect_refused("one.mlirbc is not there; copy the folder again");
  nlohmann::json manifest = ManifestOfOne();
  manifest["artifacts"][0]["num_tokens"] = -1;
  folder_.Write("manifest.json", manifest.dump());
  expect_refused("num_tokens");
  folder_.Write("manifest.json", "{");
  expect_refused("is no JSON");
  std::filesystem::remove(folder_.File("manifest.json"));
  expect_refused("manifest.json is not there");
  options_.flags.kernels = folder_.File("nowhere");
  expect_refused("nowhere/manifest.json is not there");
}

TEST(TpuCompileFlagsTest, SomethingToCompileIsNeededAndNotABatch) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"check", "--tpu-compile"},
        {"check", "--tpu-compile", "--batch", "x.json"},
        {"check", "--shapes", "x.json"},
        {"check", "--tpu-compile", "--shapes", ""},
        {"check", "--tpu-compile", "--model", "qwen3-8b", "--kernels", ""},
        {"check", "--tpu-compile", "--model", "qwen3-8b", "--shapes", "x"}}) {
    CommandContext context;
    CLI::App app;
    AddCheckCommand(app, context);
    // CLI11 takes them from the back.
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    EXPECT_THROW(app.parse(reversed), CLI::ParseError) << arguments.back();
  }
}

TEST(CompileShapesTest, ServerOfAConfigurationNeedsBothForms) {
  ConfigurationShape configuration;
  configuration.num_q_heads = 32;
  configuration.num_kv_heads = 8;
  configuration.chips = 2;
  configuration.max_num_seqs = 100;
  configuration.max_model_len = 4096;
  configuration.max_num_batched_tokens = 256;
  const auto largest =
      JobsOfConfiguration(configuration, ServerPrograms::kLargest);
  ASSERT_THAT(largest, IsOk());
  ASSERT_EQ(largest->size(), 2);
  const CompileJob& decode = largest->front();
  EXPECT_EQ(decode.program, "decode");
  EXPECT_EQ(decode.shape.num_tokens, 128);
  EXPECT_EQ(decode.shape.num_q_heads, 16);
  EXPECT_EQ(decode.shape.pages_per_seq, 256);
  EXPECT_GT(decode.pool_bytes, *decode.prediction.temp_bound_bytes);
  EXPECT_EQ(largest->back().shape.num_tokens, 256);
  const auto all = JobsOfConfiguration(configuration, ServerPrograms::kAll);
  ASSERT_THAT(all, IsOk());
  // Decodes of 16, 32, 64, 128; prefills also of 256.
  EXPECT_EQ(all->size(), 9);
  configuration.chips = 3;
  EXPECT_THAT(
      JobsOfConfiguration(configuration, ServerPrograms::kAll),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not divide")));
}

TEST(CompileReportTest, APredictionIsRightWrongOrOpen) {
  CompileJob job;
  job.pool_bytes = 100;
  job.prediction.failure = "oom_scoped_vmem";
  CompileOutcome outcome;
  outcome.memory.alias_bytes = 100;
  EXPECT_EQ(Judge(job, outcome).agreement, CompileAgreement::kWrong);
  job.prediction.may_compile = true;
  EXPECT_EQ(Judge(job, outcome).agreement, CompileAgreement::kOpen);
  outcome.memory.temp_bytes = 100;
  EXPECT_EQ(Judge(job, outcome).agreement, CompileAgreement::kWrong);
  outcome.fate = CompileOutcome::Fate::kRefused;
  EXPECT_EQ(Judge(job, outcome).agreement, CompileAgreement::kOpen);
  job.prediction.may_compile = false;
  EXPECT_EQ(Judge(job, outcome).agreement, CompileAgreement::kAgrees);
  job.prediction.failure.clear();
  EXPECT_EQ(Judge(job, outcome).agreement, CompileAgreement::kWrong);
}

TEST(CompileJobTest, ClassesOfLibtpusErrors) {
  const struct {
    const char* text;
    const char* error_class;
  } kCases[] = {
      {"Ran out of memory in memory space smem. Used 1.01M of 1.00M smem.",
       "oom_smem"},
      {"Allocation (size=2097152) would exceed memory (size=1048576) :: "
       "space=smem 'prefetched SMEM operand 1'",
       "oom_smem_one_allocation"},
      {"Scoped allocation with size 17.72M and limit 16.00M exceeded scoped "
       "vmem limit by 1.72M",
       "oom_scoped_vmem"},
      {"Ran out of memory in memory space vmem. Used 241.27M of 128.00M",
       "oom_vmem"},
      {"Ran out of memory on HBM, the total memory required", "oom_hbm"},
      {"E2001: CompileTimeMosaicUnsupportedRhsType: Unsupported",
       "mosaic_fp8_matmul"},
      {"Not Implemented: The last dim size is not 128 in original base memref",
       "mosaic_head_dim_not_128"},
      {"Internal error", "other"},
  };
  for (const auto& test_case : kCases) {
    EXPECT_EQ(ClassOfCompilerError(test_case.text), test_case.error_class);
  }
}

}  // namespace
}  // namespace tidewheel
