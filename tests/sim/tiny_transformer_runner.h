// TinyTransformerRunner: TinyTransformer as a server would run it, step by step
// over pages of keys and values, with any attention backend.
//
// It does what StepPlan asks of a runner and no more: the copies in order, this
// step's K and V into the pages that page_indices name, attention once a layer
// with the plan's own batch, and a token for each row that wants one. It finds
// everything in the plan; it keeps no state of a request.
//
// Its memory is hostile. The null page is zero; every other slot is NaN until
// something is written to it. A slot that a step is to write is made NaN again
// before, so that nobody can profit from what the page held in an earlier life,
// and so are the slots behind it in its page. Padding queries are NaN. One NaN
// that reaches a logit fails the step.
//
// Memory: kNumLayers pools of pages, allocated in the constructor.

#ifndef TIDEWHEEL_TESTS_SIM_TINY_TRANSFORMER_RUNNER_H_
#define TIDEWHEEL_TESTS_SIM_TINY_TRANSFORMER_RUNNER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "attention/attention_backend.h"
#include "scheduler/model_runner.h"
#include "tests/sim/tiny_transformer.h"

namespace tidewheel {

class TinyTransformerRunner : public ModelRunner {
 public:
  // Who writes K and V.
  enum class KvWrites {
    kByRunner,   // the runner, for all rows, before attention
    kByBackend,  // WriteKvAndAttend
  };
  struct Options {
    int32_t total_num_pages = 0;
    int32_t page_size = 0;  // tokens
    KvWrites kv_writes = KvWrites::kByRunner;
  };

  // REQUIRES: both outlive the runner.
  TinyTransformerRunner(const TinyTransformer* model, AttentionBackend* backend,
                        const Options& options);

  // Errors: Internal where NaN reached a logit, and those of the backend.
  absl::Status Run(const StepPlan& plan, std::span<int32_t> sampled) override;

  // A device that is lost on the way: does the copies, writes K and V of the
  // first `num_writes` tokens, counted over all layers, and stops.
  // Errors: Unavailable always, unless Run's come first.
  absl::Status RunAndFail(const StepPlan& plan, int64_t num_writes);

  // Makes a page that belongs to nobody NaN.
  void PoisonPage(int32_t page) { Fill(page, 0, options_.page_size, kPoison); }
  // Loses what the step wrote for `row`: NaN in its last q_len slots.
  void PoisonWrites(const StepPlan& plan, int32_t row);
  // Sets K and V of a page's slots [first_slot, end_slot), in all layers.
  // REQUIRES: not the null page.
  void Fill(int32_t page, int32_t first_slot, int32_t end_slot, float value);

 private:
  static constexpr float kPoison = __builtin_nanf("");

  MutableKvPagesView Pages(int32_t layer);
  // All of a step but sampling; with `max_writes` only up to there.
  absl::Status RunLayers(const StepPlan& plan,
                         std::optional<int64_t> max_writes);
  void Copy(const StepPlan& plan);
  void PoisonWhatIsWritten(const StepPlan& plan);
  void Project(const StepPlan& plan, int32_t layer);
  bool WriteKv(const StepPlan& plan, int32_t layer, int64_t& writes_left);
  absl::Status Attend(const StepPlan& plan, int32_t layer, KvWrites kv_writes);
  absl::Status Sample(const StepPlan& plan, std::span<int32_t> sampled) const;

  const TinyTransformer* model_;
  AttentionBackend* backend_;
  Options options_;
  // Per layer [total_num_pages, page_size, 2 * kNumKvHeads, kHeadDim].
  std::vector<std::vector<char>> pages_;
  std::vector<TinyTransformer::Hidden> hidden_;  // [query tokens]
  // [max_num_batched_tokens, heads, kHeadDim]
  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
  std::vector<float> attention_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_TINY_TRANSFORMER_RUNNER_H_
