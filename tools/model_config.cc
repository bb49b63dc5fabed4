#include "tools/model_config.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "tools/attention_windows.h"
#include "tools/builtin_models.h"
#include "tools/config_fields.h"
#include "tools/model_architecture.h"
#include "tools/model_refusals.h"
#include "tools/weight_dtypes.h"

namespace tidewheel {
namespace {

constexpr int32_t kMaxLayers = 1 << 16;
constexpr int32_t kMaxWidth = 1 << 24;
constexpr int32_t kMaxCount = 1 << 16;  // heads, experts

// The first of `keys` that the configuration has, or the first of all, so that
// an error names one.
absl::string_view Present(const ConfigFields& fields,
                          std::initializer_list<absl::string_view> keys) {
  for (absl::string_view key : keys) {
    if (fields.Has(key)) return key;
  }
  return *keys.begin();
}

absl::Status ReadHeads(const ConfigFields& fields, ModelShape::Options& o,
                       std::vector<std::string>& notes) {
  TIDEWHEEL_ASSIGN_OR_RETURN(o.num_heads,
                             fields.Int("num_attention_heads", 1, kMaxCount));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.num_kv_heads,
      fields.IntOr("num_key_value_heads", 1, kMaxCount, o.num_heads));
  if (!fields.Has("num_key_value_heads")) {
    notes.push_back(absl::StrCat("no num_key_value_heads: each of the ",
                                 o.num_heads,
                                 " query heads has a KV head of its own"));
  }
  if (o.num_heads % o.num_kv_heads != 0) {
    return fields.Error(
        "num_key_value_heads",
        absl::StrCat(o.num_kv_heads, " does not divide num_attention_heads ",
                     o.num_heads));
  }
  if (!fields.Has("head_dim") && o.hidden_size % o.num_heads != 0) {
    return fields.Error(
        "head_dim",
        absl::StrCat("is missing, and hidden_size ", o.hidden_size,
                     " is no multiple of num_attention_heads ", o.num_heads));
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.head_dim,
      fields.IntOr("head_dim", 1, kMaxCount, o.hidden_size / o.num_heads));
  return absl::OkStatus();
}

// Layers that are mixtures, for architectures with a step and exceptions.
absl::StatusOr<int32_t> CountSparseSteps(const ConfigFields& fields,
                                         int32_t num_layers) {
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const int32_t step,
      fields.IntOr("decoder_sparse_step", 1, kMaxLayers, 1));
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<int64_t> dense,
                             fields.Ints("mlp_only_layers"));
  int32_t count = 0;
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    const bool excepted =
        std::find(dense.begin(), dense.end(), layer) != dense.end();
    if (!excepted && (layer + 1) % step == 0) ++count;
  }
  return count;
}

absl::StatusOr<int32_t> CountMixtureLayers(
    const ConfigFields& fields, const ModelArchitecture& architecture,
    int32_t num_layers) {
  switch (architecture.mixture) {
    case MixtureLayers::kNone:
      return 0;
    case MixtureLayers::kAll:
      return num_layers;
    case MixtureLayers::kSparseStep:
      return CountSparseSteps(fields, num_layers);
    case MixtureLayers::kInterleave: {
      TIDEWHEEL_ASSIGN_OR_RETURN(
          const int32_t step,
          fields.IntOr("interleave_moe_layer_step", 1, kMaxLayers, 1));
      return num_layers / step;
    }
  }
  return absl::InternalError("no such kind of mixture");
}

absl::Status ReadFeedForward(const ConfigFields& fields,
                             const ModelArchitecture& architecture,
                             ModelShape::Options& o) {
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.num_moe_layers, CountMixtureLayers(fields, architecture, o.num_layers));
  if (o.num_moe_layers < o.num_layers) {
    const absl::string_view dense = architecture.shared_expert
                                        ? "intermediate_size_mlp"
                                        : "intermediate_size";
    TIDEWHEEL_ASSIGN_OR_RETURN(o.intermediate_size,
                               fields.Int(dense, 1, kMaxWidth));
  }
  if (o.num_moe_layers == 0) return absl::OkStatus();
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.num_experts,
      fields.Int(Present(fields, {"num_local_experts", "num_experts"}), 1,
                 kMaxCount));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.experts_per_token,
      fields.Int(Present(fields, {"num_experts_per_tok", "experts_per_token"}),
                 1, o.num_experts));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.moe_intermediate_size,
      fields.Int(
          Present(fields, {"moe_intermediate_size", "intermediate_size"}), 1,
          kMaxWidth));
  if (architecture.shared_expert) {
    o.shared_intermediate_size = o.moe_intermediate_size;
  }
  return absl::OkStatus();
}

// Norms, biases and sinks.
absl::Status ReadVectors(const ConfigFields& fields,
                         const ModelArchitecture& architecture,
                         ModelShape::Options& o) {
  const int64_t hidden = o.hidden_size;
  const int64_t q = int64_t{o.num_heads} * o.head_dim;
  const int64_t kv = int64_t{o.num_kv_heads} * o.head_dim;
  o.final_vectors = hidden;
  o.vectors_per_layer = architecture.norms_per_layer * hidden;
  if (architecture.qk_norm) o.vectors_per_layer += 2 * o.head_dim;
  if (architecture.attention_bias == AttentionBias::kQkv) {
    o.vectors_per_layer += q + 2 * kv;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool attention_bias,
                             fields.BoolOr("attention_bias", false));
  if (architecture.attention_bias == AttentionBias::kByFlag && attention_bias) {
    o.vectors_per_layer += q + 2 * kv + hidden;
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool mlp_bias,
                             fields.BoolOr("mlp_bias", false));
  if (mlp_bias) {
    if (o.num_moe_layers > 0) {
      return fields.Error("mlp_bias",
                          "true is not known in a mixture of experts; remove "
                          "it or set it to false");
    }
    o.vectors_per_layer += 2LL * o.intermediate_size + hidden;
  }
  if (architecture.expert_biases) {
    o.vectors_per_layer += o.num_heads;
    o.vectors_per_moe_layer = o.num_experts;
    o.vectors_per_expert = 2LL * o.moe_intermediate_size + hidden;
  }
  return absl::OkStatus();
}

absl::Status ReadEmbeddings(const ConfigFields& fields,
                            const ModelArchitecture& architecture,
                            ModelShape::Options& o,
                            std::vector<std::string>& notes) {
  TIDEWHEEL_ASSIGN_OR_RETURN(o.vocab_size,
                             fields.Int("vocab_size", 1, 1 << 28));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.max_position_embeddings,
      fields.Int("max_position_embeddings", 1, INT32_MAX));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      o.tied_embeddings,
      fields.BoolOr("tie_word_embeddings", architecture.tied_by_default));
  if (!fields.Has("tie_word_embeddings")) {
    notes.push_back(absl::StrCat(
        "no tie_word_embeddings: ", o.tied_embeddings ? "tied" : "not tied",
        ", the default of ", architecture.model_type));
  }
  return absl::OkStatus();
}

// Parts of a checkpoint beside the language model.
void NoteWhatIsLeftOut(const ConfigFields& fields,
                       std::vector<std::string>& notes) {
  for (absl::string_view key : {"vision_config", "audio_config"}) {
    if (!fields.TopLevelHas(key)) continue;
    notes.push_back(absl::StrCat(
        key,
        " is not counted: the weights of that encoder take memory that a "
        "plan gives to KV pages unless it is reserved"));
  }
  for (absl::string_view key :
       {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
    const absl::StatusOr<int32_t> layers = fields.IntOr(key, 0, kMaxLayers, 0);
    if (layers.ok() && *layers == 0) continue;
    notes.push_back(absl::StrCat(
        key, ": layers that predict further tokens are not counted"));
  }
}

absl::StatusOr<ModelConfig> ReadFile(const std::filesystem::path& path) {
  // A configuration is some kilobytes; this only bounds a wrong file.
  constexpr std::uintmax_t kMaxBytes = 64 << 20;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    return absl::NotFoundError(absl::StrCat(
        path.string(), ": can not be read; give a model's config.json"));
  }
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": ", size, " bytes exceed ", kMaxBytes,
                     "; give a model's config.json, not its weights"));
  }
  const std::string json{std::istreambuf_iterator<char>(file),
                         std::istreambuf_iterator<char>()};
  return ParseModelConfig(json, path.string());
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json,
                                             absl::string_view source) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const ConfigFields fields,
                             ConfigFields::Parse(json, source));
  TIDEWHEEL_RETURN_IF_ERROR(RefuseUncountableLayers(fields));
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string type,
                             fields.StringOr("model_type", ""));
  if (type.empty()) {
    return fields.Error("model_type",
                        "is missing; a model's config.json has "
                        "it");
  }
  const absl::StatusOr<ModelArchitecture> architecture =
      FindModelArchitecture(type);
  if (!architecture.ok()) {
    return absl::UnimplementedError(
        absl::StrCat(source, ": ", architecture.status().message()));
  }

  std::vector<std::string> notes;
  ModelShape::Options o;
  o.name = std::string(source);
  TIDEWHEEL_ASSIGN_OR_RETURN(o.num_layers,
                             fields.Int("num_hidden_layers", 1, kMaxLayers));
  TIDEWHEEL_ASSIGN_OR_RETURN(o.hidden_size,
                             fields.Int("hidden_size", 1, kMaxWidth));
  TIDEWHEEL_RETURN_IF_ERROR(ReadHeads(fields, o, notes));
  TIDEWHEEL_RETURN_IF_ERROR(ReadFeedForward(fields, *architecture, o));
  TIDEWHEEL_RETURN_IF_ERROR(ReadVectors(fields, *architecture, o));
  TIDEWHEEL_RETURN_IF_ERROR(ReadEmbeddings(fields, *architecture, o, notes));
  TIDEWHEEL_RETURN_IF_ERROR(ReadWeightDtypes(fields, o, notes));
  TIDEWHEEL_ASSIGN_OR_RETURN(const AttentionWindows windows,
                             ReadAttentionWindows(fields, *architecture, o));
  if (windows.num_layers > 0) notes.push_back(DescribeOvercount(windows, o));
  NoteWhatIsLeftOut(fields, notes);
  TIDEWHEEL_ASSIGN_OR_RETURN(ModelShape shape,
                             ModelShape::Create(std::move(o)));
  return ModelConfig{std::move(shape), std::move(notes)};
}

absl::StatusOr<ModelConfig> LoadModelConfig(absl::string_view name) {
  const std::filesystem::path path = std::string(name);
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return ReadFile(path);
  const std::filesystem::path inside = path / "config.json";
  if (!name.empty() && std::filesystem::is_regular_file(inside, error)) {
    return ReadFile(inside);
  }
  std::optional<ModelShape> shape = FindBuiltinModel(name);
  if (shape.has_value()) return ModelConfig{*std::move(shape), {}};
  return absl::NotFoundError(absl::StrCat(
      "model \"", name,
      "\" is neither a file, nor a folder with a config.json, nor a built-in "
      "model; give the path of a config.json or one of ",
      absl::StrJoin(BuiltinModelNames(), ", ")));
}

}  // namespace tidewheel
