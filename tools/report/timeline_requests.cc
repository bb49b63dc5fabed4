#include "tools/report/timeline_requests.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

absl::Status BadPart(absl::string_view part, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--timeline-requests \"", text, "\": \"", part,
      "\" is not what it takes; give all, a positive number N for the first N, "
      "or requests and ranges with a comma, as 17, or 3,40-59"));
}

absl::StatusOr<std::pair<int64_t, int64_t>> ParseRange(absl::string_view part,
                                                       absl::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
  int64_t first = 0;
  int64_t last = 0;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
      !absl::SimpleAtoi(ends.back(), &last) || first < 0 || last < first) {
    return BadPart(part, text);
  }
  return std::pair(first, last);
}

}  // namespace

absl::StatusOr<TimelineRequests> TimelineRequests::Parse(
    absl::string_view text) {
  TimelineRequests requests;
  if (text == "all") {
    requests.ranges_ = {{0, std::numeric_limits<int64_t>::max()}};
    return requests;
  }
  int64_t count = 0;
  if (absl::SimpleAtoi(text, &count)) {
    if (count < 1) return BadPart(text, text);
    requests.ranges_ = {{0, count - 1}};
    return requests;
  }
  std::vector<Range> ranges;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const Range range, ParseRange(part, text));
    ranges.push_back(range);
  }
  if (ranges.empty()) return BadPart(text, text);
  std::sort(ranges.begin(), ranges.end());
  requests.ranges_.clear();
  for (const Range& range : ranges) {
    if (!requests.ranges_.empty() &&
        range.first <= requests.ranges_.back().second) {
      requests.ranges_.back().second =
          std::max(requests.ranges_.back().second, range.second);
    } else {
      requests.ranges_.push_back(range);
    }
  }
  return requests;
}

bool TimelineRequests::Contains(int64_t request) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), request,
      [](int64_t value, const Range& range) { return value < range.first; });
  return after != ranges_.begin() && request <= std::prev(after)->second;
}

int64_t TimelineRequests::CountOf(int64_t total) const {
  int64_t count = 0;
  for (const auto& [first, last] : ranges_) {
    if (first >= total) break;
    count += std::min(last, total - 1) - first + 1;
  }
  return count;
}

}  // namespace tidewheel
