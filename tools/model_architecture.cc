#include "tools/model_architecture.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidewheel {
namespace {

// Source: the modules of Hugging Face's transformers 4.5x, one by one.
constexpr ModelArchitecture kArchitectures[] = {
    {.model_type = "llama"},
    {.model_type = "mistral", .attention_bias = AttentionBias::kNone},
    {.model_type = "mixtral",
     .attention_bias = AttentionBias::kNone,
     .mixture = MixtureLayers::kAll},
    {.model_type = "phi3", .attention_bias = AttentionBias::kNone},
    {.model_type = "qwen2",
     .attention_bias = AttentionBias::kQkv,
     .windows = WindowLayers::kByFlag},
    {.model_type = "qwen3", .qk_norm = true, .windows = WindowLayers::kByFlag},
    {.model_type = "qwen3_moe",
     .qk_norm = true,
     .mixture = MixtureLayers::kSparseStep,
     .windows = WindowLayers::kByFlag},
    {.model_type = "qwen3_vl_text",
     .qk_norm = true,
     .windows = WindowLayers::kByFlag},
    {.model_type = "gemma2",
     .norms_per_layer = 4,
     .windows = WindowLayers::kAlternate,
     .tied_by_default = true},
    // Its norm of Q and K (use_qk_norm) has no parameters.
    {.model_type = "llama4_text",
     .mixture = MixtureLayers::kInterleave,
     .windows = WindowLayers::kChunked,
     .shared_expert = true},
    {.model_type = "gpt_oss",
     .mixture = MixtureLayers::kAll,
     .windows = WindowLayers::kAlternate,
     .expert_biases = true}};

}  // namespace

absl::StatusOr<ModelArchitecture> FindModelArchitecture(
    absl::string_view model_type) {
  std::vector<absl::string_view> known;
  for (const ModelArchitecture& architecture : kArchitectures) {
    if (architecture.model_type == model_type) return architecture;
    known.push_back(architecture.model_type);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model_type \"", model_type,
      "\" is not one whose parameters can be counted exactly; supported are ",
      absl::StrJoin(known, ", ")));
}

}  // namespace tidewheel
