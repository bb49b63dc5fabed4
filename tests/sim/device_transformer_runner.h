// DeviceTransformerRunner: TinyTransformer on a PJRT device, with its KV pages
// there, driven by a StepPipeline: a server's runner in small.
//
// Launch waits for nothing: tokens that the step before is still to sample are
// filled in on the device. Await reads one array of tokens.
//
// The device's memory is hostile: every page but page 0 is NaN at first, and
// one NaN that reaches a token's logits fails the step. On demand steps fail:
// at launch in the middle of the layers, or when they are awaited.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_TESTS_SIM_DEVICE_TRANSFORMER_RUNNER_H_
#define TIDEWHEEL_TESTS_SIM_DEVICE_TRANSFORMER_RUNNER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "attention/pjrt/resident_attention.h"
#include "scheduler/model_runner.h"
#include "tests/sim/device_transformer.h"
#include "tests/sim/draw.h"

namespace tidewheel {

class DeviceTransformerRunner : public PipelinedRunner {
 public:
  struct Counts {
    int64_t launches = 0;
    int64_t launches_behind_another = 0;  // that was not awaited
    int64_t filled_tokens = 0;
    int64_t failed_launches = 0;
    int64_t failed_awaits = 0;
    int64_t dropped = 0;
  };

  // All outlive the runner. `failures`: in a thousand steps.
  DeviceTransformerRunner(DeviceTransformer* model,
                          ResidentAttention* attention, uint64_t seed,
                          int32_t failures)
      : model_(model),
        attention_(attention),
        draw_(seed),
        failures_(failures) {}

  // NaN in all pages but page 0.
  absl::Status PoisonPages();

  absl::Status Launch(const StepPlan& plan) override;
  absl::Status Await(int64_t step_id, std::span<int32_t> sampled) override;
  void Drop(int64_t step_id) override;

  const Counts& counts() const { return counts_; }

 private:
  // A step that was launched and neither awaited nor dropped.
  struct Flight {
    int64_t step_id = 0;
    std::vector<uint8_t> wants_logits;
    std::vector<int32_t> tokens;  // [max_num_seqs], when `read` is done
    PjrtEvent read;
  };

  absl::Status RunStep(Flight& flight);
  void FillTokens(const StepPlan& plan);

  DeviceTransformer* const model_;
  ResidentAttention* const attention_;
  Draw draw_;
  const int32_t failures_;
  PjrtBuffer sampled_;  // of the step launched last, [max_num_seqs]
  std::deque<Flight> flights_;
  Counts counts_;
  // Of a step, with padding.
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> source_rows_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> last_tokens_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_DEVICE_TRANSFORMER_RUNNER_H_
