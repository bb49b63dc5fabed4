#include "tools/attention_windows.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

constexpr int32_t kAny = std::numeric_limits<int32_t>::max();

// Layers that layer_types lists with a window, or -1 where it is absent.
absl::StatusOr<int32_t> CountListed(const ConfigFields& fields,
                                    int32_t num_layers) {
  if (!fields.Has("layer_types")) return -1;
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                             fields.Strings("layer_types"));
  if (types.size() != static_cast<size_t>(num_layers)) {
    return fields.Error("layer_types",
                        absl::StrFormat("lists %d layers, num_hidden_layers is "
                                        "%d; they must be equal",
                                        types.size(), num_layers));
  }
  const auto windowed = std::count_if(
      types.begin(), types.end(),
      [](const std::string& type) { return type != "full_attention"; });
  return static_cast<int32_t>(windowed);
}

// Layers with chunked attention: no_rope_layers has 0 for a full one, and
// where it is absent every fourth layer is full.
absl::StatusOr<int32_t> CountChunked(const ConfigFields& fields,
                                     int32_t num_layers) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::vector<int64_t> rope,
                             fields.Ints("no_rope_layers"));
  if (!rope.empty()) {
    if (rope.size() != static_cast<size_t>(num_layers)) {
      return fields.Error(
          "no_rope_layers",
          absl::StrFormat("lists %d layers, num_hidden_layers is %d; they must "
                          "be equal",
                          rope.size(), num_layers));
    }
    const auto full = std::count(rope.begin(), rope.end(), 0);
    return num_layers - static_cast<int32_t>(full);
  }
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const int32_t interval,
      fields.IntOr("no_rope_layer_interval", 1, kAny, 4));
  return num_layers - num_layers / interval;
}

// Layers with a window by the architecture's rule.
absl::StatusOr<int32_t> CountByRule(const ConfigFields& fields,
                                    WindowLayers rule, int32_t num_layers) {
  switch (rule) {
    case WindowLayers::kAll:
      return num_layers;
    case WindowLayers::kAlternate:
      return (num_layers + 1) / 2;
    case WindowLayers::kChunked:
      return CountChunked(fields, num_layers);
    case WindowLayers::kByFlag: {
      TIDEWHEEL_ASSIGN_OR_RETURN(
          const int32_t first,
          fields.IntOr("max_window_layers", 0, kAny, num_layers));
      return std::max(0, num_layers - first);
    }
  }
  TIDEWHEEL_CHECK(false);
}

}  // namespace

absl::StatusOr<AttentionWindows> ReadAttentionWindows(
    const ConfigFields& fields, const ModelArchitecture& architecture,
    const ModelShape::Options& model) {
  AttentionWindows none;
  AttentionWindows windows;
  windows.key = architecture.windows == WindowLayers::kChunked
                    ? "attention_chunk_size"
                    : "sliding_window";
  if (architecture.windows == WindowLayers::kByFlag) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const bool used,
                               fields.BoolOr("use_sliding_window", false));
    if (!used) return none;
  }
  if (!fields.Has(windows.key)) return none;
  TIDEWHEEL_ASSIGN_OR_RETURN(windows.window_tokens,
                             fields.Int(windows.key, 1, kAny));
  TIDEWHEEL_ASSIGN_OR_RETURN(windows.num_layers,
                             CountListed(fields, model.num_layers));
  if (windows.num_layers < 0) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        windows.num_layers,
        CountByRule(fields, architecture.windows, model.num_layers));
  }
  if (windows.num_layers == 0 ||
      windows.window_tokens >= model.max_position_embeddings) {
    return none;
  }
  return windows;
}

std::string DescribeOvercount(const AttentionWindows& windows,
                              const ModelShape::Options& model) {
  TIDEWHEEL_CHECK_GT(windows.num_layers, 0);
  const double length = model.max_position_embeddings;
  const double counted = length * model.num_layers;
  const double needed =
      length * (model.num_layers - windows.num_layers) +
      static_cast<double>(windows.window_tokens) * windows.num_layers;
  return absl::StrFormat(
      "%s %d in %d of %d layers is counted as full attention, because pages "
      "before a window are not freed yet: KV is over-counted past %d tokens, "
      "%.2f times at %d tokens",
      windows.key, windows.window_tokens, windows.num_layers, model.num_layers,
      windows.window_tokens, counted / needed, model.max_position_embeddings);
}

}  // namespace tidewheel
