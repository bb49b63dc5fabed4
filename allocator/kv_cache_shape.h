// KvCacheShape: what one token of KV costs on one chip, as a TPU stores it.
//
// It is the arithmetic of the cache's layout and nothing more: it knows no
// model (only the numbers below), no amount of memory, and it allocates no
// page. PlanCapacity turns it into a number of pages.
//
// The layout is the kernel's, per layer
//   [total_num_pages, page_size, combined / packing, packing, head_dim']
// where K and V heads are interleaved (combined = 2 * heads), `packing` of
// them share a 32-bit word, and both are padded: heads to the packing,
// head_dim to 128 lanes. A chip holds its share of the heads; a group of more
// chips than heads holds every head more than once.
//
// Head_dim 64 is counted padded to 128, which is what the kernel that keeps K
// and V apart needs. Kernels that put K and V of a head into one row of 128
// lanes need half of it.
//
// Thread-safety: an immutable value. Never allocates, except for errors.

#ifndef TIDEWHEEL_ALLOCATOR_KV_CACHE_SHAPE_H_
#define TIDEWHEEL_ALLOCATOR_KV_CACHE_SHAPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

enum class KvDtype { kF32, kBf16, kFp8E4m3, kFp8E5m2, kInt8 };

// Bytes of one element: 4, 2 or 1.
int32_t KvDtypeBytes(KvDtype dtype);

// Elements that share one 32-bit word: 1, 2 or 4.
int32_t KvPacking(KvDtype dtype);

// "f32", "bf16", "fp8_e4m3", "fp8_e5m2", "int8".
absl::string_view KvDtypeName(KvDtype dtype);

// The type of that name; "fp8" is fp8_e4m3.
//
// Errors: InvalidArgument that lists the names.
absl::StatusOr<KvDtype> ParseKvDtype(absl::string_view name);

class KvCacheShape {
 public:
  struct Options {
    int32_t num_layers = 0;  // those that have KV
    int32_t num_kv_heads = 0;
    int32_t head_dim = 0;
    KvDtype dtype = KvDtype::kBf16;
    // Chips that share one copy of the model.
    int32_t tensor_parallel = 1;
  };

  // Errors: InvalidArgument where a number is not positive, or where KV heads
  // and chips divide neither way; OutOfRange where a token's bytes exceed
  // int64_t.
  static absl::StatusOr<KvCacheShape> Create(const Options& options);

  const Options& options() const { return options_; }

  // KV heads that one chip stores: at least 1.
  int32_t kv_heads_per_chip() const { return kv_heads_per_chip_; }
  // Chips that store the same head: 1 unless there are more chips than heads.
  int32_t replication() const { return replication_; }
  // K and V heads of one chip with padding.
  int32_t stored_combined_heads() const { return stored_combined_heads_; }
  // head_dim with padding.
  int32_t stored_head_dim() const { return stored_head_dim_; }

  // Bytes of one token on one chip, all layers, as stored.
  int64_t bytes_per_token() const { return bytes_per_token_; }
  // The same without padding: the bytes that carry information.
  int64_t unpadded_bytes_per_token() const { return unpadded_bytes_per_token_; }

  // Bytes of one page of `page_size` tokens on one chip, all layers.
  //
  // Errors: InvalidArgument where page_size is not positive; OutOfRange where
  // the product exceeds int64_t.
  absl::StatusOr<int64_t> BytesPerPage(int32_t page_size) const;

 private:
  explicit KvCacheShape(const Options& options) : options_(options) {}

  Options options_;
  int32_t kv_heads_per_chip_ = 0;
  int32_t replication_ = 0;
  int32_t stored_combined_heads_ = 0;
  int32_t stored_head_dim_ = 0;
  int64_t bytes_per_token_ = 0;
  int64_t unpadded_bytes_per_token_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_KV_CACHE_SHAPE_H_
