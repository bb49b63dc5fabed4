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
// Steps may be in flight: a row that runs in one counts as computed, and the
// token that it samples as known but for its id. A *stay* is a row's time
// between admission and preemption or being set back; what was launched in
// another stay is nobody's.
//
// Lifecycle: Accept; CheckPlan and Launch for each plan; Commit or SetBack each
// of its rows; End.

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
  int32_t known = 0;     // tokens, of committed steps
  int32_t computed = 0;  // while running, those in flight included
  int32_t unknown = 0;   // tokens that are being sampled
  int32_t stay = 0;
  bool doomed = false;  // a step in flight did not do what it ought to
  int32_t cached = 0;   // at the first admission, or shared by a fork
  int32_t preemptions = 0;
  int32_t times_passed = 0;
  int64_t committed_when_preempted = -1;

  int32_t length() const { return static_cast<int32_t>(stream.size()); }
  int32_t reached() const { return known + unknown; }
  // What it generates when it is not stopped by a token.
  bool ends_by_limit() const {
    return end_reason != FinishReason::kEndToken &&
           end_reason != FinishReason::kStopToken;
  }
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

  // Rows, tokens and totals of a plan, in which the device has filled in the
  // tokens that it samples; notes who was admitted.
  absl::Status CheckPlan(const StepPlan& plan);
  // The plan is in flight. Returns the stay of each row.
  std::vector<int32_t> Launch(const StepPlan& plan);
  // Who was admitted by the last plan; empty where there was none.
  const std::vector<uint64_t>& admitted() const { return admitted_; }
  // Whom it preempted, in the same way.
  const std::vector<uint64_t>& preempted() const { return preempted_; }
  // Who was preempted by the last plan. To be called before CheckPlan.
  absl::Status CheckPreemptions(const Scheduler& scheduler,
                                int64_t preemptions_before);
  // The row's step was committed; `token` is negative if none came.
  absl::Status Commit(const StepPlan& plan, int32_t row, int32_t stay,
                      int32_t token);
  // The newest step in flight was lost.
  void SetBack(const StepPlan& plan, int32_t row, int32_t stay);
  // Who ran in a step that fails, or in none of those in flight.
  void Doom(const StepPlan& plan);
  void ForgetDoom();
  // Nobody that could have ended is still there.
  absl::Status CheckNobodyIsOverdue() const;
  absl::Status End(const FinishedRequest& finished,
                   std::span<const int32_t> tokens, int64_t now_us);

  NaiveRequest& at(RequestId id) { return live_.at(id.value); }
  // Null if it has ended, or is in another stay.
  NaiveRequest* Find(RequestId id, int32_t stay);
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
