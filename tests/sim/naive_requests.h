// NaiveRequests: every request of a simulation as it ought to go.
//
// When a request is accepted, all that it will ever generate is worked out
// from its prompt alone, with no schedule in sight: the next token is a
// function of the prefix. Whatever the scheduler then does, each plan must
// agree with that stream, and each request must end where the stream ends.
//
// It decides nothing and knows no pages. Its rules are written again from the
// interface's words, not shared with the scheduler.
//
// Lifecycle: Accept; CheckPlan for each plan; Commit or nothing; End.

#ifndef TIDEWHEEL_TESTS_SIM_NAIVE_REQUESTS_H_
#define TIDEWHEEL_TESTS_SIM_NAIVE_REQUESTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"
#include "tests/sim/sim_settings.h"

namespace tidewheel {

struct NaiveRequest {
  RequestId id;
  int64_t ordinal = 0;  // of the accepted ones
  int64_t rank_key = 0;
  int64_t submitted_us = 0;
  int32_t prompt = 0;  // tokens
  uint64_t root = 0;   // stamp of nothing under its isolation key
  // Prompt and all that it generates until it ends by itself, with the stamp
  // that the KV of each token must have.
  std::vector<int32_t> stream;
  std::vector<uint64_t> stamps;
  FinishReason end_reason = FinishReason::kMaxNewTokens;

  int32_t priority = 0;
  bool may_run_in_pieces = false;  // a fork, or set back
  bool poison = false;
  bool running = false;
  bool cancelled = false;
  bool was_admitted = false;
  int32_t known = 0;     // tokens
  int32_t computed = 0;  // while running
  int32_t cached = 0;    // at the first admission, or shared by a fork
  int32_t preemptions = 0;
  int32_t times_passed = 0;
  int64_t committed_when_preempted = -1;

  int32_t length() const { return static_cast<int32_t>(stream.size()); }
  bool ranks_before(const NaiveRequest& other) const {
    return rank_key != other.rank_key ? rank_key < other.rank_key
                                      : ordinal < other.ordinal;
  }
};

// The token that a model answers to a prefix with this stamp.
int32_t NextToken(uint64_t stamp, int32_t vocabulary);

class NaiveRequests {
 public:
  explicit NaiveRequests(const SimSettings& settings) : settings_(settings) {}

  void Accept(const Request& request, RequestId id, int32_t salt,
              int64_t now_us);

  // A request that goes on from all that `parent` knows, perhaps at once.
  void AcceptFork(RequestId parent, RequestId id, bool running, int64_t now_us);

  // Rows, tokens and totals of a plan; notes who was admitted.
  absl::Status CheckPlan(const StepPlan& plan);
  // Who was admitted by the last plan; empty where there was none.
  const std::vector<uint64_t>& admitted() const { return admitted_; }
  // Whom it preempted, in the same way.
  const std::vector<uint64_t>& preempted() const { return preempted_; }
  // Who was preempted by the last plan. To be called before CheckPlan.
  absl::Status CheckPreemptions(const Scheduler& scheduler,
                                int64_t preemptions_before);
  // The row's step was committed; `token` is negative if none came.
  absl::Status Commit(const StepPlan& plan, int32_t row, int32_t token);
  // Nobody that could have ended is still there.
  absl::Status CheckNobodyIsOverdue() const;
  absl::Status End(const FinishedRequest& finished,
                   std::span<const int32_t> tokens, int64_t now_us);

  NaiveRequest& at(RequestId id) { return live_.at(id.value); }
  const std::map<uint64_t, NaiveRequest>& live() const { return live_; }
  // A live one, by a number that was drawn. REQUIRES: there is one.
  NaiveRequest& nth(int32_t n);

  // What the scheduler's statistics must say.
  absl::Status CheckStats(const SchedulerStats& stats) const;

 private:
  int64_t RankKey(int32_t priority, int64_t now_us) const;
  absl::Status CheckRow(const StepPlan& plan, int32_t row);
  absl::Status CheckAdmission(NaiveRequest& request, int32_t first);
  absl::Status CountPasses();
  void Continue(NaiveRequest& request, const Request& submission) const;

  const SimSettings& settings_;
  std::map<uint64_t, NaiveRequest> live_;
  std::vector<uint64_t> admitted_;   // by the last plan
  std::vector<uint64_t> preempted_;  // by the last plan
  bool may_fail_ = false;  // a step has failed or a token has not come
  int64_t accepted_ = 0;
  int64_t generated_ = 0;
  int64_t committed_ = 0;
  int64_t preemptions_ = 0;
  int64_t queries_ = 0;
  int64_t hits_ = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_NAIVE_REQUESTS_H_
