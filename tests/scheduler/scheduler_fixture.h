// SchedulerWorld: a scheduler, the device that it drives, and what came out.
//
// Tests state options and requests; the world submits, plans, samples and
// commits, checks the scheduler's invariants after every call, and keeps what
// each finished request reported. It decides nothing that a test could want to
// see: the token that a request generates depends on the request's script and
// on the position alone, so two schedules of the same requests must give the
// same tokens.
//
// Lifecycle: construct; Submit; Step or Plan with Commit or Fail; look.

#ifndef TIDEWHEEL_TESTS_SCHEDULER_SCHEDULER_FIXTURE_H_
#define TIDEWHEEL_TESTS_SCHEDULER_SCHEDULER_FIXTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"

namespace tidewheel {

struct WorldOptions {
  int32_t page_size = 16;
  int32_t num_pages = 100;  // usable ones
  bool prefix_cache = true;
  int32_t max_isolation_keys = 8;
  uint64_t hash_seed = 0;
  SchedulerOptions scheduler = {.max_num_seqs = 16,
                                .max_model_len = 1024,
                                .max_num_batched_tokens = 1024,
                                .validate_steps = true};
};

// The page allocator that such a world has.
std::unique_ptr<PageAllocator> MakePages(const WorldOptions& options);

struct TestRequest {
  int32_t prompt = 16;  // tokens
  std::optional<int32_t> max_new = 4;
  int32_t min_new = 0;
  // Requests of one content have prompts that begin alike; absent: like no
  // other's.
  std::optional<int32_t> content = std::nullopt;
  std::optional<int32_t> end_token = std::nullopt;
  std::vector<int32_t> stop_tokens = {};
  int32_t priority = 0;
  std::optional<absl::string_view> salt = std::nullopt;
  // The first tokens that it generates; what follows is kFirstAnswer + index.
  std::vector<int32_t> script = {};
};

class SchedulerWorld {
 public:
  static constexpr int32_t kFirstAnswer = 1'000'000;

  explicit SchedulerWorld(const WorldOptions& options = {});

  // Fails the test if it is refused.
  RequestId Submit(const TestRequest& request);
  absl::StatusOr<RequestId> TrySubmit(const TestRequest& request);
  // Goes on with the script of `id`. Fails the test if it is refused.
  RequestId Fork(RequestId id);
  void Cancel(RequestId id);

  // The next step, if one can run. It stays in flight.
  const StepPlan* Plan();
  // What the device samples for the plan in flight, or for this one.
  std::vector<int32_t> Sample() const { return Sample(*plan_); }
  std::vector<int32_t> Sample(const StepPlan& plan) const;
  void Commit() { CommitTokens(Sample()); }
  void CommitTokens(const std::vector<int32_t>& sampled);
  // Of two plans in flight.
  void Commit(const StepPlan& plan) { CommitTokens(plan, Sample(plan)); }
  void CommitTokens(const StepPlan& plan, const std::vector<int32_t>& sampled);
  void Fail(const StepPlan& plan);
  // All that ask for a token get one but `id`.
  void CommitWithout(RequestId id);
  void Fail();
  // Plans and commits. False if nothing could run.
  bool Step();
  // Steps until nothing is unfinished, at most `max_steps`. Returns the number.
  int32_t RunAll(int32_t max_steps = 20'000);

  // Query tokens of `id` in the plan in flight; 0 if it is not in it.
  int32_t q_len(RequestId id) const;
  // Its row in the plan in flight; -1 if it is not in it.
  int32_t row(RequestId id) const;
  // REQUIRES: it is in the plan in flight.
  bool wants_logits(RequestId id) const {
    return plan_->wants_logits[static_cast<size_t>(row(id))] != 0;
  }
  // Query tokens of `id` in all committed steps.
  int64_t computed_tokens(RequestId id) { return computed_[id.value]; }
  WaitReason wait_reason(RequestId id) const {
    return scheduler_->Explain(id).reason;
  }
  std::string why(RequestId id) const { return scheduler_->Explain(id).text; }
  Explanation::State state(RequestId id) const {
    return scheduler_->Explain(id).state;
  }

  bool finished(RequestId id) const { return finished_.count(id.value) > 0; }
  // REQUIRES: finished(id).
  const FinishedRequest& result(RequestId id) const {
    return finished_.at(id.value);
  }
  FinishReason reason(RequestId id) const { return result(id).reason; }
  // What it generated, known when it has finished.
  const std::vector<int32_t>& answer(RequestId id) const {
    return answers_.at(id.value);
  }
  // In the order in which they finished.
  const std::vector<RequestId>& finish_order() const { return order_; }

  Scheduler& scheduler() { return *scheduler_; }
  const SchedulerStats& stats() const { return scheduler_->stats(); }
  PageAllocator::Stats pages() const { return scheduler_->allocator().stats(); }
  // Nothing runs or waits, and no page is lent or promised.
  void ExpectIdle();

  int64_t now_us = 0;

 private:
  void Check();
  void Collect();

  std::unique_ptr<Scheduler> scheduler_;
  const StepPlan* plan_ = nullptr;
  int32_t submitted_ = 0;
  std::map<uint64_t, TestRequest> requests_;
  std::map<uint64_t, FinishedRequest> finished_;
  std::map<uint64_t, std::vector<int32_t>> answers_;
  std::map<uint64_t, int64_t> computed_;
  std::vector<RequestId> order_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SCHEDULER_SCHEDULER_FIXTURE_H_
