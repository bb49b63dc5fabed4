// BlockBootstrap: intervals for figures of one run, whose requests depend on
// each other.
//
// A resample is as long as the series and made of blocks of it that begin at
// random places, so that what neighbours have in common (a burst, a queue)
// stays. Source: Künsch, "The jackknife and the bootstrap for general
// stationary observations", Annals of Statistics 17(3), 1989 (moving blocks).
// How long a block is follows from how far the series remembers: Politis and
// White, "Automatic block-length selection for the dependent bootstrap",
// Econometric Reviews 23(1), 2004, with the correction of Patton, Politis and
// White, ibid. 28(4), 2009.
//
// Two series that are resampled with one BlockBootstrap are resampled at the
// same places, so the interval of their difference is that of pairs.
//
// Thread-safety: immutable after construction.

#ifndef TIDEWHEEL_TOOLS_TUNE_BLOCK_BOOTSTRAP_H_
#define TIDEWHEEL_TOOLS_TUNE_BLOCK_BOOTSTRAP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tidewheel {

// Observations a block; from 1 up to a third of the series. O(n^1.5).
int64_t ChooseBlockLength(std::span<const double> series);

class BlockBootstrap {
 public:
  struct Options {
    int64_t length = 0;        // observations of the series
    int64_t block_length = 1;  // at most length
    int32_t resamples = 0;
    uint64_t seed = 0;
  };

  // REQUIRES: 1 <= block_length <= length.
  explicit BlockBootstrap(const Options& options);

  int32_t resamples() const { return options_.resamples; }

  // Writes resample `index` of `series` to `resample`, both of `length`.
  void Resample(int32_t index, std::span<const float> series,
                std::span<float> resample) const;

 private:
  Options options_;
  int64_t blocks_ = 0;           // a resample
  std::vector<int64_t> starts_;  // [resamples x blocks]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TUNE_BLOCK_BOOTSTRAP_H_
