// ArrivalQueue: the requests of a trace in the order in which they arrive.
//
// Most arrive at a time that the trace gives. A later turn of a session arrives
// a think time after the turn before it has ended, however that ended: the
// queue learns of it from OnEnd. Of equal times the lower index goes first,
// which is the file's order.
//
// O(1) a request, but for later turns: O(log of those that wait).

#ifndef TIDEWHEEL_TOOLS_ARRIVAL_QUEUE_H_
#define TIDEWHEEL_TOOLS_ARRIVAL_QUEUE_H_

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "tools/traces/trace.h"

namespace tidewheel {

class ArrivalQueue {
 public:
  struct Arrival {
    int64_t time_us = 0;
    int32_t request = -1;  // index into Trace::requests
  };

  // The trace must outlive the queue.
  explicit ArrivalQueue(const Trace& trace);

  // No request has an arrival time now; later turns may get one by OnEnd.
  bool empty() const { return next_.request < 0; }
  // The earliest. REQUIRES: !empty().
  const Arrival& next() const { return next_; }
  void Pop();

  // The request has ended: its later turn arrives a think time from now.
  void OnEnd(int32_t request, int64_t now_us);

 private:
  using Later = std::pair<int64_t, int32_t>;  // time_us, request

  void FindNext();

  const Trace& trace_;
  Arrival next_;
  size_t cursor_ = 0;  // the first request that was not looked at
  std::priority_queue<Later, std::vector<Later>, std::greater<>> later_;
  // Requests that wait for a request: its first one, and from there the next
  // one; -1 ends the list. Empty in a trace without sessions.
  std::vector<int32_t> first_follower_;
  std::vector<int32_t> next_follower_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_ARRIVAL_QUEUE_H_
