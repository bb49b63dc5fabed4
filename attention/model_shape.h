// ModelShape: a decoder's matrices, counted.
//
// From the numbers of a configuration it derives what capacity and the time
// of a step depend on: parameters (all, and those that one token uses),
// weight bytes, a chip's share of them, and the FLOPs of the matrix products.
// It covers decoders in which every layer has grouped-query attention of one
// shape with a KV cache, and a gated feed-forward block: dense, or a mixture
// of experts with optional shared experts. It does not read files and knows no
// model by name (tools/model_config does), and it holds no weights.
//
// Counts are exact: they equal the published ones to the last parameter, with
// norms, biases and other vectors, which the reader of a configuration counts
// by architecture and passes in.
//
// Thread-safety: an immutable value. Allocates its name and errors only.

#ifndef TIDEWHEEL_ATTENTION_MODEL_SHAPE_H_
#define TIDEWHEEL_ATTENTION_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/kv_cache_shape.h"

namespace tidewheel {

// How a matrix is stored, its scales included: fp8 with an f32 scale for each
// block of 128 x 128, mxfp4 as 32 4-bit values and their 8-bit exponent.
enum class WeightDtype { kF32, kBf16, kFp8, kInt8, kMxfp4 };

// "f32", "bf16", "fp8", "int8", "mxfp4".
absl::string_view WeightDtypeName(WeightDtype dtype);

class ModelShape {
 public:
  struct Options {
    std::string name;
    int32_t num_layers = 0;
    int32_t hidden_size = 0;
    int32_t num_heads = 0;
    int32_t num_kv_heads = 0;
    int32_t head_dim = 0;
    int32_t vocab_size = 0;
    int32_t max_position_embeddings = 0;  // tokens
    bool tied_embeddings = false;         // the logits use the embedding

    // Layers are dense or mixtures: num_layers - num_moe_layers are dense.
    int32_t intermediate_size = 0;  // of a dense layer
    int32_t num_moe_layers = 0;
    int32_t num_experts = 0;
    int32_t experts_per_token = 0;
    int32_t moe_intermediate_size = 0;     // of one expert
    int32_t shared_intermediate_size = 0;  // all shared experts of a layer

    // Parameters that are no matrix: norms, biases, sinks, gates.
    int64_t vectors_per_layer = 0;      // every layer
    int64_t vectors_per_moe_layer = 0;  // more in a mixture, beside experts
    int64_t vectors_per_expert = 0;     // more in each expert
    int64_t final_vectors = 0;          // once, after the last layer

    WeightDtype dtype = WeightDtype::kBf16;  // of all but the next two
    WeightDtype attention_dtype = WeightDtype::kBf16;
    WeightDtype ffn_dtype = WeightDtype::kBf16;
  };

  // What one of `tensor_parallel` chips holds and does.
  struct ChipShare {
    int64_t weight_bytes = 0;    // resident, everything
    int64_t streamed_bytes = 0;  // of them, what every step reads
    int64_t expert_bytes = 0;    // of them, one expert of every mixture layer
    int64_t lm_head_bytes = 0;   // of them, what logits read
    int64_t attention_flops_per_token = 0;  // projections, not scores
    int64_t ffn_flops_per_token = 0;        // router included
    int64_t logits_flops_per_row = 0;
  };

  // Errors: InvalidArgument that names a number which can not be; OutOfRange
  // where a count exceeds 2^53.
  static absl::StatusOr<ModelShape> Create(Options options);

  const Options& options() const { return options_; }

  int64_t total_params() const { return total_params_; }
  // Those that one token's step uses: all but the experts not chosen.
  int64_t active_params() const { return active_params_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  // FLOPs of the matrix products of one token, logits not included.
  int64_t matmul_flops_per_token() const { return matmul_flops_per_token_; }

  // A chip's share when heads, feed-forward width and vocabulary are split
  // evenly (rounded up) and norms, router and KV projections of heads that
  // chips outnumber are replicated.
  //
  // Errors: InvalidArgument where the heads can not be split so.
  absl::StatusOr<ChipShare> Share(int32_t tensor_parallel) const;

  // The KV cache of one chip of such a group.
  //
  // Errors: as KvCacheShape::Create.
  absl::StatusOr<KvCacheShape> KvShape(int32_t tensor_parallel,
                                       KvDtype dtype) const;

 private:
  explicit ModelShape(Options options) : options_(std::move(options)) {}

  Options options_;
  int64_t total_params_ = 0;
  int64_t active_params_ = 0;
  int64_t weight_bytes_ = 0;
  int64_t matmul_flops_per_token_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_MODEL_SHAPE_H_
