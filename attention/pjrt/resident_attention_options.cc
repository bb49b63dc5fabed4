#include "attention/pjrt/resident_attention_options.h"

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

absl::Status CheckLayers(const ResidentAttentionOptions& options) {
  if (options.num_layers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_layers ", options.num_layers,
                     " is below 1; give the model's layers"));
  }
  const size_t given = options.attention.size();
  if (given != 1 && given != static_cast<size_t>(options.num_layers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are attention options for ", given, " of ", options.num_layers,
        " layers; give them for each layer, or one for all"));
  }
  for (const AttentionOptions& layer : options.attention) {
    if (layer.empty_rows == options.attention.front().empty_rows) continue;
    return absl::InvalidArgumentError(
        "some layers refuse empty rows and others skip them, but all run the "
        "same batch; give all the same empty_rows");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionProgramShape> ResidentShape(
    const ResidentAttentionOptions& options, absl::string_view platform) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckLayers(options));
  AttentionProgramShape shape;
  shape.q_type = options.q_type;
  shape.kv_type = options.kv_type;
  shape.new_kv_type = options.new_kv_type;
  shape.num_q_heads = options.num_q_heads;
  shape.num_kv_heads = options.num_kv_heads;
  shape.head_dim = options.head_dim;
  shape.pool_head_dim = shape.head_dim;
  shape.pool_kv_heads = shape.num_kv_heads;
  if (platform == "tpu") shape = WithTpuPool(shape);
  if (options.pool_head_dim.has_value()) {
    shape.pool_head_dim = *options.pool_head_dim;
    shape.pool_head_rows = 1;
  }
  if (options.pool_kv_heads.has_value()) {
    shape.pool_kv_heads = *options.pool_kv_heads;
  }
  shape.page_size = options.page_size;
  shape.total_num_pages = options.total_num_pages;
  shape.max_num_seqs = options.max_num_seqs;
  shape.pages_per_seq = options.pages_per_seq;
  shape.pool_as_bits = platform == "cpu";
  for (const AttentionOptions& layer : options.attention) {
    shape.options = layer;
    AttentionProgramShape smallest = shape;
    smallest.num_tokens = 1;
    TIDEWHEEL_RETURN_IF_ERROR(CheckAttentionShape(smallest));
  }
  shape.options = options.attention.front();
  return shape;
}

}  // namespace tidewheel
