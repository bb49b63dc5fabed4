// Draw: all randomness of a simulation, from one seed.
//
// SplitMix64 (Steele et al. 2014) with a fixed reduction, so that a seed means
// the same run with every compiler and standard library.

#ifndef TIDEWHEEL_TESTS_SIM_DRAW_H_
#define TIDEWHEEL_TESTS_SIM_DRAW_H_

#include <cstdint>

#include "scheduler/content_token.h"

namespace tidewheel {

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(MixBits(seed + 1)) {}

  uint64_t Bits() {
    state_ += 0x9e3779b97f4a7c15u;
    return MixBits(state_);
  }
  // In [0, n). REQUIRES: n > 0.
  int32_t Below(int32_t n) {
    return static_cast<int32_t>(Bits() % static_cast<uint64_t>(n));
  }
  // In [low, high].
  int32_t Between(int32_t low, int32_t high) {
    return low + Below(high - low + 1);
  }
  bool OneIn(int32_t n) { return Below(n) == 0; }
  bool PerMille(int32_t chance) { return Below(1000) < chance; }

 private:
  uint64_t state_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_DRAW_H_
