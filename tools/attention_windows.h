// Layers whose attention sees a window only, and what counting them as full
// attention costs.
//
// Pages wholly before a window are not freed yet, so a layer with a window is
// counted as one without. That is safe and too much; this says by how much.

#ifndef TIDEWHEEL_TOOLS_ATTENTION_WINDOWS_H_
#define TIDEWHEEL_TOOLS_ATTENTION_WINDOWS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "attention/model_shape.h"
#include "tools/config_fields.h"
#include "tools/model_architecture.h"

namespace tidewheel {

struct AttentionWindows {
  int32_t num_layers = 0;     // with a window that can matter; 0: none
  int32_t window_tokens = 0;  // sliding window, or size of a chunk
  std::string key;            // of the configuration
};

// The windows that the configuration gives to layers of `model`. A window of
// at least max_position_embeddings is none.
//
// Errors: InvalidArgument where a key has a wrong type or range.
absl::StatusOr<AttentionWindows> ReadAttentionWindows(
    const ConfigFields& fields, const ModelArchitecture& architecture,
    const ModelShape::Options& model);

// A sentence for the user. REQUIRES: windows.num_layers > 0.
std::string DescribeOvercount(const AttentionWindows& windows,
                              const ModelShape::Options& model);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_ATTENTION_WINDOWS_H_
