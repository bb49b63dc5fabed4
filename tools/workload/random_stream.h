// Independent streams of random numbers from one seed.
//
// Each use draws from an engine of its own, so that a change of one option
// leaves the rest of a workload as it was: another request rate has the same
// lengths, sessions do not move the arrivals' gaps. The engine is the
// standard's; distributions over it are Boost.Random's, since those of the
// standard library differ between implementations.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_RANDOM_STREAM_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_RANDOM_STREAM_H_

#include <cstdint>
#include <random>

#include "tools/traces/token_content.h"

namespace tidewheel {

enum class RandomUse : uint64_t {
  kPromptLengths = 1,
  kOutputLengths = 2,
  kArrivals = 3,
  kPrefixes = 4,
  kTurns = 5,
  kTurnLengths = 6,
  kThinkTimes = 7,
};

using RandomEngine = std::mt19937_64;

// The engine of one use. Two rounds of mixing keep seeds that are small
// numbers, and uses that are, far apart.
inline RandomEngine RandomStream(uint64_t seed, RandomUse use) {
  return RandomEngine(MixBits(MixBits(seed + 0x9e3779b97f4a7c15u) +
                              static_cast<uint64_t>(use)));
}

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_RANDOM_STREAM_H_
