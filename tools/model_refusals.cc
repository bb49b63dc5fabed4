#include "tools/model_refusals.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

constexpr int32_t kAny = std::numeric_limits<int32_t>::max();

absl::Status Refuse(const ConfigFields& fields, absl::string_view key,
                    absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(fields.source(), ": ", key, " ", what,
                   "; tidewheel does not support that yet, so its KV cache "
                   "and parameters would be counted wrongly"));
}

absl::Status RefuseLatentAttention(const ConfigFields& fields) {
  if (!fields.Has("kv_lora_rank")) return absl::OkStatus();
  TIDEWHEEL_ASSIGN_OR_RETURN(const int32_t rank,
                             fields.Int("kv_lora_rank", 0, kAny));
  return Refuse(fields, "kv_lora_rank",
                absl::StrCat(rank,
                             " means latent attention (MLA): one compressed "
                             "vector a token instead of KV heads"));
}

// Layers that keep a state, or nothing, instead of KV.
absl::Status RefuseLayersWithoutKv(const ConfigFields& fields) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                             fields.Strings("layer_types"));
  std::string other;
  int64_t others = 0;
  for (const std::string& type : types) {
    if (type == "full_attention" || type == "sliding_attention" ||
        type == "chunked_attention") {
      continue;
    }
    other = type;
    ++others;
  }
  if (others > 0) {
    return Refuse(fields, "layer_types",
                  absl::StrCat("has ", others, " of ", types.size(),
                               " layers that are not attention with KV, such "
                               "as \"",
                               other, "\""));
  }
  if (fields.Has("hybrid_override_pattern")) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const std::string pattern,
                               fields.StringOr("hybrid_override_pattern", ""));
    const auto mamba = std::count(pattern.begin(), pattern.end(), 'M');
    return Refuse(fields, "hybrid_override_pattern",
                  absl::StrCat("\"", pattern, "\" has ", mamba,
                               " Mamba layers, which have no KV cache, and "
                               "layers without attention"));
  }
  for (absl::string_view key :
       {"layers_block_type", "attn_layer_period", "attn_layer_indices",
        "mamba_num_heads", "ssm_state_size", "linear_num_value_heads",
        "full_attention_interval"}) {
    if (fields.Has(key)) {
      return Refuse(fields, key,
                    "means that some layers keep a state instead of KV");
    }
  }
  return absl::OkStatus();
}

absl::Status RefuseBlockConfigs(const ConfigFields& fields) {
  const auto blocks = fields.Find("block_configs");
  if (!blocks.has_value()) return absl::OkStatus();
  simdjson::dom::array items;
  if (blocks->get(items) != simdjson::SUCCESS) {
    return fields.Error("block_configs", "must be a list of layers");
  }
  int64_t without = 0;
  for (const simdjson::dom::element item : items) {
    bool no_op = false;
    if (item["attention"]["no_op"].get(no_op) == simdjson::SUCCESS && no_op) {
      ++without;
    }
  }
  return Refuse(
      fields, "block_configs",
      absl::StrCat("gives each layer a shape of its own; ", without, " of ",
                   items.size(), " layers have no attention (no_op)"));
}

// Layers that have KV but not all of one shape.
absl::Status RefuseLayersThatDiffer(const ConfigFields& fields) {
  TIDEWHEEL_RETURN_IF_ERROR(RefuseBlockConfigs(fields));
  for (absl::string_view key :
       {"global_head_dim", "num_global_key_value_heads",
        "swa_num_key_value_heads", "swa_head_dim", "hybrid_layer_pattern",
        "num_key_value_heads_per_layer"}) {
    if (fields.Has(key)) {
      return Refuse(fields, key,
                    "means that layers with a window and layers without "
                    "differ in heads or head_dim");
    }
  }
  if (fields.Has("v_head_dim")) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const int32_t v_head_dim,
                               fields.Int("v_head_dim", 1, kAny));
    TIDEWHEEL_ASSIGN_OR_RETURN(const int32_t head_dim,
                               fields.IntOr("head_dim", 1, kAny, 0));
    if (v_head_dim != head_dim) {
      return Refuse(fields, "v_head_dim",
                    absl::StrCat(v_head_dim, " beside head_dim ", head_dim,
                                 " sizes V apart from K"));
    }
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const int32_t shared,
                             fields.IntOr("num_kv_shared_layers", 0, kAny, 0));
  if (shared > 0) {
    return Refuse(
        fields, "num_kv_shared_layers",
        absl::StrCat(shared, " means layers that use another layer's KV"));
  }
  return absl::OkStatus();
}

absl::Status RefuseOtherDecoders(const ConfigFields& fields) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool encoder,
                             fields.BoolOr("is_encoder_decoder", false));
  if (encoder) {
    return Refuse(fields, "is_encoder_decoder",
                  "true means a KV cache of the encoder beside the decoder's");
  }
  if (fields.Has("cross_attention_layers")) {
    return Refuse(fields, "cross_attention_layers",
                  "means layers that attend to an image's KV");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RefuseUncountableLayers(const ConfigFields& fields) {
  TIDEWHEEL_RETURN_IF_ERROR(RefuseLatentAttention(fields));
  TIDEWHEEL_RETURN_IF_ERROR(RefuseLayersWithoutKv(fields));
  TIDEWHEEL_RETURN_IF_ERROR(RefuseLayersThatDiffer(fields));
  return RefuseOtherDecoders(fields);
}

}  // namespace tidewheel
