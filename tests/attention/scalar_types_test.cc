#include "attention/scalar_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

constexpr ScalarType kTypes[] = {ScalarType::kFloat32, ScalarType::kBfloat16,
                                 ScalarType::kFloat8E4m3fn,
                                 ScalarType::kFloat8E5m2, ScalarType::kInt8};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The finite values of an 8-bit type by code, as stored.
std::vector<float> FiniteValues(ScalarType type) {
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float value = LoadScalar(type, &byte, 0);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// Rounding by search: the nearest finite value; between two, the one whose
// code is even.
float NearestBySearch(ScalarType type, float value) {
  float best = 0;
  float best_distance = kInfinity;
  bool best_is_even = false;
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float candidate = LoadScalar(type, &byte, 0);
    if (!std::isfinite(candidate)) continue;
    const float distance = std::fabs(candidate - value);
    const bool is_even = type == ScalarType::kInt8
                             ? std::fmod(candidate, 2.0f) == 0
                             : code % 2 == 0;
    if (distance < best_distance ||
        (distance == best_distance && is_even && !best_is_even)) {
      best = candidate;
      best_distance = distance;
      best_is_even = is_even;
    }
  }
  return best;
}

TEST(ScalarTypesTest, NamesAreNumpysAndReadBack) {
  for (const ScalarType type : kTypes) {
    EXPECT_EQ(ScalarTypeOfName(ScalarTypeName(type)), type);
  }
  EXPECT_EQ(ScalarTypeName(ScalarType::kFloat8E4m3fn), "float8_e4m3fn");
  EXPECT_EQ(ScalarTypeOfName("float16"), std::nullopt);
}

TEST(ScalarTypesTest, KnownCodesHaveTheirValues) {
  EXPECT_EQ(Bfloat16{0x3f80}.ToFloat(), 1.0f);
  EXPECT_EQ(Bfloat16{0xc040}.ToFloat(), -3.0f);
  EXPECT_EQ(Float8E4m3fn{0x38}.ToFloat(), 1.0f);
  EXPECT_EQ(Float8E4m3fn{0x7e}.ToFloat(), 448.0f);
  EXPECT_EQ(Float8E4m3fn{0x01}.ToFloat(), 0x1p-9f);
  EXPECT_EQ(Float8E4m3fn{0x08}.ToFloat(), 0x1p-6f);
  EXPECT_TRUE(std::isnan(Float8E4m3fn{0x7f}.ToFloat()));
  EXPECT_TRUE(std::isnan(Float8E4m3fn{0xff}.ToFloat()));
  EXPECT_EQ(Float8E5m2{0x3c}.ToFloat(), 1.0f);
  EXPECT_EQ(Float8E5m2{0x7b}.ToFloat(), 57344.0f);
  EXPECT_EQ(Float8E5m2{0x01}.ToFloat(), 0x1p-16f);
  EXPECT_EQ(Float8E5m2{0x7c}.ToFloat(), kInfinity);
  EXPECT_EQ(Float8E5m2{0xfc}.ToFloat(), -kInfinity);
  EXPECT_TRUE(std::isnan(Float8E5m2{0x7d}.ToFloat()));
}

TEST(ScalarTypesTest, EveryFloat8E5m2IsTheUpperHalfOfAFloat16) {
  // The 5-bit exponent of bias 15 is that of IEEE half precision.
  for (int code = 0; code < 0x7c; ++code) {
    const int exponent = code >> 2;
    const double mantissa = (code & 3) / 4.0;
    const double value = exponent == 0
                             ? std::ldexp(mantissa, -14)
                             : std::ldexp(1 + mantissa, exponent - 15);
    EXPECT_EQ(Float8E5m2{static_cast<uint8_t>(code)}.ToFloat(), value);
  }
}

TEST(ScalarTypesTest, EveryValueRoundsToItself) {
  for (const ScalarType type : {ScalarType::kFloat8E4m3fn,
                                ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8_t>(code);
      const float value = LoadScalar(type, &byte, 0);
      uint8_t again = 0;
      StoreScalar(type, &again, 0, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(LoadScalar(type, &again, 0)));
      } else {
        EXPECT_EQ(again, byte) << ScalarTypeName(type) << " " << value;
      }
    }
  }
  for (int code = 0; code < 65536; ++code) {
    const Bfloat16 value = {static_cast<uint16_t>(code)};
    if (std::isnan(value.ToFloat())) {
      EXPECT_TRUE(std::isnan(Bfloat16::Round(value.ToFloat()).ToFloat()));
    } else {
      EXPECT_EQ(Bfloat16::Round(value.ToFloat()).bits, code);
    }
  }
}

TEST(ScalarTypesTest, EightBitTypesRoundToNearestEven) {
  for (const ScalarType type : {ScalarType::kFloat8E4m3fn,
                                ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    std::vector<float> values = FiniteValues(type);
    std::ranges::sort(values);
    for (size_t i = 1; i < values.size(); ++i) {
      const float middle = values[i - 1] + (values[i] - values[i - 1]) / 2;
      for (const float x : {middle, std::nextafter(middle, -kInfinity),
                            std::nextafter(middle, kInfinity)}) {
        ASSERT_EQ(RoundTo(type, x), NearestBySearch(type, x))
            << ScalarTypeName(type) << " of " << x;
      }
    }
  }
}

TEST(ScalarTypesTest, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(Bfloat16::Round(0x1.01p0f).bits, 0x3f80);  // a tie, down to even
  EXPECT_EQ(Bfloat16::Round(0x1.03p0f).bits, 0x3f82);  // a tie, up to even
  EXPECT_EQ(Bfloat16::Round(0x1.010002p0f).bits, 0x3f81);
  EXPECT_EQ(Bfloat16::Round(0x1.00fffep0f).bits, 0x3f80);
  EXPECT_EQ(Bfloat16::Round(-0.0f).bits, 0x8000);
  EXPECT_EQ(Bfloat16::Round(0x1p-149f).bits, 0);
  EXPECT_EQ(Bfloat16::Round(LargestOf(ScalarType::kFloat32)).bits, 0x7f80);
}

TEST(ScalarTypesTest, NanStaysNan) {
  // A payload in the lower half alone must not round to infinity.
  const float nan = std::bit_cast<float>(0x7f800001u);
  for (const ScalarType type :
       {ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E4m3fn,
        ScalarType::kFloat8E5m2}) {
    EXPECT_TRUE(std::isnan(RoundTo(type, nan))) << ScalarTypeName(type);
    EXPECT_TRUE(std::isnan(ClampTo(type, nan))) << ScalarTypeName(type);
  }
  EXPECT_EQ(RoundToInt8(nan), 0);
}

TEST(ScalarTypesTest, BeyondTheLargestIsNanOrInfinityOrClamped) {
  EXPECT_EQ(RoundTo(ScalarType::kFloat8E4m3fn, 464.0f), 448.0f);
  EXPECT_TRUE(std::isnan(
      RoundTo(ScalarType::kFloat8E4m3fn, std::nextafter(464.0f, 500.0f))));
  EXPECT_TRUE(std::isnan(RoundTo(ScalarType::kFloat8E4m3fn, -kInfinity)));
  EXPECT_EQ(RoundTo(ScalarType::kFloat8E5m2, 61439.0f), 57344.0f);
  EXPECT_EQ(RoundTo(ScalarType::kFloat8E5m2, 61440.0f), kInfinity);
  EXPECT_EQ(RoundTo(ScalarType::kFloat8E5m2, -1e30f), -kInfinity);
  EXPECT_EQ(RoundToInt8(1e30f), 127);
  EXPECT_EQ(RoundToInt8(-kInfinity), -128);
}

TEST(ScalarTypesTest, ClampedValuesAreFiniteInTheirType) {
  for (const ScalarType type : kTypes) {
    for (const float value : {kInfinity, -kInfinity, 1e38f, -1e38f, 500.0f}) {
      EXPECT_TRUE(std::isfinite(RoundTo(type, ClampTo(type, value))))
          << ScalarTypeName(type) << " of " << value;
    }
    EXPECT_EQ(ClampTo(type, 1.5f), 1.5f);
  }
}

}  // namespace
}  // namespace tidewheel
