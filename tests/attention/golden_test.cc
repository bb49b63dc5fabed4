// The reference backend and the contract against JAX's own answers: a
// selection that the tests carry, and the whole set where it is there.

#include <cmath>
#include <string>
#include <vector>

#include "attention/contract.h"
#include "attention/reference_attention.h"
#include "attention/trace_time_contract.h"
#include "attention/tuned_block_sizes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/golden_files.h"
#include "tests/shared_files.h"
#include "tests/status_matchers.h"

namespace tidewheel {

// In the namespace of the struct, so that GoogleTest finds it.
void PrintTo(const JaxError& error, std::ostream* out) {
  *out << error.exception << ": " << error.message;
}

namespace {

const char kSelection[] = TIDEWHEEL_SOURCE_DIR "/tests/data/golden";

// |got - wanted| <= atol + rtol * |wanted| for every element of the real rows.
void ExpectClose(const std::string& what, const std::vector<double>& got,
                 const std::vector<double>& wanted, double atol, double rtol) {
  ASSERT_GE(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double allowed = atol + rtol * std::fabs(wanted[i]);
    ASSERT_LE(std::fabs(got[i] - wanted[i]), allowed)
        << what << ", element " << i << ": " << got[i] << " for " << wanted[i];
  }
}

void ExpectCaseAgrees(const std::string& folder, const std::string& name) {
  SCOPED_TRACE(name);
  const GoldenCase golden = ReadGoldenCase(folder, name);
  const HeadsView q = golden.q();
  ReferenceAttention reference;

  std::vector<double> wide(q.num_elements(), std::nan(""));
  ASSERT_THAT(reference.AttendInDouble(q, golden.kv_pages(), golden.batch(),
                                       golden.options(), wide),
              IsOk());
  const std::vector<double> ideal = golden.tensors.at("expected_f64").Doubles();
  ExpectClose("in double", wide, ideal, golden.tolerance("f64_atol"),
              golden.tolerance("f64_rtol"));
  for (size_t i = ideal.size(); i < wide.size(); ++i) {
    ASSERT_EQ(wide[i], 0.0) << "padding element " << i;
  }

  GoldenTensor rounded = {golden.tensors.at("q").dtype, {}, {}};
  rounded.bytes.assign(q.num_bytes(), '\x7f');
  ASSERT_THAT(reference.RaggedPagedAttention(
                  q, golden.kv_pages(), golden.batch(), golden.options(),
                  {q.type, rounded.bytes.data(), q.num_tokens, q.num_heads,
                   q.head_dim}),
              IsOk());
  const std::vector<double> output = rounded.Doubles();
  for (size_t i = ideal.size(); i < output.size(); ++i) {
    ASSERT_EQ(output[i], 0.0) << "padding element " << i;
  }
  // Half an ulp of the output, and the tiniest float32 near 0.
  const double ulp = q.type == ScalarType::kBfloat16 ? 0x1p-8 : 0x1p-23;
  ExpectClose("rounded", output, ideal, 0x1p-149, ulp);
  if (!golden.description["tolerance"]["jax_atol"].is_null()) {
    ExpectClose("against JAX", output, golden.tensors.at("expected").Doubles(),
                golden.tolerance("jax_atol"), golden.tolerance("jax_rtol"));
  }
}

void ExpectProbeAgrees(const GoldenProbe& probe) {
  SCOPED_TRACE(probe.check + " " + probe.name);
  const std::string tpu = "TPU v6 lite";
  if (probe.check == "static") {
    EXPECT_EQ(ValidateStatic(probe.inputs, probe.options, ArraySpelling::kJax),
              probe.jax);
    EXPECT_EQ(
        ValidateStatic(probe.inputs, probe.options, ArraySpelling::kNumpy),
        probe.numpy);
  } else if (probe.check == "dynamic") {
    const auto jax =
        ValidateDynamic(probe.inputs, probe.options, ArraySpelling::kJax);
    const auto numpy =
        ValidateDynamic(probe.inputs, probe.options, ArraySpelling::kNumpy);
    ASSERT_THAT(jax, IsOk());
    ASSERT_THAT(numpy, IsOk());
    EXPECT_EQ(*jax, probe.jax);
    EXPECT_EQ(*numpy, probe.numpy);
  } else if (probe.check == "trace") {
    EXPECT_EQ(CheckTrace(probe.inputs, probe.options, "cpu"), probe.jax);
  } else if (probe.check == "lowering") {
    EXPECT_EQ(CheckLowering(probe.inputs, probe.options, "cpu"), probe.jax);
  } else if (probe.check == "reference") {
    EXPECT_EQ(CheckReference(probe.inputs, probe.options), probe.jax);
  } else {
    const ContractArray& q = probe.inputs.q;
    const ContractArray& kv_pages = probe.inputs.kv_pages;
    const JaxResult<HeadsPerBlock> heads = MinHeadsPerBlock(
        q.shape[1], kv_pages.shape[2], q.dtype, kv_pages.dtype);
    if (probe.check == "heads") {
      ASSERT_EQ(heads.error, probe.jax);
      if (heads.error.has_value()) return;
      EXPECT_EQ(heads.value.num_q_heads,
                probe.result["num_q_heads_per_blk"].get<int64_t>());
      EXPECT_EQ(heads.value.num_combined_kv_heads,
                probe.result["num_combined_kv_heads_per_blk"].get<int64_t>());
      return;
    }
    ASSERT_EQ(probe.check, "blocks");
    const JaxResult<BlockSizes> blocks = TunedBlockSizes(
        {.q_dtype = q.dtype,
         .kv_dtype = kv_pages.dtype,
         .num_q_heads_per_block = heads.value.num_q_heads,
         .num_kv_heads_per_block = heads.value.num_combined_kv_heads / 2,
         .head_dim = q.shape[2],
         .page_size = kv_pages.shape[1],
         .max_num_batched_tokens = q.shape[0],
         .pages_per_seq = probe.inputs.page_indices.shape[1]},
        probe.device_kind);
    ASSERT_EQ(blocks.error, probe.jax);
    if (blocks.error.has_value()) return;
    EXPECT_EQ(blocks.value.num_kv_pages_per_block,
              probe.result["num_kv_pages_per_block"].get<int64_t>());
    EXPECT_EQ(blocks.value.num_queries_per_block,
              probe.result["num_queries_per_block"].get<int64_t>());
  }
}

TEST(GoldenTest, ReferenceAgreesWithTheSelectedCases) {
  const std::string folder = std::string(kSelection) + "/cases";
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_EQ(names.size(), 12u);
  for (const std::string& name : names) ExpectCaseAgrees(folder, name);
}

TEST(GoldenTest, ReferenceAgreesWithEveryCase) {
  TIDEWHEEL_REQUIRE_SHARED(folder, "golden/cases");
  const std::vector<std::string> names = GoldenNames(folder);
  EXPECT_GE(names.size(), 145u);
  for (const std::string& name : names) ExpectCaseAgrees(folder, name);
}

TEST(GoldenTest, ContractAgreesWithTheSelectedProbes) {
  const std::vector<GoldenProbe> probes =
      ReadGoldenProbes(std::string(kSelection) + "/errors.json");
  EXPECT_GE(probes.size(), 300u);
  for (const GoldenProbe& probe : probes) ExpectProbeAgrees(probe);
}

TEST(GoldenTest, ContractAgreesWithEveryProbe) {
  TIDEWHEEL_REQUIRE_SHARED(path, "golden/errors.json");
  const std::vector<GoldenProbe> probes = ReadGoldenProbes(path);
  EXPECT_GE(probes.size(), 661u);
  for (const GoldenProbe& probe : probes) ExpectProbeAgrees(probe);
}

}  // namespace
}  // namespace tidewheel
