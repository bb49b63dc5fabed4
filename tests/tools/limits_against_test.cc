// `tidewheel check --against`: reading verdicts, comparing, and how well the
// rules do on thousands of verdicts of the TPU compiler.

#include "tools/limits_against.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/tools/captured_output.h"
#include "tools/limits_csv.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kHeader[] =
    "chip,libtpu,sweep,q_heads,kv_heads,head_dim,page_size,q_dtype,kv_dtype,"
    "max_num_seqs,pages_per_seq,max_num_batched_tokens,bkv_pages,bq,"
    "vmem_limit,verdict,error_class\n";

std::string File(const std::string& rows) { return kHeader + rows; }

std::map<std::string, SweepComparison> Compare(const std::string& rows) {
  return CompareLimits(ReadLimitsCsv(File(rows)).value());
}

constexpr char kShape[] = "32,8,128,16,bf16,bf16,8,128,256,8,32,";

std::string Row(const std::string& sweep, const std::string& end) {
  return absl::StrCat("v5e,1,", sweep, ",", kShape, end, "\n");
}

TEST(LimitsCsvTest, ColumnsAreFoundByName) {
  const std::vector<CompileVerdict> rows =
      ReadLimitsCsv(
          "verdict,bq,chip,sweep,q_heads,kv_heads,head_dim,page_size,q_dtype,"
          "kv_dtype,max_num_seqs,pages_per_seq,max_num_batched_tokens,"
          "bkv_pages,vmem_limit,error_class,kv_scales\n"
          "refused,3,v7x,a,28,4,64,32,f32,e5m2,5,6,7,4,99,why,both\n")
          .value();
  ASSERT_EQ(rows.size(), 1);
  const CompileVerdict& row = rows[0];
  EXPECT_EQ(row.line, 2);
  EXPECT_EQ(row.sweep, "a");
  EXPECT_EQ(row.generation, TpuGeneration::kV7x);
  EXPECT_FALSE(row.ok);
  EXPECT_FALSE(row.timed_out);
  EXPECT_EQ(row.error_class, "why");
  EXPECT_EQ(row.shape.num_q_heads, 28);
  EXPECT_EQ(row.shape.num_kv_heads, 4);
  EXPECT_EQ(row.shape.head_dim, 64);
  EXPECT_EQ(row.shape.page_size, 32);
  EXPECT_EQ(row.shape.q_dtype, QueryDtype::kF32);
  EXPECT_EQ(row.shape.kv_dtype, KvDtype::kFp8E5m2);
  EXPECT_EQ(row.shape.max_num_seqs, 5);
  EXPECT_EQ(row.shape.pages_per_seq, 6);
  EXPECT_EQ(row.shape.max_num_batched_tokens, 7);
  EXPECT_EQ(row.shape.num_kv_pages_per_block, 4);
  EXPECT_EQ(row.shape.num_queries_per_block, 3);
  EXPECT_EQ(row.shape.vmem_limit_bytes, 99);
  EXPECT_TRUE(row.shape.has_kv_scales);
}

TEST(LimitsCsvTest, AnEmptyLimitIsTheDefault) {
  EXPECT_EQ(
      ReadLimitsCsv(File(Row("a", ",ok,"))).value()[0].shape.vmem_limit_bytes,
      std::nullopt);
}

TEST(LimitsCsvTest, BadFilesAreErrorsWithTheirLine) {
  struct Case {
    std::string text;
    std::string error;
  };
  const std::string good = Row("a", ",ok,");
  const std::vector<Case> cases = {
      {"", "line 1: no header"},
      {"chip,colour\n", "line 1: unknown column \"colour\""},
      {"chip,chip\n", "line 1: column \"chip\" twice"},
      {"chip,sweep\n", "line 1: column \"q_heads\" is missing"},
      {File(good + "v5e,1\n"), "line 3: 2 fields where the header has 17"},
      {File(good + Row("a", "many,ok,")), "line 3: column vmem_limit is"},
      {File(Row("a", ",maybe,")), "line 2: column verdict is \"maybe\""},
      {File(Row("a", ",ok,oom")), "line 2: column error_class is \"oom\""},
      {File(Row("a", ",fail,")), "line 2: column error_class is \"\""},
      {File(Row("", ",ok,")), "line 2: column sweep is \"\""},
      {File("v1,1,a," + std::string(kShape) + ",ok,\n"),
       "line 2: TPU generation \"v1\" is not known"},
      {File("v4,1,a,x,8,128,16,bf16,bf16,8,128,256,8,32,,ok,\n"),
       "line 2: column q_heads is \"x\""},
      {File("v4,1,a,-1,8,128,16,bf16,bf16,8,128,256,8,32,,ok,\n"),
       "line 2: column q_heads is \"-1\""},
      {File("v4,1,a,4294967297,8,128,16,bf16,bf16,8,128,256,8,32,,ok,\n"),
       "line 2: column q_heads is \"4294967297\""},
      {File("v4,1,a,32,8,128,16,f8,bf16,8,128,256,8,32,,ok,\n"),
       "line 2: column q_dtype is \"f8\""},
      {File("v4,1,a,32,8,128,16,bf16,f16,8,128,256,8,32,,ok,\n"),
       "line 2: column kv_dtype is \"f16\""}};
  for (const Case& c : cases) {
    EXPECT_THAT(
        ReadLimitsCsv(c.text),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.error)));
  }
}

TEST(LimitsAgainstTest, EveryKindOfDisagreementIsCountedAndNamed) {
  // The shape needs about 5 MB and has a default of 16 MiB.
  const auto sweeps =
      Compare(Row("a", ",ok,") + Row("a", ",fail,oom_scoped_vmem") +
              Row("a", "1000000,ok,") + Row("a", "1000000,fail,oom_vmem") +
              Row("a", "1000000,fail,oom_scoped_vmem") +
              Row("a", ",timeout,timeout") + Row("b", ",refused,export_x"));
  ASSERT_EQ(sweeps.size(), 2);
  const SweepComparison& a = sweeps.at("a");
  EXPECT_EQ(a.ok, 2);
  EXPECT_EQ(a.fail, 3);
  EXPECT_EQ(a.timeouts, 1);
  ASSERT_EQ(a.fail_predicted_ok.size(), 1);
  EXPECT_EQ(a.fail_predicted_ok[0].line, 3);
  EXPECT_THAT(a.fail_predicted_ok[0].name,
              HasSubstr("heads 32,8 x 128 bf16/bf16 pages of 16 table 8 x 128 "
                        "tokens 256 blocks 8 x 32 limit default"));
  ASSERT_EQ(a.ok_predicted_fail.size(), 1);
  EXPECT_EQ(a.ok_predicted_fail[0].line, 4);
  EXPECT_EQ(a.ok_predicted_fail[0].predicted, "oom_scoped_vmem");
  ASSERT_EQ(a.other_class.size(), 1);
  EXPECT_EQ(a.other_class[0].line, 5);
  EXPECT_EQ(a.confusion.at({"oom_scoped_vmem", "oom_scoped_vmem"}), 1);
  EXPECT_EQ(sweeps.at("b").fail_predicted_ok.size(), 1);
}

TEST(LimitsAgainstTest, OnlyClosedBisectionsGiveARatio) {
  const auto edges = [](const std::string& sweep, int64_t refused,
                        int64_t accepted) {
    return Compare(Row(sweep, absl::StrCat(refused, ",fail,oom_scoped_vmem")) +
                   Row(sweep, absl::StrCat(accepted, ",ok,")))
        .at(sweep);
  };
  const SweepComparison closed = edges("vmem_bisect", 4'900'000, 5'000'000);
  ASSERT_EQ(closed.bisected.size(), 1);
  EXPECT_TRUE(closed.open_cases.empty());
  EXPECT_EQ(closed.bisected[0].smallest_accepted_bytes, 5'000'000);
  EXPECT_DOUBLE_EQ(
      closed.bisected[0].ratio,
      static_cast<double>(closed.bisected[0].predicted_need_bytes) / 5e6);
  const SweepComparison open = edges("vmem_bisect", 4'700'000, 5'000'000);
  EXPECT_TRUE(open.bisected.empty());
  ASSERT_EQ(open.open_cases.size(), 1);
  EXPECT_TRUE(edges("vmem", 4'900'000, 5'000'000).bisected.empty());
}

Outcome Against(const LimitsAgainstOptions& options) {
  return Capture([&options](std::FILE* out, std::FILE* err) {
    return RunLimitsAgainst(options, out, err);
  });
}

TEST(LimitsAgainstTest, JsonHasTheCountsOfEachSweep) {
  const std::string rows = Row("vmem_bisect", "4900000,fail,oom_scoped_vmem") +
                           Row("vmem_bisect", "5000000,ok,") + Row("a", ",ok,");
  const TemporaryFolder folder;
  const Outcome output =
      Against({.path = folder.Write("rows.csv", File(rows)), .json = true});
  EXPECT_EQ(output.exit_code, 0);
  const nlohmann::json json = nlohmann::json::parse(output.out);
  EXPECT_EQ(json["a"]["ok"], 1);
  EXPECT_EQ(json["a"]["fail"], 0);
  EXPECT_EQ(json["a"]["ok_predicted_fail"], 0);
  EXPECT_EQ(json["a"]["fail_predicted_ok"], 0);
  EXPECT_FALSE(json["a"].contains("need_over_accepted"));
  EXPECT_EQ(json["vmem_bisect"]["fail"], 1);
  EXPECT_EQ(json["vmem_bisect"]["need_over_accepted"]["cases"], 1);
  EXPECT_GE(json["vmem_bisect"]["need_over_accepted"]["min"], 1.0);
}

TEST(LimitsAgainstTest, TextNamesDisagreements) {
  const TemporaryFolder folder;
  const std::string path =
      folder.Write("rows.csv", File(Row("a", ",fail,oom_scoped_vmem")));
  const Outcome output = Against({.path = path});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, AllOf(HasSubstr("a: 0 ok, 1 fail"),
                                HasSubstr("failed, predicted ok"),
                                HasSubstr("line 2: v5e 1 heads 32,8")));
}

TEST(LimitsAgainstTest, AFileThatCanNotBeReadIsAnError) {
  Outcome output = Against({.path = "/nowhere/at/all.csv"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr("/nowhere/at/all.csv: can not be read"));
  const TemporaryFolder folder;
  output = Against({.path = folder.Write("rows.csv", "chip\n")});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.err, HasSubstr("column \"sweep\" is missing"));
}

class SharedVerdictsTest : public testing::Test {
 protected:
  // Empty if the file is not there; then the test is to skip.
  static std::map<std::string, SweepComparison> Sweeps(
      const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return CompareLimits(ReadLimitsCsv(text.str()).value());
  }
};

TEST_F(SharedVerdictsTest, NoFailingRowIsPredictedToFit) {
  TIDEWHEEL_REQUIRE_SHARED(path, "measurements/tpu_compile_limits.csv");
  for (const auto& [name, sweep] : Sweeps(path)) {
    EXPECT_GT(sweep.ok + sweep.fail, 0) << name;
    for (const Disagreement& item : sweep.fail_predicted_ok) {
      ADD_FAILURE() << name << " line " << item.line << ": " << item.name;
    }
  }
}

TEST_F(SharedVerdictsTest, EveryFailureHasItsClass) {
  TIDEWHEEL_REQUIRE_SHARED(path, "measurements/tpu_compile_limits.csv");
  for (const auto& [name, sweep] : Sweeps(path)) {
    for (const Disagreement& item : sweep.other_class) {
      ADD_FAILURE() << name << " line " << item.line << ": " << item.actual
                    << " predicted " << item.predicted;
    }
  }
}

TEST_F(SharedVerdictsTest, FittingRowsArePredictedToFit) {
  TIDEWHEEL_REQUIRE_SHARED(path, "measurements/tpu_compile_limits.csv");
  const auto sweeps = Sweeps(path);
  for (const char* const name :
       {"smem", "smem_with_kv_write", "timing", "vmem_default"}) {
    EXPECT_TRUE(sweeps.at(name).ok_predicted_fail.empty()) << name;
  }
  // One row of `accept` compiled fp8 KV on v4 with k_scale and v_scale (so
  // that K and V were bf16 by the product), which no column of the file says.
  // The same shape without them fails, which is what its columns mean.
  const std::vector<Disagreement>& accept =
      sweeps.at("accept").ok_predicted_fail;
  for (const Disagreement& item : accept) {
    EXPECT_EQ(item.predicted, "mosaic_fp8_matmul") << item.name;
    EXPECT_THAT(item.name, HasSubstr("v4 0.0.42.1 heads 8,2"));
  }
  EXPECT_LE(accept.size(), 1);
  const SweepComparison& vmem = sweeps.at("vmem");
  for (const Disagreement& item : vmem.ok_predicted_fail) {
    EXPECT_TRUE(item.may_compile) << item.name;
  }
  for (const Disagreement& item : sweeps.at("vmem_bisect").ok_predicted_fail) {
    EXPECT_TRUE(item.may_compile) << item.name;
  }
  EXPECT_LE(10 * static_cast<int64_t>(vmem.ok_predicted_fail.size()), vmem.ok);
}

TEST_F(SharedVerdictsTest, PredictedNeedIsCloseAboveTheSmallestAcceptedLimit) {
  TIDEWHEEL_REQUIRE_SHARED(path, "measurements/tpu_compile_limits.csv");
  const auto sweeps = Sweeps(path);
  const SweepComparison& sweep = sweeps.at("vmem_bisect");
  ASSERT_GE(sweep.bisected.size(), 40);
  EXPECT_GE(sweep.bisected.front().ratio, 1.0) << sweep.bisected.front().name;
  EXPECT_LE(sweep.bisected[sweep.bisected.size() / 2].ratio, 1.2);
  EXPECT_LE(sweep.bisected.back().ratio, 1.5) << sweep.bisected.back().name;
}

}  // namespace
}  // namespace tidewheel
