// PjrtElementType: the element types of PJRT buffers that are used here, with
// the C API's numbers.
//
//   PJRT, StableHLO   numpy, scalar_types.h   bytes
//   f32               float32                 4
//   bf16              bfloat16                2
//   f8E4M3FN          float8_e4m3fn           1
//   f8E5M2            float8_e5m2             1
//   i8                int8                    1
//
// Others are for metadata, and for pools declared as bytes. Types narrower
// than a byte, complex numbers and tokens are unknown here: a program that
// returns one is refused.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_ELEMENT_TYPE_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_ELEMENT_TYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "attention/scalar_types.h"

namespace tidewheel {

enum class PjrtElementType : int32_t {
  kInvalid = 0,
  kPred = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kUi8 = 6,
  kUi16 = 7,
  kUi32 = 8,
  kUi64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kBf16 = 13,
  kF8E5m2 = 16,
  kF8E4m3fn = 17,
};

// Whether the number is one of the above, kInvalid excluded. Plugins may
// crash on numbers that they do not know.
bool IsKnown(PjrtElementType type);

// StableHLO's name ("f32", "ui8", "i1"); "unknown" for others.
absl::string_view PjrtElementTypeName(PjrtElementType type);
std::optional<PjrtElementType> PjrtElementTypeOfName(absl::string_view name);

// Bytes of an element.
//
// REQUIRES: IsKnown(type)
int64_t SizeOfElement(PjrtElementType type);

PjrtElementType PjrtElementTypeOf(ScalarType type);
// Absent where scalar_types.h has no such type.
std::optional<ScalarType> ScalarTypeOf(PjrtElementType type);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_ELEMENT_TYPE_H_
