#include "attention/scalar_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tidewheel {
namespace {

// Value of a finite float8 with `mantissa_bits` and `bias`.
float WidenFloat8(uint8_t bits, int mantissa_bits, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  // Subnormals share the exponent of 1 and lack the leading 1.
  const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
  const float size = std::ldexp(static_cast<float>(leading + mantissa),
                                std::max(exponent, 1) - bias - mantissa_bits);
  return (bits & 0x80) != 0 ? -size : size;
}

// Magnitude bits of the finite `size` >= 0 in a format with `mantissa_bits`
// and `bias`, rounded to nearest even; may be beyond the format's largest.
//
// The step between neighbours is 2^(exponent - mantissa_bits), but never less
// than that of the smallest normal. Counted in steps the value is a small
// number that nearbyint rounds exactly; a carry into the next exponent falls
// out of the addition.
uint32_t NarrowMagnitude(float size, int mantissa_bits, int bias) {
  if (size == 0) return 0;
  const int exponent = std::max(std::ilogb(size), 1 - bias);
  const float steps =
      std::nearbyint(std::ldexp(size, mantissa_bits - exponent));
  const auto count = static_cast<uint32_t>(steps);
  return (static_cast<uint32_t>(exponent + bias - 1) << mantissa_bits) + count;
}

uint8_t SignBit(float value) {
  return static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
}

template <typename T>
T At(const void* array, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T>
void Put(void* array, size_t index, T value) {
  std::memcpy(static_cast<char*>(array) + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

absl::string_view ScalarTypeName(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return "float32";
    case ScalarType::kBfloat16:
      return "bfloat16";
    case ScalarType::kFloat8E4m3fn:
      return "float8_e4m3fn";
    case ScalarType::kFloat8E5m2:
      return "float8_e5m2";
    case ScalarType::kInt8:
      break;
  }
  return "int8";
}

std::optional<ScalarType> ScalarTypeOfName(absl::string_view name) {
  for (const ScalarType type :
       {ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E4m3fn,
        ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    if (ScalarTypeName(type) == name) return type;
  }
  return std::nullopt;
}

size_t SizeOfScalar(ScalarType type) {
  if (type == ScalarType::kFloat32) return 4;
  return type == ScalarType::kBfloat16 ? 2 : 1;
}

float LargestOf(ScalarType type) {
  switch (type) {
    case ScalarType::kFloat32:
      return std::bit_cast<float>(0x7f7fffffu);
    case ScalarType::kBfloat16:
      return Bfloat16{0x7f7f}.ToFloat();
    case ScalarType::kFloat8E4m3fn:
      return 448;
    case ScalarType::kFloat8E5m2:
      return 57344;
    case ScalarType::kInt8:
      break;
  }
  return 127;
}

Bfloat16 Bfloat16::Round(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // A NaN whose payload lies in the lower half must not become infinity.
  if (std::isnan(value)) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  }
  const uint32_t is_odd = (bits >> 16) & 1;
  return {static_cast<uint16_t>((bits + 0x7fff + is_odd) >> 16)};
}

float Float8E4m3fn::ToFloat() const {
  if ((bits & 0x7f) == 0x7f) return std::nanf("");
  return WidenFloat8(bits, 3, 7);
}

Float8E4m3fn Float8E4m3fn::Round(float value) {
  uint32_t magnitude = 0x7f;  // NaN
  // 464 is half way between 448 and the 480 that the format lacks.
  if (std::fabs(value) <= 464) {
    magnitude = NarrowMagnitude(std::fabs(value), 3, 7);
  }
  return {static_cast<uint8_t>(magnitude | SignBit(value))};
}

float Float8E5m2::ToFloat() const {
  if ((bits & 0x7f) > 0x7c) return std::nanf("");
  if ((bits & 0x7f) == 0x7c) {
    return (bits & 0x80) != 0 ? -HUGE_VALF : HUGE_VALF;
  }
  return WidenFloat8(bits, 2, 15);
}

Float8E5m2 Float8E5m2::Round(float value) {
  uint32_t magnitude = 0x7e;  // NaN
  if (!std::isnan(value)) {
    // 65536 is the first power of two beyond the format.
    magnitude = std::fabs(value) >= 65536
                    ? 0x7c
                    : NarrowMagnitude(std::fabs(value), 2, 15);
  }
  return {static_cast<uint8_t>(magnitude | SignBit(value))};
}

int8_t RoundToInt8(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<int8_t>(
      std::clamp(std::nearbyint(value), -128.0f, 127.0f));
}

float LoadScalar(ScalarType type, const void* array, size_t index) {
  switch (type) {
    case ScalarType::kFloat32:
      return At<float>(array, index);
    case ScalarType::kBfloat16:
      return At<Bfloat16>(array, index).ToFloat();
    case ScalarType::kFloat8E4m3fn:
      return At<Float8E4m3fn>(array, index).ToFloat();
    case ScalarType::kFloat8E5m2:
      return At<Float8E5m2>(array, index).ToFloat();
    case ScalarType::kInt8:
      break;
  }
  return At<int8_t>(array, index);
}

void StoreScalar(ScalarType type, void* array, size_t index, float value) {
  switch (type) {
    case ScalarType::kFloat32:
      return Put(array, index, value);
    case ScalarType::kBfloat16:
      return Put(array, index, Bfloat16::Round(value));
    case ScalarType::kFloat8E4m3fn:
      return Put(array, index, Float8E4m3fn::Round(value));
    case ScalarType::kFloat8E5m2:
      return Put(array, index, Float8E5m2::Round(value));
    case ScalarType::kInt8:
      break;
  }
  Put(array, index, RoundToInt8(value));
}

float RoundTo(ScalarType type, float value) {
  float element[1];  // Large and aligned enough for every type.
  StoreScalar(type, element, 0, value);
  return LoadScalar(type, element, 0);
}

float ClampTo(ScalarType type, float value) {
  const float largest = LargestOf(type);
  const float least = type == ScalarType::kInt8 ? -128 : -largest;
  if (std::isnan(value)) return value;
  return std::clamp(value, least, largest);
}

}  // namespace tidewheel
