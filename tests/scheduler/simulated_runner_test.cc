#include "scheduler/simulated_runner.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/content_token.h"
#include "tests/allocation_counter.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

constexpr int32_t kMaxNumSeqs = 4;
constexpr int32_t kEndToken = 2;
constexpr int32_t kUntouched = -7;

TpuCostModel SmallCostModel() {
  ModelShape::Options shape;
  shape.name = "small";
  shape.num_layers = 2;
  shape.hidden_size = 256;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  shape.head_dim = 64;
  shape.vocab_size = 1000;
  shape.max_position_embeddings = 4096;
  shape.intermediate_size = 512;
  const absl::StatusOr<ModelShape> model = ModelShape::Create(shape);
  EXPECT_THAT(model, IsOk());
  const absl::StatusOr<TpuCostModel> cost =
      TpuCostModel::Create(*model, *FindTpuChip("v6e"), {});
  EXPECT_THAT(cost, IsOk());
  return *cost;
}

// A plan that is written row by row.
class PlanBuilder {
 public:
  PlanBuilder& Add(RequestId id, int32_t q_len, int32_t kv_len,
                   bool wants_logits) {
    requests_.push_back(id);
    kv_lens_.push_back(kv_len);
    cu_q_lens_.push_back(cu_q_lens_.back() + q_len);
    wants_logits_.push_back(wants_logits ? 1 : 0);
    if (q_len == 1) ++singles_;
    pairs_ += int64_t{q_len} * kv_len - int64_t{q_len} * (q_len - 1) / 2;
    return *this;
  }

  StepPlan Build() const {
    StepPlan plan;
    plan.step_id = 1;
    plan.batch.kv_lens = kv_lens_;
    plan.batch.cu_q_lens = cu_q_lens_;
    plan.batch.num_seqs = static_cast<int32_t>(requests_.size());
    plan.batch.distribution = {singles_, singles_, plan.batch.num_seqs};
    plan.batch.max_num_seqs = kMaxNumSeqs;
    plan.requests = requests_;
    plan.wants_logits = wants_logits_;
    for (const int32_t kv_len : kv_lens_) plan.kv_tokens += kv_len;
    for (const uint8_t wants : wants_logits_) plan.num_logits += wants;
    plan.attention_pairs = pairs_;
    return plan;
  }

 private:
  std::vector<RequestId> requests_;
  std::vector<int32_t> kv_lens_;
  std::vector<int32_t> cu_q_lens_ = {0};
  std::vector<uint8_t> wants_logits_;
  int32_t singles_ = 0;
  int64_t pairs_ = 0;
};

class SimulatedRunnerTest : public testing::Test {
 protected:
  SimulatedRunnerTest() : runner_(SmallCostModel(), kMaxNumSeqs) {}

  std::vector<int32_t> Run(const PlanBuilder& builder) {
    const StepPlan plan = builder.Build();
    std::vector<int32_t> sampled(kMaxNumSeqs, kUntouched);
    EXPECT_THAT(runner_.Run(plan, sampled), IsOk());
    return sampled;
  }

  SimulatedRunner runner_;
};

TEST_F(SimulatedRunnerTest, TokenIsTheContentAtItsPositionInTheOutput) {
  runner_.Register({1}, {.content_id = 77, .prompt_tokens = 10, .length = 5});
  // A whole prompt gives token 0, then each step the next.
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 10, 10, true))[0], ContentToken(77, 0));
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 1, 11, true))[0], ContentToken(77, 1));
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 1, 14, true))[0], ContentToken(77, 4));
}

TEST_F(SimulatedRunnerTest, EndTokenComesAtTheTrueLengthAndNotBefore) {
  runner_.Register({1}, {.content_id = 77,
                         .prompt_tokens = 10,
                         .length = 3,
                         .end_token = kEndToken});
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 10, 10, true))[0], ContentToken(77, 0));
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 1, 11, true))[0], ContentToken(77, 1));
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 1, 12, true))[0], kEndToken);
  // A scheduler that ignores it for a while (min_new_tokens) gets it again.
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 1, 13, true))[0], kEndToken);
}

TEST_F(SimulatedRunnerTest, OutputOfOneTokenIsTheEndTokenAlone) {
  runner_.Register({1}, {.content_id = 77,
                         .prompt_tokens = 10,
                         .length = 1,
                         .end_token = kEndToken});
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 10, 10, true))[0], kEndToken);
}

TEST_F(SimulatedRunnerTest, RowsMayMoveBetweenSteps) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  runner_.Register({2}, {.content_id = 80, .prompt_tokens = 6, .length = 9});
  std::vector<int32_t> sampled =
      Run(PlanBuilder().Add({1}, 1, 5, true).Add({2}, 1, 7, true));
  EXPECT_EQ(sampled[0], ContentToken(70, 1));
  EXPECT_EQ(sampled[1], ContentToken(80, 1));
  sampled = Run(PlanBuilder().Add({2}, 1, 8, true).Add({1}, 1, 6, true));
  EXPECT_EQ(sampled[0], ContentToken(80, 2));
  EXPECT_EQ(sampled[1], ContentToken(70, 2));
}

TEST_F(SimulatedRunnerTest, SequenceThatIsComputedAgainGetsTheSameToken) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  const int32_t token = Run(PlanBuilder().Add({1}, 1, 8, true))[0];
  // Recomputed after preemption: prompt and generated tokens in one chunk.
  EXPECT_EQ(Run(PlanBuilder().Add({1}, 8, 8, true))[0], token);
}

TEST_F(SimulatedRunnerTest, RowsWithoutLogitsAreLeftAlone) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  runner_.Register({2}, {.content_id = 80, .prompt_tokens = 99, .length = 9});
  const std::vector<int32_t> sampled =
      Run(PlanBuilder().Add({1}, 1, 5, true).Add({2}, 16, 16, false));
  EXPECT_NE(sampled[0], kUntouched);
  EXPECT_EQ(sampled[1], kUntouched);
  EXPECT_EQ(sampled[2], kUntouched);
}

TEST_F(SimulatedRunnerTest, ClockLosesNoFractionOfAMicrosecond) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  const PlanBuilder builder = PlanBuilder().Add({1}, 1, 5, true);
  constexpr int kSteps = 10'000;
  for (int i = 0; i < kSteps; ++i) Run(builder);
  const double step_us = runner_.last_step().total_s * 1e6;
  // Rounding each step down would lose about half a microsecond of each.
  ASSERT_GT(step_us - std::floor(step_us), 0.01);
  EXPECT_NEAR(static_cast<double>(runner_.now_us()), step_us * kSteps, 1.01);
}

TEST_F(SimulatedRunnerTest, IdleTimeIsExactAndForgetsTheFraction) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  Run(PlanBuilder().Add({1}, 1, 5, true));
  runner_.AdvanceTo(5'000'000);
  EXPECT_EQ(runner_.now_us(), 5'000'000);
  Run(PlanBuilder().Add({1}, 1, 6, true));
  EXPECT_EQ(runner_.now_us(),
            5'000'000 + static_cast<int64_t>(
                            std::floor(runner_.last_step().total_s * 1e6)));
}

TEST_F(SimulatedRunnerTest, TotalsAreTheSumsOfTheSteps) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 600, .length = 9});
  double total_s = 0;
  double weights_s = 0;
  for (const int32_t q_len : {512, 1, 88}) {
    Run(PlanBuilder().Add({1}, q_len, 600, true));
    total_s += runner_.last_step().total_s;
    weights_s += runner_.last_step().weights_s;
  }
  const SimulatedRunner::Totals& totals = runner_.totals();
  EXPECT_EQ(totals.steps, 3);
  EXPECT_EQ(
      totals.bound_steps[0] + totals.bound_steps[1] + totals.bound_steps[2], 3);
  EXPECT_DOUBLE_EQ(totals.bound_s[0] + totals.bound_s[1] + totals.bound_s[2],
                   total_s);
  EXPECT_DOUBLE_EQ(totals.parts.total_s, total_s);
  EXPECT_DOUBLE_EQ(totals.parts.weights_s, weights_s);
}

TEST_F(SimulatedRunnerTest, TimeIsThatOfTheCostModelForThePlansShape) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  runner_.Register({2}, {.content_id = 80, .prompt_tokens = 90, .length = 9});
  Run(PlanBuilder().Add({1}, 1, 5, true).Add({2}, 30, 60, false));
  const StepTime expected =
      SmallCostModel().Estimate({.num_seqs = 2,
                                 .num_decode_rows = 1,
                                 .q_tokens = 31,
                                 .kv_tokens = 65,
                                 .attention_pairs = 5 + 30 * 30 + 30 * 31 / 2,
                                 .logits_rows = 1});
  EXPECT_DOUBLE_EQ(runner_.last_step().total_s, expected.total_s);
}

TEST_F(SimulatedRunnerTest, RunAllocatesNothing) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  const PlanBuilder builder = PlanBuilder().Add({1}, 1, 5, true);
  const StepPlan plan = builder.Build();
  std::vector<int32_t> sampled(kMaxNumSeqs);
  ExpectNoAllocation scope("Run");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(runner_.Run(plan, sampled).ok());
}

using SimulatedRunnerDeathTest = SimulatedRunnerTest;

TEST_F(SimulatedRunnerDeathTest, RequestThatIsNotRegisteredEndsTheProcess) {
  EXPECT_DEATH(Run(PlanBuilder().Add({9}, 1, 5, true)), "outputs_.end");
}

TEST_F(SimulatedRunnerDeathTest, RequestIsRegisteredOnce) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  EXPECT_DEATH(runner_.Register({1}, {.prompt_tokens = 4, .length = 9}),
               "emplace");
}

TEST_F(SimulatedRunnerDeathTest, EmptyOutputIsMisuse) {
  EXPECT_DEATH(runner_.Register({1}, {.prompt_tokens = 4}), "output.length");
  EXPECT_DEATH(runner_.Register({1}, {.length = 4}), "output.prompt_tokens");
}

TEST_F(SimulatedRunnerDeathTest, OnlyWhatIsRegisteredIsForgotten) {
  EXPECT_DEATH(runner_.Forget({1}), "erase");
}

TEST_F(SimulatedRunnerDeathTest, ClockDoesNotGoBack) {
  runner_.AdvanceTo(100);
  EXPECT_DEATH(runner_.AdvanceTo(99), "now_us >= now_us_");
}

TEST_F(SimulatedRunnerDeathTest, MoreRowsThanItWasMadeForAreMisuse) {
  runner_.Register({1}, {.content_id = 70, .prompt_tokens = 4, .length = 9});
  PlanBuilder builder;
  for (int i = 0; i <= kMaxNumSeqs; ++i) builder.Add({1}, 1, 5, true);
  const StepPlan plan = builder.Build();
  std::vector<int32_t> sampled(kMaxNumSeqs + 1);
  EXPECT_DEATH({ (void)runner_.Run(plan, sampled); }, "rows_.size");
}

}  // namespace
}  // namespace tidewheel
