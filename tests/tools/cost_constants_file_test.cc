#include "tools/cost_constants_file.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CostConstantsFileTest : public testing::Test {
 protected:
  absl::StatusOr<TpuCostConstants> Read(const std::string& text) {
    return ReadCostConstants(folder_.Write("constants.json", text));
  }

  const TemporaryFolder folder_;
};

TEST_F(CostConstantsFileTest, OverridesWhatItNamesAndKeepsTheRest) {
  const auto constants =
      Read(R"({"kv_read_efficiency": 0.8, "group_step_overhead_s": 0})");
  ASSERT_THAT(constants, IsOk());
  EXPECT_EQ(constants->kv_read_efficiency, 0.8);
  EXPECT_EQ(constants->group_step_overhead_s, 0);
  EXPECT_EQ(constants->matmul_efficiency, TpuCostConstants().matmul_efficiency);
  EXPECT_THAT(Read("{}"), IsOk());
}

TEST_F(CostConstantsFileTest, WhatIsNoOverrideIsRefusedWithTheFile) {
  for (const auto& [text, reason] :
       {std::pair{R"({"kv_efficiency": 0.8})", "known are weight_stream"},
        {R"({"kv_read_efficiency": 1.5})", "outside [0.01, 1]"},
        {R"({"kv_read_efficiency": "0.5"})", "must be a number"},
        {R"({"kv_read_efficiency": null})", "must be a number"},
        {R"({"link_latency_s": 0, "link_latency_s": 1e-6})", "twice"},
        {"[0.5]", "must be an object"},
        {"{", "not readable as JSON"},
        {"", "not readable as JSON"}}) {
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kInvalidArgument,
                                     AllOf(HasSubstr(folder_.path().string()),
                                           HasSubstr(reason))))
        << text;
  }
}

TEST_F(CostConstantsFileTest, AnAbsentFileIsNotFound) {
  EXPECT_THAT(ReadCostConstants(folder_.File("absent.json")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.json")));
}

}  // namespace
}  // namespace tidewheel
