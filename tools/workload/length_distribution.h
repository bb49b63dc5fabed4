// LengthDistribution: lengths in tokens, lognormal or uniform.
//
// A value type: copies draw from the same distribution with whatever engine
// they are given. Lognormal draws are rounded and clipped to [min, max]; the
// uniform kind includes both ends.

#ifndef TIDEWHEEL_TOOLS_WORKLOAD_LENGTH_DISTRIBUTION_H_
#define TIDEWHEEL_TOOLS_WORKLOAD_LENGTH_DISTRIBUTION_H_

#include <cstdint>

#include "tools/workload/random_stream.h"

namespace tidewheel {

struct LognormalLengths {
  double log_mean = 0;   // of the natural logarithm of the length
  double log_sigma = 0;  // likewise
  int32_t min_tokens = 1;
  int32_t max_tokens = 1;
};

class LengthDistribution {
 public:
  // REQUIRES: log_sigma >= 0, 1 <= min_tokens <= max_tokens.
  explicit LengthDistribution(const LognormalLengths& lognormal);

  // `mean_tokens`, each way by up to `range_ratio` of it, rounded outwards (as
  // vLLM's random data set does) but never below 1.
  // REQUIRES: mean_tokens >= 1, 0 <= range_ratio < 1,
  // mean_tokens * (1 + range_ratio) <= 2^31 - 1.
  static LengthDistribution Uniform(int32_t mean_tokens, double range_ratio);

  int32_t min_tokens() const { return bounds_.min_tokens; }
  int32_t max_tokens() const { return bounds_.max_tokens; }

  // In [min_tokens, max_tokens].
  int32_t Draw(RandomEngine& engine) const;

 private:
  LognormalLengths bounds_;
  bool is_uniform_ = false;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_WORKLOAD_LENGTH_DISTRIBUTION_H_
