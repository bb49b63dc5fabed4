#include "attention/pjrt/pjrt_shape.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/check.h"

namespace tidewheel {

absl::StatusOr<PjrtShape> PjrtShape::Create(PjrtElementType type,
                                            std::span<const int64_t> dims) {
  if (!IsKnown(type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("PJRT element type ", static_cast<int32_t>(type),
                     " is not supported; use one of f64 f32 bf16 f16 f8E5M2 "
                     "f8E4M3FN i64 i32 i16 i8 ui64 ui32 ui16 ui8 i1"));
  }
  const std::string text = absl::StrJoin(dims, "x");
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", text, " has ", dims.size(), " dimensions, at most ", kMaxRank,
        " are supported; merge neighbouring dimensions"));
  }
  PjrtShape shape;
  shape.type_ = type;
  shape.rank_ = static_cast<uint32_t>(dims.size());
  shape.num_elements_ = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", text, ": dimension ", i, " is ", dims[i],
                       "; it must be 0 or more (PJRT has no dynamic ones)"));
    }
    shape.dims_[i] = dims[i];
    if (__builtin_mul_overflow(shape.num_elements_, dims[i],
                               &shape.num_elements_)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", text, " has more than 2^63 elements; make it smaller"));
    }
  }
  if (__builtin_mul_overflow(shape.num_elements_, SizeOfElement(type),
                             &shape.num_bytes_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", text, " of ", PjrtElementTypeName(type),
                     " has more than 2^63 bytes; make it smaller"));
  }
  return shape;
}

PjrtShape::PjrtShape(PjrtElementType type,
                     std::initializer_list<int64_t> dims) {
  absl::StatusOr<PjrtShape> shape =
      Create(type, std::span<const int64_t>(dims.begin(), dims.size()));
  TIDEWHEEL_CHECK(shape.ok());
  *this = *shape;
}

std::string PjrtShape::ToString() const {
  std::string text = "tensor<";
  for (const int64_t dim : dims()) absl::StrAppend(&text, dim, "x");
  absl::StrAppend(&text, PjrtElementTypeName(type_), ">");
  return text;
}

}  // namespace tidewheel
