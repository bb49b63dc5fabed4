// TimelineRequests: which requests of a trace get a track of a timeline.
//
// A timeline of every request of a long trace is larger than a viewer loads,
// so by default it is the first kDefaultCount of them.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_TOOLS_REPORT_TIMELINE_REQUESTS_H_
#define TIDEWHEEL_TOOLS_REPORT_TIMELINE_REQUESTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class TimelineRequests {
 public:
  // A thousand tracks and their steps are some 10 MB.
  static constexpr int64_t kDefaultCount = 1000;

  TimelineRequests() : ranges_{{0, kDefaultCount - 1}} {}

  // "all"; "N", the first N; or a list with a comma of requests and ranges, as
  // they are numbered in --per-request: "17,", "3,40-59".
  // Errors: InvalidArgument that names the part and what it may be.
  static absl::StatusOr<TimelineRequests> Parse(absl::string_view text);

  bool Contains(int64_t request) const;
  // Of the requests [0, total), those that are contained.
  int64_t CountOf(int64_t total) const;

 private:
  using Range = std::pair<int64_t, int64_t>;  // both ends included

  std::vector<Range> ranges_;  // in order, without overlap
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_TIMELINE_REQUESTS_H_
