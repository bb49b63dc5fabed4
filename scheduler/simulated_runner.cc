#include "scheduler/simulated_runner.h"

#include <cmath>
#include <limits>

#include "allocator/check.h"
#include "scheduler/content_token.h"

namespace tidewheel {

SimulatedRunner::SimulatedRunner(const TpuCostModel& cost_model,
                                 int32_t max_num_seqs)
    : cost_model_(cost_model) {
  TIDEWHEEL_CHECK_GT(max_num_seqs, 0);
  rows_.resize(static_cast<size_t>(max_num_seqs));
}

void SimulatedRunner::Register(RequestId id, const Output& output) {
  TIDEWHEEL_CHECK_GT(output.prompt_tokens, 0);
  TIDEWHEEL_CHECK_GT(output.length, 0);
  TIDEWHEEL_CHECK(outputs_.emplace(id.value, output).second);
}

void SimulatedRunner::Forget(RequestId id) {
  TIDEWHEEL_CHECK_EQ(outputs_.erase(id.value), 1);
}

absl::Status SimulatedRunner::Run(const StepPlan& plan,
                                  std::span<int32_t> sampled) {
  const size_t num_seqs = static_cast<size_t>(plan.batch.num_seqs);
  TIDEWHEEL_CHECK_GE(sampled.size(), num_seqs);
  TIDEWHEEL_CHECK_GE(rows_.size(), num_seqs);
  for (size_t i = 0; i < num_seqs; ++i) {
    if (plan.wants_logits[i] == 0) continue;
    Row& row = rows_[i];
    if (!(row.request == plan.requests[i])) row = MakeRow(plan.requests[i]);
    const int32_t kv_len = plan.batch.kv_lens[i];
    sampled[i] =
        kv_len >= row.end_kv_len
            ? row.end_token
            : ContentToken(row.content_id,
                           static_cast<uint64_t>(kv_len - row.prompt_tokens));
  }
  Account(plan);
  return absl::OkStatus();
}

SimulatedRunner::Row SimulatedRunner::MakeRow(RequestId id) const {
  const auto found = outputs_.find(id.value);
  TIDEWHEEL_CHECK(found != outputs_.end());
  const Output& output = found->second;
  Row row;
  row.content_id = output.content_id;
  row.request = id;
  row.prompt_tokens = output.prompt_tokens;
  row.end_kv_len = std::numeric_limits<int64_t>::max();
  if (output.end_token.has_value()) {
    row.end_token = *output.end_token;
    row.end_kv_len = int64_t{output.prompt_tokens} + output.length - 1;
  }
  return row;
}

void SimulatedRunner::Account(const StepPlan& plan) {
  StepShape shape;
  shape.num_seqs = plan.batch.num_seqs;
  shape.num_decode_rows = plan.batch.distribution[0];
  shape.q_tokens = plan.batch.total_q_tokens();
  shape.kv_tokens = plan.kv_tokens;
  shape.attention_pairs = plan.attention_pairs;
  shape.logits_rows = plan.num_logits;
  last_step_ = cost_model_.Estimate(shape);

  const double elapsed_us = last_step_.total_s * 1e6 + remainder_us_;
  const double whole_us = std::floor(elapsed_us);
  now_us_ += static_cast<int64_t>(whole_us);
  remainder_us_ = elapsed_us - whole_us;

  ++totals_.steps;
  const size_t bound = static_cast<size_t>(last_step_.bound);
  ++totals_.bound_steps[bound];
  totals_.bound_s[bound] += last_step_.total_s;
  StepTime& parts = totals_.parts;
  parts.weights_s += last_step_.weights_s;
  parts.matmul_s += last_step_.matmul_s;
  parts.kv_read_s += last_step_.kv_read_s;
  parts.attention_s += last_step_.attention_s;
  parts.collectives_s += last_step_.collectives_s;
  parts.overhead_s += last_step_.overhead_s;
  parts.total_s += last_step_.total_s;
}

void SimulatedRunner::AdvanceTo(int64_t now_us) {
  TIDEWHEEL_CHECK_GE(now_us, now_us_);
  if (now_us == now_us_) return;
  now_us_ = now_us;
  remainder_us_ = 0;
}

}  // namespace tidewheel
