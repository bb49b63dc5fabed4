#include "attention/contract.h"

#include <limits>
#include <string>

#include "attention/contract_dtype.h"
#include "attention/contract_dynamic_checks.h"
#include "attention/trace_time_contract.h"
#include "attention/tuned_block_sizes.h"
#include "attention/vmem_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two rows of 3 and 2 queries over 7 and 5 keys, and one padding row.
ContractInputs SoundInputs() {
  return {.q = {{8, 4, 128}, "float32"},
          .kv_pages = {{6, 4, 4, 128}, "float32"},
          .kv_lens = {{3}, "int32", {{7, 5, 0}}},
          .page_indices = {{3, 2}, "int32", {{1, 2, 3, 4, 0, 0}}},
          .cu_q_lens = {{4}, "int32", {{0, 3, 5, 5}}},
          .num_seqs = {{1}, "int32", {{2}}}};
}

std::string Text(const JaxVerdict& verdict) {
  return verdict.has_value() ? verdict->exception + ": " + verdict->message
                             : "passes";
}

std::string StaticText(const ContractInputs& inputs,
                       const ContractOptions& options = {}) {
  return Text(ValidateStatic(inputs, options, ArraySpelling::kJax));
}

std::string DynamicText(const ContractInputs& inputs, ArraySpelling spelling) {
  const auto verdict = ValidateDynamic(inputs, {}, spelling);
  return verdict.ok() ? Text(*verdict) : verdict.status().ToString();
}

TEST(ContractTest, RankIsUnpackedBeforeAnythingElse) {
  ContractInputs inputs = SoundInputs();
  inputs.q.shape = {};
  EXPECT_EQ(StaticText(inputs),
            "ValueError: not enough values to unpack (expected 3, got 0)");
  inputs.q.shape = {1, 2, 3, 4, 5};
  EXPECT_EQ(StaticText(inputs),
            "ValueError: too many values to unpack (expected 3)");
}

TEST(ContractTest, DtypesOfMlDtypesPrintWithoutQuotes) {
  ContractInputs inputs = SoundInputs();
  inputs.kv_lens.dtype = "bfloat16";
  EXPECT_THAT(StaticText(inputs),
              HasSubstr("Got kv_lens.dtype=dtype(bfloat16), "
                        "page_indices.dtype=dtype('int32')"));
}

TEST(ContractTest, OptionsPrintAsPythonPrintsThem) {
  const ContractInputs inputs = SoundInputs();
  ContractOptions options;
  options.sliding_window = PythonValue::Bool(false);
  EXPECT_EQ(StaticText(inputs, options),
            "ValueError: sliding_window=False must be positive.");
  options.sliding_window = PythonValue::Float(-1.5);
  EXPECT_EQ(StaticText(inputs, options),
            "ValueError: sliding_window=-1.5 must be positive.");
  options = {};
  options.num_kv_pages_per_block = PythonValue::Float(1e22);
  EXPECT_EQ(StaticText(inputs, options),
            "ValueError: num_kv_pages_per_block=1e+22 must be in range (0, "
            "2].");
  options = {};
  options.soft_cap = PythonValue::Numpy("float32", 0.0);
  EXPECT_EQ(StaticText(inputs, options),
            "ValueError: soft_cap=np.float32(0.0) must not be 0.0.");
}

TEST(ContractTest, VmemLimitOfZeroIsRefusedAndAbsentIsNot) {
  ContractOptions options;
  options.vmem_limit_bytes = PythonValue::Int(0);
  EXPECT_EQ(StaticText(SoundInputs(), options),
            "ValueError: vmem_limit_bytes=0 must be positive.");
  options.vmem_limit_bytes = PythonValue();
  EXPECT_EQ(StaticText(SoundInputs(), options), "passes");
}

TEST(ContractTest, FractionalNumSeqsCannotIndex) {
  ContractInputs inputs = SoundInputs();
  inputs.num_seqs = {{1}, "float32", std::nullopt, {{2.0}}};
  EXPECT_EQ(DynamicText(inputs, ArraySpelling::kJax),
            "TypeError: Indexer must have integer or boolean type, got indexer "
            "with type float32");
  inputs.num_seqs.real_values = {{4.5}};
  EXPECT_EQ(DynamicText(inputs, ArraySpelling::kJax),
            "ValueError: num_seqs[0]=Array(4.5, dtype=float32) must be less or "
            "equal to max_num_seqs=3");
  inputs.num_seqs.real_values = {{4.0}};
  EXPECT_EQ(DynamicText(inputs, ArraySpelling::kNumpy),
            "ValueError: num_seqs[0]=np.float32(4.0) must be less or equal to "
            "max_num_seqs=3");
}

TEST(ContractTest, BoolNumSeqsSelectsAndHasNoTruthValue) {
  ContractInputs inputs = SoundInputs();
  inputs.num_seqs = {{1}, "bool", {{1}}};
  EXPECT_THAT(DynamicText(inputs, ArraySpelling::kNumpy),
              HasSubstr("more than one element is ambiguous"));
  inputs.num_seqs.values = {{0}};
  EXPECT_THAT(DynamicText(inputs, ArraySpelling::kJax),
              HasSubstr("truth value of an empty array"));
}

TEST(ContractTest, LargeFloatNumSeqsPrintWithAnExponent) {
  ContractInputs inputs = SoundInputs();
  inputs.num_seqs = {{1}, "float32", std::nullopt, {{1e6}}};
  EXPECT_THAT(DynamicText(inputs, ArraySpelling::kJax),
              HasSubstr("num_seqs[0]=Array(1.e+06, dtype=float32)"));
  EXPECT_THAT(DynamicText(inputs, ArraySpelling::kNumpy),
              HasSubstr("num_seqs[0]=np.float32(1e+06)"));
}

TEST(ContractTest, ArraysWithoutUsableValuesAreAnErrorNotAVerdict) {
  ContractInputs inputs = SoundInputs();
  inputs.kv_lens.values.reset();
  EXPECT_THAT(ValidateDynamic(inputs, {}, ArraySpelling::kJax),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("kv_lens has no values")));
  inputs = SoundInputs();
  inputs.cu_q_lens.values->pop_back();
  EXPECT_THAT(ValidateDynamic(inputs, {}, ArraySpelling::kJax),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cu_q_lens has 3 values and its shape says "
                                 "4")));
  inputs = SoundInputs();
  inputs.kv_lens.values = {{7, int64_t{1} << 31, 0}};
  EXPECT_THAT(ValidateDynamic(inputs, {}, ArraySpelling::kJax),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("kv_lens[1] is 2147483648, beyond int32")));
  inputs = SoundInputs();
  inputs.num_seqs.values->push_back(1);
  EXPECT_THAT(ValidateDynamic(inputs, {}, ArraySpelling::kJax),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_seqs has 2 values")));
}

TEST(ContractDynamicChecksDeathTest, SpansOfAnotherSizeAreAMisuse) {
  const int32_t values[] = {0, 1};
  EXPECT_DEATH(CheckDynamicValues(
                   {.kv_lens = values, .cu_q_lens = values, .max_num_seqs = 1},
                   ArraySpelling::kNumpy),
               "kv_lens");
}

TEST(PythonValueTest, ReprReadsBack) {
  for (const char* text : {"None",
                           "True",
                           "False",
                           "0",
                           "-7",
                           "0.0",
                           "-0.0",
                           "0.5",
                           "5e-324",
                           "1e+16",
                           "1234567890123456.0",
                           "0.0001",
                           "1e-05",
                           "inf",
                           "-inf",
                           "nan",
                           "np.float32(0.5)",
                           "np.float64(-0.25)",
                           "np.int32(3)",
                           "np.True_",
                           "np.False_"}) {
    const auto value = PythonValue::Parse(text);
    ASSERT_THAT(value, IsOk()) << text;
    EXPECT_EQ(value->Repr(), text);
  }
}

TEST(PythonValueTest, OtherTextIsRefusedWithWhatWouldDo) {
  for (const char* text : {"", "high", "np.float32(0.5", "np.str_('a')",
                           "np.float32()", "1 2", "[1]"}) {
    EXPECT_THAT(PythonValue::Parse(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("write a number")))
        << text;
  }
}

TEST(PythonValueTest, OnlyPythonsAndDoubleAreFloats) {
  EXPECT_TRUE(PythonValue::Float(1).is_float());
  EXPECT_TRUE(PythonValue::Numpy("float64", 1).is_float());
  EXPECT_FALSE(PythonValue::Numpy("float32", 1).is_float());
  EXPECT_FALSE(PythonValue::Int(1).is_float());
  EXPECT_FALSE(PythonValue::Bool(true).is_float());
  EXPECT_FALSE(PythonValue().is_float());
}

TEST(PythonValueTest, ClampedIntIsWithinItsBoundsForEveryNumber) {
  EXPECT_EQ(PythonValue::Int(7).ClampedInt(1, 100), 7);
  EXPECT_EQ(PythonValue::Float(7.9).ClampedInt(1, 100), 7);
  EXPECT_EQ(PythonValue::Float(-1e300).ClampedInt(1, 100), 1);
  EXPECT_EQ(PythonValue::Float(1e300).ClampedInt(1, int64_t{1} << 62),
            int64_t{1} << 62);
  EXPECT_EQ(
      PythonValue::Int(std::numeric_limits<int64_t>::min()).ClampedInt(-5, 5),
      -5);
  EXPECT_EQ(PythonValue::Float(std::numeric_limits<double>::quiet_NaN())
                .ClampedInt(3, 5),
            3);
}

TEST(PythonValueDeathTest, NoneHasNoNumber) {
  EXPECT_DEATH(PythonValue().number(), "is_none");
}

TEST(TraceTimeContractTest, OneScaleAloneNeedsTheCacheInQsDtype) {
  ContractInputs inputs = SoundInputs();
  ContractOptions options;
  options.num_kv_pages_per_block = PythonValue::Int(1);
  options.num_queries_per_block = PythonValue::Int(8);
  options.v_scale = PythonValue::Float(0.5);
  EXPECT_EQ(CheckTrace(inputs, options, "cpu"), std::nullopt);
  inputs.kv_pages.dtype = "bfloat16";
  EXPECT_EQ(Text(CheckTrace(inputs, options, "cpu")), "AssertionError: ");
  options.k_scale = PythonValue::Float(0.5);
  EXPECT_EQ(CheckTrace(inputs, options, "cpu"), std::nullopt);
}

TEST(TraceTimeContractTest, AbsentBlockSizesNeedATpu) {
  const ContractInputs inputs = SoundInputs();
  EXPECT_EQ(Text(CheckTrace(inputs, {}, "cpu")),
            "NotImplementedError: TPU version must be 4 or higher.");
  EXPECT_EQ(CheckTrace(inputs, {}, "TPU v6 lite"), std::nullopt);
  EXPECT_EQ(Text(CheckTrace(inputs, {}, "TPU v6e")), "AssertionError: TPU v6e");
}

TEST(TraceTimeContractTest, ScaledCacheWithOneKeyABlockLowersForFloat32) {
  ContractInputs inputs = SoundInputs();
  inputs.kv_pages = {{6, 1, 8, 128}, "float8_e4m3fn"};
  inputs.q.shape = {8, 8, 128};
  ContractOptions options;
  options.num_kv_pages_per_block = PythonValue::Int(1);
  options.num_queries_per_block = PythonValue::Int(8);
  EXPECT_THAT(Text(CheckLowering(inputs, options, "cpu")),
              HasSubstr("VerificationError"));
  options.k_scale = PythonValue::Float(0.5);
  options.v_scale = PythonValue::Float(0.5);
  EXPECT_EQ(CheckLowering(inputs, options, "cpu"), std::nullopt);
}

TEST(TraceTimeContractTest, OneKeyUnderOneQueryRowIsADotProduct) {
  ContractInputs inputs = SoundInputs();
  inputs.q.shape = {8, 4, 128};
  inputs.kv_pages = {{6, 1, 8, 128}, "bfloat16"};
  ContractOptions options;
  options.num_kv_pages_per_block = PythonValue::Int(1);
  options.num_queries_per_block = PythonValue::Int(1);
  EXPECT_EQ(CheckLowering(inputs, options, "cpu"), std::nullopt);
  options.num_queries_per_block = PythonValue::Int(2);
  EXPECT_THAT(Text(CheckLowering(inputs, options, "cpu")),
              HasSubstr("VerificationError"));
  options.num_queries_per_block = PythonValue::Int(1);
  inputs.kv_pages.dtype = "int8";
  EXPECT_THAT(Text(CheckLowering(inputs, options, "cpu")),
              HasSubstr("VerificationError"));
}

TEST(TunedBlockSizesTest, LookUpsRoundUpToPowersOfTwo) {
  BlockSizesKey key = {.q_dtype = "bfloat16",
                       .kv_dtype = "bfloat16",
                       .num_q_heads_per_block = 8,
                       .num_kv_heads_per_block = 1,
                       .head_dim = 128,
                       .page_size = 32,
                       .max_num_batched_tokens = 1024,
                       .pages_per_seq = 8};
  const JaxResult<BlockSizes> exact = TunedBlockSizes(key, "TPU v6 lite");
  ASSERT_EQ(exact.error, std::nullopt);
  // Not the default, or the comparison below says nothing.
  EXPECT_EQ(exact.value, (BlockSizes{8, 128}));
  key.num_q_heads_per_block = 5;
  key.page_size = 20;
  key.max_num_batched_tokens = 600;
  key.pages_per_seq = 10;
  EXPECT_EQ(TunedBlockSizes(key, "TPU v6 lite").value, exact.value);
  key.kv_dtype = "float8_e4m3fn";
  EXPECT_EQ(TunedBlockSizes(key, "TPU v6 lite").value, (BlockSizes{10, 32}));
}

TEST(VmemBudgetTest, IsNeverZeroOrNegative) {
  EXPECT_THAT(VmemBudget::Create(1), IsOk());
  for (const int64_t bytes :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(VmemBudget::Create(bytes),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(std::to_string(bytes)),
                               HasSubstr("leave it out"))));
  }
}

TEST(VmemBudgetTest, ReservationThatLeavesNothingShowsTheArithmetic) {
  const auto budget = VmemBudget::Create(1000);
  ASSERT_THAT(budget, IsOk());
  const auto rest = budget->Minus(999, "prefetch");
  ASSERT_THAT(rest, IsOk());
  EXPECT_EQ(rest->bytes(), 1);
  EXPECT_THAT(budget->Minus(1000, "prefetch"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1000 bytes - 1000 bytes for prefetch = 0 "
                                 "bytes")));
  EXPECT_THAT(budget->Minus(1200, "prefetch"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("1000 bytes - 1200 bytes for prefetch "
                                       "= -200 bytes"),
                             HasSubstr("reserve 201 bytes less"))));
  EXPECT_THAT(budget->Minus(-1, "prefetch"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
}

}  // namespace
}  // namespace tidewheel
