// TransformerWorld: TinyTransformer behind a scheduler, in a drawn world, with
// every token compared to the plain run of its own request.
//
// Drawn from one seed: weights, KV type, page size, pool, rows, token budget,
// chunk size, policy, admission, prefix cache, who writes K and V; prompts that
// share beginnings, stop tokens, limits; and when requests come, are forked and
// cancelled, when steps fail or lose a token, when the cache is reset.
//
// A request that ended is right if its prompt is the one that was submitted,
// each generated token is what plain full attention says after those before
// it, and it did not end sooner or later than its limits say. A step that
// failed may have written anything; pages that are free hold NaN.
//
// Up to two steps are in flight: the device runs a step when it is launched,
// with the tokens that it sampled itself, and the scheduler is told later.
//
// It is not the simulation of scheduler invariants (Simulation is): here only
// what reaches the user counts.

#ifndef TIDEWHEEL_TESTS_SIM_TRANSFORMER_WORLD_H_
#define TIDEWHEEL_TESTS_SIM_TRANSFORMER_WORLD_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "attention/reference_attention.h"
#include "scheduler/scheduler.h"
#include "tests/sim/draw.h"
#include "tests/sim/submitted_request.h"
#include "tests/sim/tiny_transformer.h"
#include "tests/sim/tiny_transformer_runner.h"
#include "tests/sim/world_counts.h"
#include "tests/sim/world_settings.h"

namespace tidewheel {

class TransformerWorld {
 public:
  explicit TransformerWorld(uint64_t seed)
      : TransformerWorld(seed, DrawWorldSettings(seed)) {}
  TransformerWorld(uint64_t seed, const WorldSettings& settings)
      : TransformerWorld(seed, settings,
                         std::make_unique<ReferenceAttention>()) {}
  TransformerWorld(uint64_t seed, const WorldSettings& settings,
                   std::unique_ptr<AttentionBackend> backend);
  TransformerWorld(const TransformerWorld&) = delete;
  TransformerWorld& operator=(const TransformerWorld&) = delete;

  // Errors: Internal that says which token of which request differs, or what
  // else is wrong.
  absl::Status Run();

  const WorldCounts& counts() const { return counts_; }

 private:
  absl::Status RunToTheEnd();
  absl::Status Disturb();
  absl::Status Submit();
  absl::Status Fork();
  absl::Status Cancel();
  std::vector<int32_t> DrawPrompt();

  // A step that was launched and of which the scheduler has not been told.
  struct Flight {
    StepPlan plan;
    // Of the plan, as the device has them.
    std::vector<int32_t> page_indices;
    std::vector<int32_t> token_ids;
    bool fails = false;
    std::vector<int32_t> sampled;
  };

  absl::Status Step();
  absl::Status Launch(const StepPlan& plan);
  absl::Status CheckPlan(const StepPlan& plan);
  void Resolve(Flight& flight) const;
  absl::Status Run(Flight& flight);
  absl::Status RunAndFail(const StepPlan& plan);
  absl::Status FinishOldest();
  void NoteWrittenPages(const StepPlan& plan);
  void NoteFilledPages(const StepPlan& plan);
  std::set<int32_t> NamedPages() const;
  void PoisonFreePages();
  absl::Status TakeFinished();
  void Count(const FinishedRequest& finished);
  StepPlan Sabotaged(const StepPlan& plan);
  void SabotageForeignPage(StepPlan& plan);
  void SabotageMemory(Flight& flight);

  WorldSettings settings_;
  Draw draw_;
  TinyTransformer model_;
  std::unique_ptr<AttentionBackend> backend_;
  TinyTransformerRunner runner_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<uint64_t, SubmittedRequest> unfinished_;  // by request id
  std::vector<std::vector<int32_t>> contents_;
  WorldCounts counts_;
  int64_t now_us_ = 0;
  int32_t to_submit_ = 0;
  int32_t forks_left_ = 0;
  std::deque<Flight> flights_;
  // [total_num_pages]: slots of the page that committed steps have filled since
  // it was lent; kPoisoned while it holds NaN only.
  static constexpr int32_t kPoisoned = -1;
  std::vector<int32_t> filled_;
  // Copies that a planted bug was put into.
  std::vector<int32_t> page_indices_;
  std::vector<int32_t> positions_;
  std::vector<PageAllocator::PageCopy> copies_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_TRANSFORMER_WORLD_H_
