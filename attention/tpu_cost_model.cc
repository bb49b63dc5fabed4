#include "attention/tpu_cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

// The smallest buckets of tpu-inference's runner: tokens, and rows of logits.
constexpr int32_t kMinTokenBucket = 16;
constexpr int32_t kMinRowBucket = 8;

// FLOP/s of a device for matrices stored as `dtype`. Activations are quantised
// with the weights only in fp8; other types are widened to bf16 first.
double FlopsPerSecond(const TpuChip& chip, WeightDtype dtype) {
  const double rate =
      dtype == WeightDtype::kFp8
          ? std::max(chip.fp8_flops_per_s, chip.bf16_flops_per_s)
          : chip.bf16_flops_per_s;
  return rate / chip.devices;
}

double BytesPerSecond(const TpuChip& chip) {
  return chip.hbm_bytes_per_s / chip.devices;
}

double Bucket(int32_t count, int32_t smallest) {
  return std::bit_ceil(static_cast<uint32_t>(std::max(count, smallest)));
}

StepBound BoundOf(double memory_s, double compute_s, double overhead_s) {
  if (memory_s >= compute_s && memory_s >= overhead_s) {
    return StepBound::kMemory;
  }
  return compute_s >= overhead_s ? StepBound::kCompute : StepBound::kOverhead;
}

}  // namespace

absl::string_view StepBoundName(StepBound bound) {
  switch (bound) {
    case StepBound::kMemory:
      return "memory";
    case StepBound::kCompute:
      return "compute";
    case StepBound::kOverhead:
      return "overhead";
  }
  TIDEWHEEL_CHECK(false);
}

std::string DescribeStepTime(const StepTime& time) {
  return absl::StrFormat(
      "%s-bound: %.2f ms; weights %.2f ms against matrix products %.2f ms, KV "
      "%.2f ms against attention %.2f ms, collectives %.2f ms, overhead %.2f "
      "ms",
      StepBoundName(time.bound), time.total_s * 1e3, time.weights_s * 1e3,
      time.matmul_s * 1e3, time.kv_read_s * 1e3, time.attention_s * 1e3,
      time.collectives_s * 1e3, time.overhead_s * 1e3);
}

absl::StatusOr<TpuCostModel> TpuCostModel::Create(const ModelShape& model,
                                                  const TpuChip& chip,
                                                  const Options& options) {
  constexpr int32_t kMaxChips = 1 << 16;
  if (options.chips < 1 || options.chips > kMaxChips) {
    return absl::InvalidArgumentError(
        absl::StrCat("chips ", options.chips, " is outside [1, ", kMaxChips,
                     "]; give the chips that share one copy of the model"));
  }
  if (options.max_num_batched_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_num_batched_tokens ", options.max_num_batched_tokens,
                     " is negative; give the tokens of the largest step"));
  }
  TpuCostModel result;
  result.devices_ = options.chips * chip.devices;
  result.padding_ = options.padding;
  result.max_num_batched_tokens_ = options.max_num_batched_tokens;
  TIDEWHEEL_ASSIGN_OR_RETURN(const ModelShape::ChipShare share,
                             model.Share(result.devices_));
  TIDEWHEEL_ASSIGN_OR_RETURN(const KvCacheShape kv,
                             model.KvShape(result.devices_, options.kv_dtype));
  const TpuCostConstants& constants = options.constants;
  result.SetLinears(model, share, chip, constants);
  result.SetAttention(model, kv, chip, constants);
  result.SetCollectives(model, chip, constants);
  result.overhead_s_ = constants.step_overhead_s +
                       constants.layer_overhead_s * model.options().num_layers;
  if (result.devices_ > 1) {
    result.overhead_s_ += constants.group_step_overhead_s;
  }
  return result;
}

void TpuCostModel::SetLinears(const ModelShape& model,
                              const ModelShape::ChipShare& share,
                              const TpuChip& chip,
                              const TpuCostConstants& constants) {
  const ModelShape::Options& shape = model.options();
  const double byte_s =
      1 / (BytesPerSecond(chip) * constants.weight_stream_efficiency);
  const auto flop_s = [&](WeightDtype dtype) {
    return 1 / (FlopsPerSecond(chip, dtype) * constants.matmul_efficiency);
  };
  streamed_s_ = static_cast<double>(share.streamed_bytes) * byte_s;
  lm_head_s_ = static_cast<double>(share.lm_head_bytes) * byte_s;
  logits_row_s_ =
      static_cast<double>(share.logits_flops_per_row) * flop_s(shape.dtype);
  token_s_ =
      static_cast<double>(share.attention_flops_per_token) *
          flop_s(shape.attention_dtype) +
      static_cast<double>(share.ffn_flops_per_token) * flop_s(shape.ffn_dtype);
  if (shape.num_moe_layers == 0) return;
  all_experts_s_ = static_cast<double>(share.expert_bytes) * byte_s *
                   static_cast<double>(shape.num_experts);
  // -inf where every token uses every expert, which exp() turns into 0.
  log_expert_idle_ = std::log1p(-static_cast<double>(shape.experts_per_token) /
                                static_cast<double>(shape.num_experts));
  notes_.push_back(absl::StrCat(
      "a step reads the experts that its tokens hit: expected ",
      shape.num_experts, " x (1 - (1 - ", shape.experts_per_token, "/",
      shape.num_experts, ")^tokens), as if they were drawn evenly"));
}

void TpuCostModel::SetAttention(const ModelShape& model, const KvCacheShape& kv,
                                const TpuChip& chip,
                                const TpuCostConstants& constants) {
  const ModelShape::Options& shape = model.options();
  kv_token_s_ = static_cast<double>(kv.bytes_per_token()) /
                (BytesPerSecond(chip) * constants.kv_read_efficiency);
  // A multiply-add a dimension for the score and one for the weighted sum, in
  // the dimensions as stored.
  const int32_t device_heads = shape.num_heads / devices_;
  const double pair_flops =
      4.0 * device_heads * kv.stored_head_dim() * shape.num_layers;
  pair_s_ = pair_flops / (FlopsPerSecond(chip, WeightDtype::kBf16) *
                          constants.attention_efficiency);
  const int32_t group = shape.num_heads / shape.num_kv_heads;
  block_queries_ =
      std::max(1.0, std::floor(constants.attention_block_query_rows / group));
}

// A ring that sends both ways needs n / 2 hops to scatter and as many to
// gather, and moves (n - 1) / n of the bytes twice.
void TpuCostModel::SetCollectives(const ModelShape& model, const TpuChip& chip,
                                  const TpuCostConstants& constants) {
  if (devices_ == 1) return;
  double link = chip.ici_bytes_per_s_per_link;
  if (link <= 0) {
    link = constants.unstated_link_bytes_per_s;
    notes_.push_back(absl::StrFormat(
        "the link rate of %s is not published; taken as %.0f GB/s", chip.name,
        link / 1e9));
  }
  constexpr double kActivationBytes = 2;  // bf16
  const ModelShape::Options& shape = model.options();
  const double all_reduces = 2.0 * shape.num_layers;
  const double rate =
      link * constants.link_efficiency * constants.link_directions;
  const int32_t half_ring_hops = devices_ / 2;
  collectives_s_ =
      all_reduces * 2.0 * half_ring_hops * constants.link_latency_s;
  collective_token_s_ = all_reduces * 2.0 * (devices_ - 1) / devices_ *
                        shape.hidden_size * kActivationBytes / rate;
}

double TpuCostModel::PaddedTokens(int32_t q_tokens) const {
  if (padding_ == TokenPadding::kNone) return q_tokens;
  const double bucket = Bucket(q_tokens, kMinTokenBucket);
  if (max_num_batched_tokens_ == 0) return bucket;
  return std::min<double>(bucket, max_num_batched_tokens_);
}

double TpuCostModel::KvTokensRead(const StepShape& step) const {
  const int32_t chunks = step.num_seqs - step.num_decode_rows;
  const double kv_tokens = static_cast<double>(step.kv_tokens);
  const double chunk_tokens = step.q_tokens - step.num_decode_rows;
  if (chunk_tokens <= chunks * block_queries_) return kv_tokens;
  // With chunks of q tokens each, a chunk that ends at kv sees
  // q * kv - q (q - 1) / 2 pairs and a decode row as many as it has keys, so
  // pairs - kv_tokens = sum of (q - 1) kv - q (q - 1) / 2 over chunks.
  const double q = chunk_tokens / chunks;
  const double chunk_kv_tokens =
      (static_cast<double>(step.attention_pairs) - kv_tokens) / (q - 1) +
      chunk_tokens / 2;
  const double passes = std::ceil(q / block_queries_);
  return kv_tokens + std::max(0.0, chunk_kv_tokens) * (passes - 1);
}

StepTime TpuCostModel::Estimate(const StepShape& step) const {
  TIDEWHEEL_CHECK_GE(step.num_seqs, 1);
  TIDEWHEEL_CHECK_GE(step.num_decode_rows, 0);
  TIDEWHEEL_CHECK_LE(step.num_decode_rows, step.num_seqs);
  TIDEWHEEL_CHECK_GE(step.q_tokens, step.num_seqs);
  TIDEWHEEL_CHECK(step.num_decode_rows < step.num_seqs ||
                  step.q_tokens == step.num_seqs);
  TIDEWHEEL_CHECK(max_num_batched_tokens_ == 0 ||
                  step.q_tokens <= max_num_batched_tokens_);

  double stream_s = streamed_s_;
  if (all_experts_s_ > 0) {
    stream_s +=
        all_experts_s_ * (1 - std::exp(step.q_tokens * log_expert_idle_));
  }
  const double tokens = PaddedTokens(step.q_tokens);
  const double product_s = tokens * token_s_;
  double logits_stream_s = 0;
  double logits_product_s = 0;
  if (step.logits_rows > 0) {
    const double rows = padding_ == TokenPadding::kNone
                            ? step.logits_rows
                            : Bucket(step.logits_rows, kMinRowBucket);
    logits_stream_s = lm_head_s_;
    logits_product_s = rows * logits_row_s_;
  }

  StepTime time;
  time.weights_s = stream_s + logits_stream_s;
  time.matmul_s = product_s + logits_product_s;
  time.kv_read_s = (KvTokensRead(step) + step.q_tokens) * kv_token_s_;
  time.attention_s = static_cast<double>(step.attention_pairs) * pair_s_;
  time.collectives_s = collectives_s_ + tokens * collective_token_s_;
  time.overhead_s = overhead_s_;

  double memory_s = 0;
  double compute_s = 0;
  for (const auto& [read_s, work_s] :
       {std::pair{stream_s, product_s},
        std::pair{logits_stream_s, logits_product_s},
        std::pair{time.kv_read_s, time.attention_s}}) {
    (read_s >= work_s ? memory_s : compute_s) += std::max(read_s, work_s);
  }
  const double rest_s = time.collectives_s + time.overhead_s;
  time.total_s = memory_s + compute_s + rest_s;
  time.bound = BoundOf(memory_s, compute_s, rest_s);
  return time;
}

}  // namespace tidewheel
