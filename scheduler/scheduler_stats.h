// SchedulerStats: what a scheduler has counted since it was created.

#ifndef TIDEWHEEL_SCHEDULER_SCHEDULER_STATS_H_
#define TIDEWHEEL_SCHEDULER_SCHEDULER_STATS_H_

#include <cstdint>

namespace tidewheel {

struct SchedulerStats {
  int64_t accepted = 0;
  int64_t refused = 0;
  int64_t finished = 0;  // for whatever reason
  int64_t steps = 0;     // committed
  int64_t failed_steps = 0;
  int64_t dropped_steps = 0;  // planned after one that failed, and lost with it
  int64_t preemptions = 0;
  int64_t committed_tokens = 0;  // query tokens of committed steps
  int64_t generated_tokens = 0;
  int64_t recomputed_tokens = 0;  // computed, preempted, and not found cached
  // Tokens looked up and found, at first admissions and after preemptions.
  int64_t prefix_cache_queries = 0;
  int64_t prefix_cache_hits = 0;
  int64_t preempted_prefix_cache_queries = 0;
  int64_t preempted_prefix_cache_hits = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_SCHEDULER_STATS_H_
