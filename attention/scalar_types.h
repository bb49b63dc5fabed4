// The element types of queries and KV pages, and their exact conversions.
//
//   type           bits (sign-exponent-mantissa)   largest      beyond it
//   float32        IEEE                            3.4e38       infinity
//   bfloat16       1-8-7, a float32's upper half   3.4e38       infinity
//   float8_e4m3fn  1-4-3, bias 7, no infinity      448          NaN
//   float8_e5m2    1-5-2, bias 15, as IEEE         57344        infinity
//   int8           two's complement                127          clamped
//
// Widening is exact. Narrowing rounds to nearest, ties to even, and goes
// beyond the largest value as the table says, which is what ml_dtypes and XLA
// do; ClampTo keeps a value that is to be stored in range first.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_SCALAR_TYPES_H_
#define TIDEWHEEL_ATTENTION_SCALAR_TYPES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace tidewheel {

enum class ScalarType {
  kFloat32,
  kBfloat16,
  kFloat8E4m3fn,
  kFloat8E5m2,
  kInt8
};

// "float32", "bfloat16", ...: numpy's name.
absl::string_view ScalarTypeName(ScalarType type);
std::optional<ScalarType> ScalarTypeOfName(absl::string_view name);
size_t SizeOfScalar(ScalarType type);  // bytes
// The largest finite value.
float LargestOf(ScalarType type);

struct Bfloat16 {
  uint16_t bits = 0;

  static Bfloat16 Round(float value);
  float ToFloat() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

struct Float8E4m3fn {
  uint8_t bits = 0;

  static Float8E4m3fn Round(float value);
  float ToFloat() const;
};

struct Float8E5m2 {
  uint8_t bits = 0;

  static Float8E5m2 Round(float value);
  float ToFloat() const;
};

// Rounds to the nearest integer in [-128, 127]; NaN becomes 0.
int8_t RoundToInt8(float value);

// The element at `index` of an array of `type`.
float LoadScalar(ScalarType type, const void* array, size_t index);
// Rounds `value` to `type` and stores it at `index`.
void StoreScalar(ScalarType type, void* array, size_t index, float value);
// `value` rounded to `type` and widened again.
float RoundTo(ScalarType type, float value);
// `value` kept within the finite values of `type`; NaN stays.
float ClampTo(ScalarType type, float value);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_SCALAR_TYPES_H_
