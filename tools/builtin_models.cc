#include "tools/builtin_models.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "allocator/check.h"

namespace tidewheel {
namespace {

struct BuiltinModel {
  absl::string_view name;
  absl::string_view hugging_face_ids;  // lower case, separated by spaces
  int32_t layers;
  int32_t hidden;
  int32_t heads;
  int32_t kv_heads;
  int32_t ffn;  // of an expert in a mixture
  int32_t vocab;
  int32_t max_positions;
  bool tied;
  bool qk_norm;  // a norm of head_dim each for Q and K
  int32_t experts = 0;
  int32_t experts_per_token = 0;
};

// All have head_dim 128, gated feed-forward blocks, two norms a layer and no
// biases. Source: the config.json of each repository on Hugging Face.
constexpr int32_t kHeadDim = 128;
constexpr BuiltinModel kModels[] = {
    {"llama-3-8b", "meta-llama/meta-llama-3-8b", 32, 4096, 32, 8, 14336, 128256,
     8192, false, false},
    {"llama-3.1-8b", "meta-llama/llama-3.1-8b meta-llama/meta-llama-3.1-8b", 32,
     4096, 32, 8, 14336, 128256, 131072, false, false},
    {"llama-3.1-70b", "meta-llama/llama-3.1-70b meta-llama/meta-llama-3.1-70b",
     80, 8192, 64, 8, 28672, 128256, 131072, false, false},
    {"llama-3.3-70b", "meta-llama/llama-3.3-70b", 80, 8192, 64, 8, 28672,
     128256, 131072, false, false},
    {"llama-3.1-405b",
     "meta-llama/llama-3.1-405b meta-llama/meta-llama-3.1-405b", 126, 16384,
     128, 8, 53248, 128256, 131072, false, false},
    {"qwen3-0.6b", "qwen/qwen3-0.6b", 28, 1024, 16, 8, 3072, 151936, 40960,
     true, true},
    {"qwen3-8b", "qwen/qwen3-8b", 36, 4096, 32, 8, 12288, 151936, 40960, false,
     true},
    {"qwen3-32b", "qwen/qwen3-32b", 64, 5120, 64, 8, 25600, 151936, 40960,
     false, true},
    {"qwen3-30b-a3b", "qwen/qwen3-30b-a3b", 48, 2048, 32, 4, 768, 151936, 40960,
     false, true, 128, 8},
    {"mixtral-8x7b",
     "mistralai/mixtral-8x7b-v0.1 mistralai/mixtral-8x7b-instruct-v0.1", 32,
     4096, 32, 8, 14336, 32000, 32768, false, false, 8, 2}};

ModelShape Build(const BuiltinModel& model) {
  ModelShape::Options o;
  o.name = std::string(model.name);
  o.num_layers = model.layers;
  o.hidden_size = model.hidden;
  o.num_heads = model.heads;
  o.num_kv_heads = model.kv_heads;
  o.head_dim = kHeadDim;
  o.vocab_size = model.vocab;
  o.max_position_embeddings = model.max_positions;
  o.tied_embeddings = model.tied;
  if (model.experts == 0) {
    o.intermediate_size = model.ffn;
  } else {
    o.num_moe_layers = model.layers;
    o.num_experts = model.experts;
    o.experts_per_token = model.experts_per_token;
    o.moe_intermediate_size = model.ffn;
  }
  o.vectors_per_layer = 2LL * model.hidden + (model.qk_norm ? 2 * kHeadDim : 0);
  o.final_vectors = model.hidden;
  absl::StatusOr<ModelShape> shape = ModelShape::Create(std::move(o));
  TIDEWHEEL_CHECK(shape.ok());
  return *std::move(shape);
}

// Without what tells the tuned variants of one shape apart.
std::string Key(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return std::string(absl::StripSuffix(lower, "-instruct"));
}

bool Matches(const BuiltinModel& model, absl::string_view key) {
  if (model.name == key) return true;
  for (absl::string_view id : absl::StrSplit(model.hugging_face_ids, ' ')) {
    if (Key(id) == key) return true;
  }
  return false;
}

}  // namespace

std::optional<ModelShape> FindBuiltinModel(absl::string_view name) {
  const std::string key = Key(name);
  for (const BuiltinModel& model : kModels) {
    if (Matches(model, key)) return Build(model);
  }
  return std::nullopt;
}

std::vector<std::string> BuiltinModelNames() {
  std::vector<std::string> names;
  for (const BuiltinModel& model : kModels) {
    names.emplace_back(model.name);
  }
  return names;
}

}  // namespace tidewheel
