// ModelArchitecture: what a model_type implies that its config.json does not
// say.
//
// Which vectors its layers have, which layers are mixtures, which have a
// window, and what an absent key means. The table holds only architectures
// whose parameter count was compared with a published one; any other is
// refused, because a count that is nearly right would be trusted.
//
// Thread-safety: constants.

#ifndef TIDEWHEEL_TOOLS_MODEL_ARCHITECTURE_H_
#define TIDEWHEEL_TOOLS_MODEL_ARCHITECTURE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

enum class AttentionBias {
  kNone,
  kQkv,     // always on Q, K and V
  kByFlag,  // on Q, K, V and output if attention_bias is true
};

enum class MixtureLayers {
  kNone,
  kAll,
  kSparseStep,  // decoder_sparse_step and mlp_only_layers
  kInterleave,  // interleave_moe_layer_step
};

// Layers with a window, where layer_types does not list them.
enum class WindowLayers {
  kAll,        // every layer, if sliding_window is set
  kByFlag,     // from max_window_layers on, if use_sliding_window is true
  kAlternate,  // every other layer
  kChunked,    // attention_chunk_size, all but every fourth layer
};

struct ModelArchitecture {
  absl::string_view model_type;
  int32_t norms_per_layer = 2;  // of hidden_size
  bool qk_norm = false;         // of head_dim, for Q and for K
  AttentionBias attention_bias = AttentionBias::kByFlag;
  MixtureLayers mixture = MixtureLayers::kNone;
  WindowLayers windows = WindowLayers::kAll;
  bool tied_by_default = false;
  // A shared expert beside the routed ones, as wide as one of them; dense
  // layers take their width from intermediate_size_mlp.
  bool shared_expert = false;
  // Biases on router and experts, and a sink for each query head.
  bool expert_biases = false;
};

// Errors: InvalidArgument that lists the known types.
absl::StatusOr<ModelArchitecture> FindModelArchitecture(
    absl::string_view model_type);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_MODEL_ARCHITECTURE_H_
