#include "tools/arrival_queue.h"

#include <algorithm>

#include "allocator/check.h"

namespace tidewheel {

ArrivalQueue::ArrivalQueue(const Trace& trace) : trace_(trace) {
  const std::vector<TraceRequest>& requests = trace.requests;
  const bool has_sessions =
      std::any_of(requests.begin(), requests.end(),
                  [](const TraceRequest& r) { return r.after_request >= 0; });
  if (has_sessions) {
    first_follower_.assign(requests.size(), -1);
    next_follower_.assign(requests.size(), -1);
    for (size_t i = requests.size(); i-- > 0;) {
      const int32_t before = requests[i].after_request;
      if (before < 0) continue;
      TIDEWHEEL_CHECK_LT(before, static_cast<int32_t>(i));
      next_follower_[i] = first_follower_[before];
      first_follower_[before] = static_cast<int32_t>(i);
    }
  }
  FindNext();
}

void ArrivalQueue::FindNext() {
  const std::vector<TraceRequest>& requests = trace_.requests;
  while (cursor_ < requests.size() && requests[cursor_].after_request >= 0) {
    ++cursor_;
  }
  next_ = {};
  if (cursor_ < requests.size()) {
    next_ = {requests[cursor_].arrival_us, static_cast<int32_t>(cursor_)};
  }
  if (later_.empty()) return;
  const auto& [time_us, request] = later_.top();
  if (next_.request < 0 ||
      Later(time_us, request) < Later(next_.time_us, next_.request)) {
    next_ = {time_us, request};
  }
}

void ArrivalQueue::Pop() {
  TIDEWHEEL_CHECK(!empty());
  if (trace_.requests[next_.request].after_request >= 0) {
    later_.pop();
  } else {
    ++cursor_;
  }
  FindNext();
}

void ArrivalQueue::OnEnd(int32_t request, int64_t now_us) {
  if (first_follower_.empty()) return;
  const int32_t first = first_follower_[request];
  if (first < 0) return;
  for (int32_t i = first; i >= 0; i = next_follower_[i]) {
    later_.emplace(now_us + trace_.requests[i].arrival_us, i);
  }
  FindNext();
}

}  // namespace tidewheel
