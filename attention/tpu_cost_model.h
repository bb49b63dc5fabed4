// TpuCostModel: how long one step of a model takes on a group of TPU chips.
//
// A step is a pass over the layers for a ragged batch. Its time is the sum of
//   linears     max(bytes of weights / bandwidth, FLOPs / rate)
//   logits      the same, for the rows that are sampled
//   attention   max(KV bytes read / bandwidth, FLOPs of the scores / rate)
//   collectives two ring all-reduces a layer, if the group has several devices
//   overhead    a constant a step and a constant a layer
// with peaks from TpuChip and what is reached of them from TpuCostConstants.
// It is not a simulator of the chip, and it knows no request and no page.
//
// Simplifications: token counts are padded to buckets as servers do; a prefill
// chunk reads its row's KV once for each block of queries, with the chunks of
// one step taken as equally long; padding of KV blocks is free; in a mixture,
// experts are drawn evenly and independently; activations stay in VMEM.
//
// Thread-safety: immutable after Create. Estimate does not allocate and takes
// some tens of nanoseconds.

#ifndef TIDEWHEEL_ATTENTION_TPU_COST_MODEL_H_
#define TIDEWHEEL_ATTENTION_TPU_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/kv_cache_shape.h"
#include "attention/model_shape.h"
#include "attention/tpu_chip.h"
#include "attention/tpu_cost_constants.h"

namespace tidewheel {

// What the time of a step depends on.
struct StepShape {
  int32_t num_seqs = 0;
  int32_t num_decode_rows = 0;  // rows with one query token
  int32_t q_tokens = 0;         // query tokens of all rows
  int64_t kv_tokens = 0;        // sum of kv_len over rows
  int64_t attention_pairs = 0;  // sum over query tokens of the keys they see
  int32_t logits_rows = 0;      // rows whose next token is sampled
};

enum class StepBound { kMemory, kCompute, kOverhead };

// "memory", "compute", "overhead".
absl::string_view StepBoundName(StepBound bound);

// Seconds. The linears take the larger of weights_s and matmul_s, attention
// the larger of kv_read_s and attention_s, each overlapping the other.
struct StepTime {
  double weights_s = 0;      // reading weights, logits' included
  double matmul_s = 0;       // matrix products, logits' included
  double kv_read_s = 0;      // reading the rows' KV, writing the step's
  double attention_s = 0;    // scores and weighted sums
  double collectives_s = 0;  // all-reduces
  double overhead_s = 0;     // constants
  double total_s = 0;
  // The kind that most of total_s goes to: memory and compute where they are
  // the larger of an overlapping pair; collectives count as overhead.
  StepBound bound = StepBound::kOverhead;
};

// One line: the bound, and the parts in milliseconds that make it.
std::string DescribeStepTime(const StepTime& time);

class TpuCostModel {
 public:
  enum class TokenPadding {
    kBuckets,  // 16, 32, 64, ... up to max_num_batched_tokens
    kNone,
  };

  struct Options {
    int32_t chips = 1;  // that share one copy of the model
    KvDtype kv_dtype = KvDtype::kBf16;
    TokenPadding padding = TokenPadding::kBuckets;
    int32_t max_num_batched_tokens = 0;  // the last bucket; 0: no last one
    TpuCostConstants constants;
  };

  // Errors: InvalidArgument where the model can not be split over the group's
  // devices, or an option has no meaning.
  static absl::StatusOr<TpuCostModel> Create(const ModelShape& model,
                                             const TpuChip& chip,
                                             const Options& options);

  // REQUIRES: at least one row, at least one token a row, exactly one in a
  // decode row, and at most max_num_batched_tokens.
  StepTime Estimate(const StepShape& step) const;

  // Devices of the group, over which the model is split.
  int32_t devices() const { return devices_; }

  // What a reader of the times should know: assumptions about this model and
  // chip, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  TpuCostModel() = default;

  void SetLinears(const ModelShape& model, const ModelShape::ChipShare& share,
                  const TpuChip& chip, const TpuCostConstants& constants);
  void SetAttention(const ModelShape& model, const KvCacheShape& kv,
                    const TpuChip& chip, const TpuCostConstants& constants);
  void SetCollectives(const ModelShape& model, const TpuChip& chip,
                      const TpuCostConstants& constants);

  // Query tokens as the program computes them.
  double PaddedTokens(int32_t q_tokens) const;
  // Tokens of KV that the step reads, those read again included.
  double KvTokensRead(const StepShape& step) const;

  int32_t devices_ = 1;
  TokenPadding padding_ = TokenPadding::kBuckets;
  int32_t max_num_batched_tokens_ = 0;
  std::vector<std::string> notes_;

  double streamed_s_ = 0;       // weights that each step reads
  double all_experts_s_ = 0;    // all experts of all layers
  double log_expert_idle_ = 0;  // log P(a token leaves an expert alone)
  double token_s_ = 0;          // matrix products of a token
  double lm_head_s_ = 0;        // reading the matrix of the logits
  double logits_row_s_ = 0;     // its product with one row
  double kv_token_s_ = 0;       // reading a token of KV, all layers
  double pair_s_ = 0;           // a query and a key, all heads and layers
  double block_queries_ = 1;    // query tokens that share one pass over KV
  double collectives_s_ = 0;
  double collective_token_s_ = 0;
  double overhead_s_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TPU_COST_MODEL_H_
