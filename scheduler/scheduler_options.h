// SchedulerOptions: every bound and policy of a Scheduler.

#ifndef TIDEWHEEL_SCHEDULER_SCHEDULER_OPTIONS_H_
#define TIDEWHEEL_SCHEDULER_SCHEDULER_OPTIONS_H_

#include <cstdint>

namespace tidewheel {

enum class OrderingPolicy {
  kFcfs,      // by arrival
  kPriority,  // by Request::priority, lower first; then by arrival
};

enum class AdmissionPolicy {
  // Promises pages for the longest length that the request may reach. Nothing
  // is ever preempted; pages that are promised but not used yet are idle.
  kReserve,
  // Promises pages for the tokens that are known, and leaves watermark_pages
  // unpromised. Growth beyond that may preempt.
  kOptimistic,
};

struct SchedulerOptions {
  int32_t max_num_seqs = 0;            // rows; at most the page table's
  int32_t max_model_len = 0;           // tokens of a sequence, prompt included
  int32_t max_num_batched_tokens = 0;  // query tokens a step

  OrderingPolicy policy = OrderingPolicy::kFcfs;
  // Under kPriority: waiting this long outweighs one level of priority, so that
  // no level starves. 0: strict priority.
  int64_t priority_age_us = 0;

  AdmissionPolicy admission = AdmissionPolicy::kOptimistic;
  int32_t watermark_pages = 0;

  // Without chunked prefill a prompt runs in one step, or is refused. What was
  // preempted, or was in a step that failed, may still be computed in pieces,
  // as the budget allows when its turn comes again.
  bool chunked_prefill = true;
  // Tokens of one prompt in one step at most; 0: no such bound.
  int32_t max_prefill_chunk = 0;

  // How often a waiting request that lacks pages may be passed by ones behind
  // it before it is protected, and how far behind it they may be.
  int32_t max_bypasses = 8;
  int32_t bypass_lookahead = 8;

  int32_t max_waiting = 4096;     // requests; more are refused
  int64_t max_queue_time_us = 0;  // until the first admission; 0: no limit
  // Failed steps in a row after which a request is given up. A failed batch is
  // first halved until the request that fails is alone.
  int32_t max_step_failures = 3;

  // Steps that may be planned before the first of them is committed, 1 or 2.
  // With 2 the device need not wait for the host between steps; what a step
  // samples is then known one step later, so a sequence that stops computes one
  // token in vain.
  int32_t max_steps_in_flight = 1;

  // Check every invariant, and every batch as the kernel and the strict rules
  // do, before it is handed out; O(pool) a step. A violation ends the process.
#ifdef TIDEWHEEL_VALIDATE_STEPS
  bool validate_steps = true;
#else
  bool validate_steps = false;
#endif
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_SCHEDULER_OPTIONS_H_
