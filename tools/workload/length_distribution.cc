#include "tools/workload/length_distribution.h"

#include <algorithm>
#include <boost/random/lognormal_distribution.hpp>
#include <boost/random/uniform_int_distribution.hpp>
#include <cmath>
#include <limits>

#include "allocator/check.h"

namespace tidewheel {

LengthDistribution::LengthDistribution(const LognormalLengths& lognormal)
    : bounds_(lognormal) {
  TIDEWHEEL_CHECK(lognormal.log_sigma >= 0);
  TIDEWHEEL_CHECK_GE(lognormal.min_tokens, 1);
  TIDEWHEEL_CHECK_LE(lognormal.min_tokens, lognormal.max_tokens);
}

LengthDistribution LengthDistribution::Uniform(int32_t mean_tokens,
                                               double range_ratio) {
  TIDEWHEEL_CHECK_GE(mean_tokens, 1);
  TIDEWHEEL_CHECK(range_ratio >= 0 && range_ratio < 1);
  const double high = std::ceil(mean_tokens * (1 + range_ratio));
  TIDEWHEEL_CHECK(high <= std::numeric_limits<int32_t>::max());
  LognormalLengths bounds;
  bounds.min_tokens = std::max(
      1, static_cast<int32_t>(std::floor(mean_tokens * (1 - range_ratio))));
  bounds.max_tokens = static_cast<int32_t>(high);
  LengthDistribution uniform(bounds);
  uniform.is_uniform_ = true;
  return uniform;
}

int32_t LengthDistribution::Draw(RandomEngine& engine) const {
  if (is_uniform_) {
    return boost::random::uniform_int_distribution<int32_t>(
        bounds_.min_tokens, bounds_.max_tokens)(engine);
  }
  const double drawn = boost::random::lognormal_distribution<double>(
      bounds_.log_mean, bounds_.log_sigma)(engine);
  // Clipped before rounding: a large draw does not fit an integer.
  return static_cast<int32_t>(
      std::lround(std::clamp(drawn, static_cast<double>(bounds_.min_tokens),
                             static_cast<double>(bounds_.max_tokens))));
}

}  // namespace tidewheel
