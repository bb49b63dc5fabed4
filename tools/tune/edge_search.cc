#include "tools/tune/edge_search.h"

#include <algorithm>
#include <cmath>

#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

using RateProbe = std::function<absl::StatusOr<bool>(double)>;

// Up from a rate that holds, until one breaks or the cap holds.
absl::Status StepUp(const RateEdgeOptions& options, const RateProbe& holds,
                    RateEdge& edge) {
  double step = options.first_step;
  while (*edge.holds < options.cap) {
    const double rate = std::min(*edge.holds * step, options.cap);
    TIDEWHEEL_ASSIGN_OR_RETURN(const bool held, holds(rate));
    if (!held) {
      edge.breaks = rate;
      return absl::OkStatus();
    }
    edge.holds = rate;
    step *= step;
  }
  return absl::OkStatus();
}

// Down from a rate that breaks. The floor is asked first: most of what can not
// keep a promise at all is known after one more run.
absl::Status StepDown(const RateEdgeOptions& options, const RateProbe& holds,
                      RateEdge& edge) {
  if (*edge.breaks <= options.floor) return absl::OkStatus();
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool floor_holds, holds(options.floor));
  if (!floor_holds) {
    edge.breaks = options.floor;
    return absl::OkStatus();
  }
  double step = options.first_step;
  while (*edge.breaks / step > options.floor) {
    const double rate = *edge.breaks / step;
    TIDEWHEEL_ASSIGN_OR_RETURN(const bool held, holds(rate));
    if (held) {
      edge.holds = rate;
      return absl::OkStatus();
    }
    edge.breaks = rate;
    step *= step;
  }
  edge.holds = options.floor;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RateEdge> FindHighestRate(const RateEdgeOptions& options,
                                         const RateProbe& holds) {
  TIDEWHEEL_CHECK(options.floor > 0 && options.floor <= options.start &&
                  options.start <= options.cap && options.resolution > 1 &&
                  options.first_step > 1);
  RateEdge edge;
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool start_holds, holds(options.start));
  if (start_holds) {
    edge.holds = options.start;
    TIDEWHEEL_RETURN_IF_ERROR(StepUp(options, holds, edge));
  } else {
    edge.breaks = options.start;
    TIDEWHEEL_RETURN_IF_ERROR(StepDown(options, holds, edge));
  }
  while (edge.holds.has_value() && edge.breaks.has_value() &&
         *edge.breaks / *edge.holds > options.resolution) {
    const double middle = std::sqrt(*edge.holds * *edge.breaks);
    TIDEWHEEL_ASSIGN_OR_RETURN(const bool held, holds(middle));
    (held ? edge.holds : edge.breaks) = middle;
  }
  return edge;
}

absl::StatusOr<CountEdge> FindLowestCount(
    const CountEdgeOptions& options,
    const std::function<absl::StatusOr<bool>(int64_t)>& holds) {
  TIDEWHEEL_CHECK(options.low >= 1 && options.low <= options.high &&
                  options.resolution >= 1);
  CountEdge edge;
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool high_holds, holds(options.high));
  if (!high_holds) {
    edge.breaks = options.high;
    return edge;
  }
  edge.holds = options.high;
  if (options.low == options.high) return edge;
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool low_holds, holds(options.low));
  if (low_holds) {
    edge.holds = options.low;
    return edge;
  }
  edge.breaks = options.low;
  while (*edge.holds - *edge.breaks > 1 &&
         static_cast<double>(*edge.holds) >
             static_cast<double>(*edge.breaks) * options.resolution) {
    const int64_t middle = std::clamp<int64_t>(
        std::llround(std::sqrt(static_cast<double>(*edge.breaks) *
                               static_cast<double>(*edge.holds))),
        *edge.breaks + 1, *edge.holds - 1);
    TIDEWHEEL_ASSIGN_OR_RETURN(const bool held, holds(middle));
    (held ? edge.holds : edge.breaks) = middle;
  }
  return edge;
}

}  // namespace tidewheel
