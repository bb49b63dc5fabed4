// What fits the int32 indices of a program, and the sizes of its tensors.
//
// Thread-safety: pure functions.

#ifndef TIDEWHEEL_ATTENTION_STABLEHLO_INDEX_LIMITS_H_
#define TIDEWHEEL_ATTENTION_STABLEHLO_INDEX_LIMITS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace tidewheel {

inline constexpr int64_t kLargestIndex = std::numeric_limits<int32_t>::max();
// Bytes; no device holds a tensor of more, and products of less do not
// overflow int64.
inline constexpr int64_t kLargestTensor = int64_t{1} << 50;

// The product of positive factors, or limit + 1 if it is larger.
inline int64_t ProductUpTo(int64_t limit,
                           std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor > limit / product) return limit + 1;
    product *= factor;
  }
  return product;
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_STABLEHLO_INDEX_LIMITS_H_
