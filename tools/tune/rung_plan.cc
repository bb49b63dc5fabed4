#include "tools/tune/rung_plan.h"

#include <algorithm>
#include <cmath>

namespace tidewheel {
namespace {

constexpr int64_t kFactor = 4;
constexpr size_t kMostRungs = 3;
constexpr size_t kFewestKept = 8;

// How closely the edge is found, by rungs from the last. Before it the edge is
// interpolated in a wider bracket, which a short run does not know better.
struct Precision {
  double first_step;
  double resolution;
};
constexpr Precision kPrecisions[kMostRungs] = {
    {1.08, 1.02}, {1.1, 1.1}, {1.25, 1.25}};

}  // namespace

std::vector<SearchRung> PlanRungs(const RungPlanOptions& options) {
  const double beyond = 1 - options.percentile / 100;
  const int64_t fewest =
      beyond > 0 ? static_cast<int64_t>(std::ceil(10 / beyond - 1e-6))
                 : options.requests;
  std::vector<SearchRung> rungs;
  int64_t total = options.requests * options.replications;
  rungs.push_back({.requests = options.requests,
                   .replications = options.replications,
                   .first_step = kPrecisions[0].first_step,
                   .resolution = kPrecisions[0].resolution});
  size_t candidates = static_cast<size_t>(options.candidates);
  while (rungs.size() < kMostRungs && KeptOf(candidates) < candidates &&
         total / kFactor >= fewest) {
    total /= kFactor;
    candidates = KeptOf(candidates);
    const int64_t replications = std::max<int64_t>(1, total / options.requests);
    const Precision& precision = kPrecisions[rungs.size()];
    rungs.push_back({.requests = std::min(total, options.requests),
                     .replications = static_cast<int32_t>(replications),
                     .first_step = precision.first_step,
                     .resolution = precision.resolution});
  }
  std::reverse(rungs.begin(), rungs.end());
  return rungs;
}

size_t KeptOf(size_t candidates) {
  const size_t quarter = (candidates + kFactor - 1) / kFactor;
  return std::min(candidates, std::max(quarter, kFewestKept));
}

}  // namespace tidewheel
