#include "attention/pjrt/pjrt_element_type.h"

#include "allocator/check.h"

namespace tidewheel {
namespace {

struct Row {
  PjrtElementType type;
  absl::string_view name;
  int64_t bytes;
};

constexpr Row kRows[] = {
    {PjrtElementType::kPred, "i1", 1},
    {PjrtElementType::kI8, "i8", 1},
    {PjrtElementType::kI16, "i16", 2},
    {PjrtElementType::kI32, "i32", 4},
    {PjrtElementType::kI64, "i64", 8},
    {PjrtElementType::kUi8, "ui8", 1},
    {PjrtElementType::kUi16, "ui16", 2},
    {PjrtElementType::kUi32, "ui32", 4},
    {PjrtElementType::kUi64, "ui64", 8},
    {PjrtElementType::kF16, "f16", 2},
    {PjrtElementType::kF32, "f32", 4},
    {PjrtElementType::kF64, "f64", 8},
    {PjrtElementType::kBf16, "bf16", 2},
    {PjrtElementType::kF8E5m2, "f8E5M2", 1},
    {PjrtElementType::kF8E4m3fn, "f8E4M3FN", 1},
};

const Row* FindRow(PjrtElementType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

bool IsKnown(PjrtElementType type) { return FindRow(type) != nullptr; }

absl::string_view PjrtElementTypeName(PjrtElementType type) {
  const Row* row = FindRow(type);
  return row == nullptr ? "unknown" : row->name;
}

std::optional<PjrtElementType> PjrtElementTypeOfName(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

int64_t SizeOfElement(PjrtElementType type) {
  const Row* row = FindRow(type);
  TIDEWHEEL_CHECK(row != nullptr);
  return row->bytes;
}

PjrtElementType PjrtElementTypeOf(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return PjrtElementType::kF32;
    case ScalarType::kBfloat16:
      return PjrtElementType::kBf16;
    case ScalarType::kFloat8E4m3fn:
      return PjrtElementType::kF8E4m3fn;
    case ScalarType::kFloat8E5m2:
      return PjrtElementType::kF8E5m2;
    case ScalarType::kInt8:
      return PjrtElementType::kI8;
  }
  TIDEWHEEL_CHECK(false);
}

std::optional<ScalarType> ScalarTypeOf(PjrtElementType type) {
  for (const ScalarType scalar :
       {ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E4m3fn,
        ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    if (PjrtElementTypeOf(scalar) == type) return scalar;
  }
  return std::nullopt;
}

}  // namespace tidewheel
