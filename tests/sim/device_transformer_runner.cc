#include "tests/sim/device_transformer_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {

absl::Status DeviceTransformerRunner::PoisonPages() {
  std::vector<int32_t> ids(
      static_cast<size_t>(attention_->shape().total_num_pages) - 1);
  std::iota(ids.begin(), ids.end(), 1);
  const std::vector<char> nan(
      TinyTransformer::kNumLayers * ids.size() * attention_->page_bytes(),
      '\xff');
  return attention_->WritePages(ids, std::as_bytes(std::span(nan)));
}

void DeviceTransformerRunner::FillTokens(const StepPlan& plan) {
  const auto tokens = static_cast<size_t>(model_->sizes().num_tokens);
  token_ids_.assign(plan.token_ids.begin(), plan.token_ids.end());
  token_ids_.resize(tokens);
  positions_.assign(plan.positions.begin(), plan.positions.end());
  positions_.resize(tokens);
  source_rows_.assign(tokens, -1);
  last_tokens_.assign(static_cast<size_t>(model_->sizes().max_num_seqs), 0);
  for (int32_t row = 0; row < plan.batch.num_seqs; ++row) {
    const auto r = static_cast<size_t>(row);
    const int32_t last = plan.batch.cu_q_lens[r + 1] - 1;
    last_tokens_[r] = last;
    if (plan.sampled_from.empty() || plan.sampled_from[r] < 0) continue;
    source_rows_[static_cast<size_t>(last)] = plan.sampled_from[r];
    ++counts_.filled_tokens;
  }
}

absl::Status DeviceTransformerRunner::RunStep(Flight& flight) {
  const bool fails = draw_.PerMille(failures_);
  DeviceTransformer::State state;
  TIDEWHEEL_RETURN_IF_ERROR(
      model_->Begin(token_ids_, source_rows_, positions_, sampled_, state));
  PjrtBuffer attended;
  for (int32_t layer = 0; layer < TinyTransformer::kNumLayers; ++layer) {
    if (fails && draw_.OneIn(2)) {
      return absl::UnavailableError("the launch of a layer failed");
    }
    TIDEWHEEL_RETURN_IF_ERROR(
        attention_->RunLayer(layer, state.q, state.k, state.v, attended));
    if (layer + 1 < TinyTransformer::kNumLayers) {
      TIDEWHEEL_RETURN_IF_ERROR(model_->Next(layer, attended, state));
    }
  }
  PjrtBuffer sampled;
  TIDEWHEEL_RETURN_IF_ERROR(
      model_->Sample(last_tokens_, attended, state, sampled));
  flight.tokens.resize(last_tokens_.size());
  TIDEWHEEL_ASSIGN_OR_RETURN(
      flight.read,
      sampled.ToHostAsync(std::as_writable_bytes(std::span(flight.tokens))));
  sampled_ = std::move(sampled);
  return attention_->EndStep();
}

absl::Status DeviceTransformerRunner::Launch(const StepPlan& plan) {
  FillTokens(plan);
  TIDEWHEEL_RETURN_IF_ERROR(
      attention_->BeginStep(plan.batch, plan.changed_rows, plan.copies));
  TIDEWHEEL_CHECK_EQ(attention_->step_tokens(), model_->sizes().num_tokens);
  Flight flight;
  flight.step_id = plan.step_id;
  flight.wants_logits.assign(plan.wants_logits.begin(),
                             plan.wants_logits.end());
  const absl::Status status = RunStep(flight);
  if (!status.ok()) {
    ++counts_.failed_launches;
    attention_->AbandonStep();
    if (!flight.read.empty()) flight.read.Await().IgnoreError();
    return status;
  }
  ++counts_.launches;
  if (!flights_.empty()) ++counts_.launches_behind_another;
  flights_.push_back(std::move(flight));
  return absl::OkStatus();
}

absl::Status DeviceTransformerRunner::Await(int64_t step_id,
                                            std::span<int32_t> sampled) {
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  TIDEWHEEL_CHECK_EQ(flight.step_id, step_id);
  TIDEWHEEL_RETURN_IF_ERROR(flight.read.Await());
  TIDEWHEEL_RETURN_IF_ERROR(attention_->AwaitOldest());
  if (draw_.PerMille(failures_)) {
    ++counts_.failed_awaits;
    return absl::UnavailableError("the result was lost");
  }
  for (size_t row = 0; row < sampled.size(); ++row) {
    if (flight.wants_logits[row] == 0) continue;
    if (flight.tokens[row] == TinyTransformer::kVocabulary) {
      return absl::InternalError(absl::StrCat("NaN reached the logits of row ",
                                              row, " in step ", step_id));
    }
    sampled[row] = flight.tokens[row];
  }
  return absl::OkStatus();
}

void DeviceTransformerRunner::Drop(int64_t step_id) {
  TIDEWHEEL_CHECK_EQ(flights_.front().step_id, step_id);
  // Its tokens are still being written.
  flights_.front().read.Await().IgnoreError();
  flights_.pop_front();
  attention_->DropOldest();
  ++counts_.dropped;
}

}  // namespace tidewheel
