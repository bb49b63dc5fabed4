#include "attention/model_shape.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/checked_int64.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

// Far above any model (10^15 parameters), and low enough that bytes, FLOPs and
// their conversion to double stay exact.
constexpr int64_t kMaxParams = int64_t{1} << 50;

// `bytes` for every `elements` of a matrix.
struct StorageBlock {
  int64_t elements;
  int64_t bytes;
};

StorageBlock BlockOf(WeightDtype dtype) {
  switch (dtype) {
    case WeightDtype::kF32:
      return {1, 4};
    case WeightDtype::kBf16:
      return {1, 2};
    case WeightDtype::kFp8:
      return {128 * 128, 128 * 128 + 4};
    case WeightDtype::kInt8:
      return {1, 1};
    case WeightDtype::kMxfp4:
      return {32, 17};
  }
  TIDEWHEEL_CHECK(false);
}

// Quotient and remainder apart: params x block bytes may exceed int64_t.
int64_t Bytes(int64_t params, WeightDtype dtype) {
  const StorageBlock block = BlockOf(dtype);
  const int64_t whole = params / block.elements;
  const int64_t rest = params % block.elements;
  return whole * block.bytes +
         (rest * block.bytes + block.elements - 1) / block.elements;
}

// Vectors are not quantised: they keep the type of the model, at most 16 bits.
int64_t VectorBytes(int64_t params, WeightDtype dtype) {
  return params * (dtype == WeightDtype::kF32 ? 4 : 2);
}

int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// Parameters of a chip's matrices; with one chip, of the model's.
struct Matrices {
  int64_t embedding = 0;
  int64_t lm_head = 0;     // what the logits multiply by, tied or not
  int64_t attention = 0;   // one layer
  int64_t dense_ffn = 0;   // one dense layer
  int64_t shared_ffn = 0;  // one mixture layer
  int64_t router = 0;      // one mixture layer
  int64_t expert = 0;      // one expert of one layer
};

// REQUIRES: options in range and num_heads divisible by chips.
Matrices Split(const ModelShape::Options& o, int64_t chips) {
  const int64_t hidden = o.hidden_size;
  const int64_t q_heads = o.num_heads / chips;
  const int64_t kv_heads = CeilDiv(o.num_kv_heads, chips);
  Matrices m;
  m.embedding = CeilDiv(o.vocab_size, chips) * hidden;
  m.lm_head = m.embedding;
  // Q and the output projection, K and V.
  m.attention = hidden * o.head_dim * 2 * (q_heads + kv_heads);
  // Gate, up and down.
  m.dense_ffn = 3 * hidden * CeilDiv(o.intermediate_size, chips);
  m.shared_ffn = 3 * hidden * CeilDiv(o.shared_intermediate_size, chips);
  m.router = hidden * o.num_experts;
  m.expert = 3 * hidden * CeilDiv(o.moe_intermediate_size, chips);
  return m;
}

int64_t DenseLayers(const ModelShape::Options& o) {
  return o.num_layers - o.num_moe_layers;
}

// Everything that is no matrix, experts' vectors apart.
int64_t Vectors(const ModelShape::Options& o) {
  return o.vectors_per_layer * o.num_layers +
         o.vectors_per_moe_layer * o.num_moe_layers + o.final_vectors;
}

struct NamedRange {
  absl::string_view name;
  int64_t value;
  int64_t min;
  int64_t max;
};

absl::Status CheckRanges(const ModelShape::Options& o) {
  const bool moe = o.num_moe_layers > 0;
  constexpr int64_t kWidth = 1 << 24;
  const NamedRange ranges[] = {
      {"num_layers", o.num_layers, 1, 1 << 16},
      {"hidden_size", o.hidden_size, 1, kWidth},
      {"num_heads", o.num_heads, 1, 1 << 16},
      {"num_kv_heads", o.num_kv_heads, 1, o.num_heads},
      {"head_dim", o.head_dim, 1, 1 << 16},
      {"vocab_size", o.vocab_size, 1, 1 << 28},
      {"max_position_embeddings", o.max_position_embeddings, 1, INT32_MAX},
      {"num_moe_layers", o.num_moe_layers, 0, o.num_layers},
      {"intermediate_size", o.intermediate_size,
       o.num_moe_layers == o.num_layers ? 0 : 1, kWidth},
      {"num_experts", o.num_experts, moe ? 1 : 0, moe ? 1 << 16 : 0},
      {"experts_per_token", o.experts_per_token, moe ? 1 : 0, o.num_experts},
      {"moe_intermediate_size", o.moe_intermediate_size, moe ? 1 : 0,
       moe ? kWidth : 0},
      {"shared_intermediate_size", o.shared_intermediate_size, 0,
       moe ? kWidth : 0},
      {"vectors_per_layer", o.vectors_per_layer, 0, int64_t{1} << 32},
      {"vectors_per_moe_layer", o.vectors_per_moe_layer, 0, int64_t{1} << 32},
      {"vectors_per_expert", o.vectors_per_expert, 0, int64_t{1} << 32},
      {"final_vectors", o.final_vectors, 0, int64_t{1} << 32}};
  for (const NamedRange& r : ranges) {
    if (r.value >= r.min && r.value <= r.max) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", o.name, ": ", r.name, " ", r.value, " is outside [", r.min,
        ", ", r.max, "]; give the number of the model's configuration"));
  }
  if (o.num_heads % o.num_kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", o.name, ": num_heads ", o.num_heads,
                     " is no multiple of num_kv_heads ", o.num_kv_heads,
                     "; query heads share KV heads in equal groups"));
  }
  return absl::OkStatus();
}

// All parameters, with every product checked. The factors of one matrix are
// below 2^16 x 2^17 x 2^24, so Split itself can not overflow.
CheckedInt64 CountParams(const ModelShape::Options& o, const Matrices& m) {
  const CheckedInt64 experts = (CheckedInt64(m.expert) + o.vectors_per_expert) *
                               o.num_experts * o.num_moe_layers;
  const CheckedInt64 mixture =
      (CheckedInt64(m.shared_ffn) + m.router) * o.num_moe_layers;
  return CheckedInt64(m.attention) * o.num_layers +
         CheckedInt64(m.dense_ffn) * DenseLayers(o) + mixture + experts +
         m.embedding + (o.tied_embeddings ? 0 : m.lm_head) + Vectors(o);
}

}  // namespace

absl::string_view WeightDtypeName(WeightDtype dtype) {
  switch (dtype) {
    case WeightDtype::kF32:
      return "f32";
    case WeightDtype::kBf16:
      return "bf16";
    case WeightDtype::kFp8:
      return "fp8";
    case WeightDtype::kInt8:
      return "int8";
    case WeightDtype::kMxfp4:
      return "mxfp4";
  }
  TIDEWHEEL_CHECK(false);
}

absl::StatusOr<ModelShape> ModelShape::Create(Options options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckRanges(options));
  ModelShape shape(std::move(options));
  const Options& o = shape.options_;
  const Matrices m = Split(o, 1);
  const CheckedInt64 total = CountParams(o, m);
  if (total.overflowed() || total.value() > kMaxParams) {
    return absl::OutOfRangeError(absl::StrCat(
        "model ", o.name, ": more than ", kMaxParams,
        " parameters (num_layers ", o.num_layers, ", hidden_size ",
        o.hidden_size, ", intermediate_size ", o.intermediate_size,
        ", num_experts ", o.num_experts, ", moe_intermediate_size ",
        o.moe_intermediate_size, ", vocab_size ", o.vocab_size,
        "); check the configuration"));
  }
  shape.total_params_ = total.value();
  shape.active_params_ =
      shape.total_params_ - (m.expert + o.vectors_per_expert) *
                                (o.num_experts - o.experts_per_token) *
                                o.num_moe_layers;
  TIDEWHEEL_ASSIGN_OR_RETURN(const ChipShare share, shape.Share(1));
  shape.weight_bytes_ = share.weight_bytes;
  shape.matmul_flops_per_token_ =
      share.attention_flops_per_token + share.ffn_flops_per_token;
  return shape;
}

absl::StatusOr<ModelShape::ChipShare> ModelShape::Share(
    int32_t tensor_parallel) const {
  const Options& o = options_;
  if (tensor_parallel < 1 || o.num_heads % tensor_parallel != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", o.name, ": num_heads ", o.num_heads,
                     " can not be split over tensor_parallel ", tensor_parallel,
                     "; choose a number of chips that divides it"));
  }
  // Refuses KV heads that can be neither split nor replicated.
  TIDEWHEEL_RETURN_IF_ERROR(KvShape(tensor_parallel, KvDtype::kBf16).status());
  const Matrices m = Split(o, tensor_parallel);
  const int64_t dense = DenseLayers(o);
  const int64_t moe = o.num_moe_layers;

  ChipShare share;
  const int64_t expert_vectors = o.vectors_per_expert * moe;
  share.expert_bytes =
      Bytes(m.expert * moe, o.ffn_dtype) + VectorBytes(expert_vectors, o.dtype);
  share.lm_head_bytes = Bytes(m.lm_head, o.dtype);
  share.streamed_bytes =
      Bytes(m.attention * o.num_layers, o.attention_dtype) +
      Bytes(m.dense_ffn * dense + m.shared_ffn * moe, o.ffn_dtype) +
      Bytes(m.router * moe, o.dtype) + VectorBytes(Vectors(o), o.dtype);
  share.weight_bytes = share.streamed_bytes + Bytes(m.embedding, o.dtype) +
                       (o.tied_embeddings ? 0 : share.lm_head_bytes) +
                       share.expert_bytes * o.num_experts;
  share.attention_flops_per_token = 2 * m.attention * o.num_layers;
  share.ffn_flops_per_token =
      2 * (m.dense_ffn * dense +
           (m.shared_ffn + m.router + m.expert * o.experts_per_token) * moe);
  share.logits_flops_per_row = 2 * m.lm_head;
  return share;
}

absl::StatusOr<KvCacheShape> ModelShape::KvShape(int32_t tensor_parallel,
                                                 KvDtype dtype) const {
  return KvCacheShape::Create({.num_layers = options_.num_layers,
                               .num_kv_heads = options_.num_kv_heads,
                               .head_dim = options_.head_dim,
                               .dtype = dtype,
                               .tensor_parallel = tensor_parallel});
}

}  // namespace tidewheel
