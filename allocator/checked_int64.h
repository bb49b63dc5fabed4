// CheckedInt64: an int64_t whose sums and products remember that they no
// longer fit.
//
// It exists because 80 * 32768 * 8 * 128 already exceeds an int, and a size
// that wrapped is a pool of the wrong size rather than an error. A whole
// formula is written down as it reads, and one question at its end tells
// whether any step of it overflowed.
//
//   const CheckedInt64 bytes = CheckedInt64(layers) * heads * head_dim;
//   if (bytes.overflowed()) return absl::OutOfRangeError(...);
//   use(bytes.value());
//
// Thread-safety: a value. Never allocates.

#ifndef TIDEWHEEL_ALLOCATOR_CHECKED_INT64_H_
#define TIDEWHEEL_ALLOCATOR_CHECKED_INT64_H_

#include <cstdint>

#include "allocator/check.h"

namespace tidewheel {

class CheckedInt64 {
 public:
  constexpr explicit CheckedInt64(int64_t value) : value_(value) {}

  // True if this value, or one that it was computed from, left int64_t.
  constexpr bool overflowed() const { return overflowed_; }

  // REQUIRES: !overflowed().
  constexpr int64_t value() const {
    TIDEWHEEL_CHECK(!overflowed_);
    return value_;
  }

  friend constexpr CheckedInt64 operator*(CheckedInt64 a, CheckedInt64 b) {
    CheckedInt64 result(0);
    result.overflowed_ =
        __builtin_mul_overflow(a.value_, b.value_, &result.value_);
    result.overflowed_ |= a.overflowed_ || b.overflowed_;
    return result;
  }
  friend constexpr CheckedInt64 operator+(CheckedInt64 a, CheckedInt64 b) {
    CheckedInt64 result(0);
    result.overflowed_ =
        __builtin_add_overflow(a.value_, b.value_, &result.value_);
    result.overflowed_ |= a.overflowed_ || b.overflowed_;
    return result;
  }
  friend constexpr CheckedInt64 operator*(CheckedInt64 a, int64_t b) {
    return a * CheckedInt64(b);
  }
  friend constexpr CheckedInt64 operator+(CheckedInt64 a, int64_t b) {
    return a + CheckedInt64(b);
  }

 private:
  int64_t value_;
  bool overflowed_ = false;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_CHECKED_INT64_H_
