// KernelManifest: what a folder of ahead-of-time kernels says about itself.
//
// tools/export_tpu_kernel.py writes it (tools/tpu_export/README.md has every
// field). An artifact is one compiled-ahead program: the KV write, JAX's
// ragged paged attention, zeroed padding rows. Its arguments are q, k, v,
// kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs; its results out and
// kv_pages, which takes the place of the donated argument.
//
// This parses and checks text. It opens no file: that is KernelLibrary.
//
// Thread-safety: pure functions and values. Parsing allocates.

#ifndef TIDEWHEEL_ATTENTION_PJRT_KERNEL_MANIFEST_H_
#define TIDEWHEEL_ATTENTION_PJRT_KERNEL_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/attention_backend.h"
#include "attention/scalar_types.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

inline constexpr int32_t kKernelManifestVersion = 1;
// kv_pages, in the order of the arguments, and its place in the results.
inline constexpr int32_t kKernelDonatedArgument = 3;
inline constexpr int32_t kKernelDonatedResult = 1;

// What a kernel must match exactly. Sizes are of one chip.
struct KernelSettings {
  TpuGeneration generation = TpuGeneration::kV5e;
  ScalarType q_type = ScalarType::kBfloat16;  // of q and out
  // Of k and v. The pool's own type is stored bit for bit.
  ScalarType new_kv_type = ScalarType::kBfloat16;
  ScalarType kv_type = ScalarType::kBfloat16;  // of the pool
  int64_t num_q_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;         // of q, k, v and out
  int64_t pool_head_dim = 128;  // lanes past head_dim hold zeros
  int64_t page_size = 0;        // tokens
  int64_t total_num_pages = 0;
  // Compiled in, but for empty_rows, which is the caller's.
  AttentionOptions options;
};

// What a kernel must have at least.
struct KernelBucket {
  int64_t num_tokens = 0;  // rows of q, k, v and out
  int64_t max_num_seqs = 0;
  int64_t pages_per_seq = 0;

  bool Covers(const KernelBucket& need) const;
};

struct KernelArtifact {
  std::string file;  // relative to the manifest
  int64_t bytes = 0;
  std::string xxh3_128;  // of the file, 32 lower-case hexadecimal digits
  std::string stablehlo_version;
  int64_t mosaic_version = 0;
  KernelSettings settings;
  KernelBucket bucket;
  int64_t num_kv_pages_per_block = 0;
  int64_t num_queries_per_block = 0;
  // Absent: the generation's default.
  std::optional<int64_t> vmem_limit_bytes = std::nullopt;
};

struct KernelManifest {
  std::string jax_version;
  std::string jaxlib_version;
  std::vector<KernelArtifact> artifacts;
};

// One phrase for every setting of `has` that is not that of `needs`: "kv_dtype
// bfloat16 where int8 is needed". Empty if a kernel of one serves the other.
// Masks that hide a key for good (kHidingMaskValue) are the same.
std::vector<std::string> DifferentSettings(const KernelSettings& has,
                                           const KernelSettings& needs);

// Errors: InvalidArgument with the place ("artifacts[2].options.k_scale") for
// text that is no JSON, another format, a field that is missing, unknown or not
// what its name says, arguments or results that are not those of the sizes, a
// file outside of the folder, and two artifacts for the same;
// FailedPrecondition for a format version that is not kKernelManifestVersion.
absl::StatusOr<KernelManifest> ParseKernelManifest(absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_KERNEL_MANIFEST_H_
