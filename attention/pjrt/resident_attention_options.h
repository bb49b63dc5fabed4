// What a ResidentAttention is made for. Sizes are of one device.
//
// Thread-safety: values and pure functions.

#ifndef TIDEWHEEL_ATTENTION_PJRT_RESIDENT_ATTENTION_OPTIONS_H_
#define TIDEWHEEL_ATTENTION_PJRT_RESIDENT_ATTENTION_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "attention/attention_backend.h"
#include "attention/padding_buckets.h"
#include "attention/pjrt/program_cache.h"
#include "attention/scalar_types.h"
#include "attention/stablehlo/attention_program_shape.h"

namespace tidewheel {

struct ResidentAttentionOptions {
  int32_t num_layers = 0;
  int32_t num_q_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  // Width of a head in the pool, and KV heads in it. Absent: WithTpuPool on
  // TPUs, which would otherwise copy the pool in each launch; head_dim and
  // num_kv_heads elsewhere.
  std::optional<int32_t> pool_head_dim = std::nullopt;
  std::optional<int32_t> pool_kv_heads = std::nullopt;
  ScalarType q_type = ScalarType::kBfloat16;       // and of the output
  ScalarType new_kv_type = ScalarType::kBfloat16;  // of a step's k and v
  ScalarType kv_type = ScalarType::kBfloat16;      // of the pool

  // The scheduler's.
  int32_t page_size = 0;  // tokens
  int32_t total_num_pages = 0;
  int32_t max_num_seqs = 0;
  int32_t pages_per_seq = 0;
  TokenBucketOptions tokens;

  // Of each layer, or one for all.
  std::vector<AttentionOptions> attention = {AttentionOptions()};

  // PjrtDevice::id; absent: the client's first device.
  std::optional<int> device_id = std::nullopt;
  // Where compiled programs are kept; empty: nowhere. See ProgramCache.
  std::string cache_folder = {};
  // What tools/export_tpu_kernel.py wrote; empty: programs are emitted.
  std::string kernel_folder = {};
  // Told what falls back and what is not kept.
  PjrtNote note = nullptr;
};

// What the platform ("cpu", "tpu") makes of it: an attention program's shape
// without form and tokens, with the options of layer 0.
//
// Errors: InvalidArgument with value, limit and remedy: num_layers, a number of
// AttentionOptions that is neither 1 nor num_layers, or layers that differ in
// empty_rows; those of CheckAttentionShape.
absl::StatusOr<AttentionProgramShape> ResidentShape(
    const ResidentAttentionOptions& options, absl::string_view platform);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_RESIDENT_ATTENTION_OPTIONS_H_
