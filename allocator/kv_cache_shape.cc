#include "allocator/kv_cache_shape.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/checked_int64.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

// A vector register of a TPU is 128 lanes wide and a DMA moves whole rows.
constexpr int32_t kLanes = 128;

// Heads and head_dim are at most this, so that padding and doubling them stay
// in int32_t. Real models have at most a few hundred.
constexpr int32_t kMaxHeadsOrDim = 1 << 20;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

absl::Status CheckRange(absl::string_view name, int32_t value, int32_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("KV cache: ", name, " ", value,
                                                 " is outside [1, ", max,
                                                 "]; give the model's ", name));
}

}  // namespace

int32_t KvDtypeBytes(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return 4;
    case KvDtype::kBf16:
      return 2;
    case KvDtype::kFp8E4m3:
    case KvDtype::kFp8E5m2:
    case KvDtype::kInt8:
      return 1;
  }
  TIDEWHEEL_CHECK(false);
}

int32_t KvPacking(KvDtype dtype) { return 4 / KvDtypeBytes(dtype); }

absl::string_view KvDtypeName(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return "f32";
    case KvDtype::kBf16:
      return "bf16";
    case KvDtype::kFp8E4m3:
      return "fp8_e4m3";
    case KvDtype::kFp8E5m2:
      return "fp8_e5m2";
    case KvDtype::kInt8:
      return "int8";
  }
  TIDEWHEEL_CHECK(false);
}

absl::StatusOr<KvDtype> ParseKvDtype(absl::string_view name) {
  for (KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16, KvDtype::kFp8E4m3,
                        KvDtype::kFp8E5m2, KvDtype::kInt8}) {
    if (name == KvDtypeName(dtype)) return dtype;
  }
  if (name == "fp8") return KvDtype::kFp8E4m3;
  return absl::InvalidArgumentError(
      absl::StrCat("KV dtype \"", name,
                   "\" is not known; give f32, bf16, fp8_e4m3, fp8_e5m2 or "
                   "int8"));
}

absl::StatusOr<KvCacheShape> KvCacheShape::Create(const Options& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckRange("num_layers", options.num_layers,
                                       std::numeric_limits<int32_t>::max()));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("num_kv_heads", options.num_kv_heads, kMaxHeadsOrDim));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("head_dim", options.head_dim, kMaxHeadsOrDim));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("tensor_parallel", options.tensor_parallel, kMaxHeadsOrDim));

  const int32_t heads = options.num_kv_heads;
  const int32_t chips = options.tensor_parallel;
  const bool replicated = heads < chips;
  if (replicated ? chips % heads != 0 : heads % chips != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "KV cache: num_kv_heads ", heads, " and tensor_parallel ", chips,
        " divide neither way, so the heads can be neither split nor "
        "replicated evenly; choose a tensor_parallel that divides ",
        heads, " or is a multiple of it"));
  }

  KvCacheShape shape(options);
  shape.kv_heads_per_chip_ = replicated ? 1 : heads / chips;
  shape.replication_ = replicated ? chips / heads : 1;
  shape.stored_combined_heads_ = static_cast<int32_t>(
      RoundUp(2LL * shape.kv_heads_per_chip_, KvPacking(options.dtype)));
  shape.stored_head_dim_ =
      static_cast<int32_t>(RoundUp(options.head_dim, kLanes));

  const CheckedInt64 layer_elements =
      CheckedInt64(options.num_layers) * KvDtypeBytes(options.dtype);
  const CheckedInt64 stored =
      layer_elements * shape.stored_combined_heads_ * shape.stored_head_dim_;
  if (stored.overflowed()) {
    return absl::OutOfRangeError(absl::StrCat(
        "KV cache: the bytes of one token (", options.num_layers, " layers x ",
        shape.stored_combined_heads_, " combined heads x ",
        shape.stored_head_dim_, " x ", KvDtypeBytes(options.dtype),
        " B) exceed 2^63; check the model's numbers"));
  }
  shape.bytes_per_token_ = stored.value();
  shape.unpadded_bytes_per_token_ =
      (layer_elements * 2 * shape.kv_heads_per_chip_ * options.head_dim)
          .value();
  return shape;
}

absl::StatusOr<int64_t> KvCacheShape::BytesPerPage(int32_t page_size) const {
  if (page_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size ", page_size,
                     " is not positive; a page holds at least 1 token"));
  }
  const CheckedInt64 bytes = CheckedInt64(bytes_per_token_) * page_size;
  if (bytes.overflowed()) {
    return absl::OutOfRangeError(
        absl::StrCat("a page of ", page_size, " tokens x ", bytes_per_token_,
                     " B exceeds 2^63 bytes; choose a smaller page_size"));
  }
  return bytes.value();
}

}  // namespace tidewheel
