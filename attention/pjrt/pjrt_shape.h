// PjrtShape: element type and dimensions of a dense, row-major array, as an
// argument, an output or a buffer has them.
//
// It is not a layout: how a device stores the array (tiles, padding) is the
// plugin's business, and PjrtBuffer::OnDeviceSizeInBytes says what it costs.
//
// A small value without heap memory, so that a launch can make output buffers
// without allocating. Therefore the rank is at most kMaxRank.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_SHAPE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_SHAPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_element_type.h"

namespace tidewheel {

class PjrtShape {
 public:
  static constexpr size_t kMaxRank = 8;

  // No shape: kInvalid, rank 0. Equal to no shape of a buffer.
  PjrtShape() = default;
  // For dimensions that the program chose.
  //
  // REQUIRES: Create would take them.
  PjrtShape(PjrtElementType type, std::initializer_list<int64_t> dims);

  // Errors: InvalidArgument for an unknown element type, more than kMaxRank
  // dimensions, a negative one, or a size in bytes that exceeds int64.
  static absl::StatusOr<PjrtShape> Create(PjrtElementType type,
                                          std::span<const int64_t> dims);

  PjrtElementType element_type() const { return type_; }
  std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  size_t rank() const { return rank_; }
  int64_t num_elements() const { return num_elements_; }
  int64_t num_bytes() const { return num_bytes_; }

  // "tensor<8x4xf32>", as in StableHLO.
  std::string ToString() const;

  friend bool operator==(const PjrtShape&, const PjrtShape&) = default;

 private:
  PjrtElementType type_ = PjrtElementType::kInvalid;
  uint32_t rank_ = 0;
  std::array<int64_t, kMaxRank> dims_ = {};  // [rank], zeros behind it
  int64_t num_elements_ = 0;
  int64_t num_bytes_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_SHAPE_H_
