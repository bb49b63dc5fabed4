// DeviceTransformer: TinyTransformer as programs for a PJRT device, in float32,
// all but its attention: what a server that embeds ResidentAttention has.
//
// A step is Begin (tokens to the first layer's q, k and v), for each layer an
// attention that is not its business and then Next (to the next layer's q, k
// and v) or, behind the last one, Sample. Everything stays on the device and
// nothing waits, so a step may be launched with tokens that the step before it
// is still to sample.
//
// Thread-safety: one call at a time.

#ifndef TIDEWHEEL_TESTS_SIM_DEVICE_TRANSFORMER_H_
#define TIDEWHEEL_TESTS_SIM_DEVICE_TRANSFORMER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/program_cache.h"
#include "attention/stablehlo/program_builder.h"
#include "tests/sim/tiny_transformer.h"

namespace tidewheel {

class DeviceTransformer {
 public:
  struct Sizes {
    int32_t num_tokens = 0;     // of every step, with padding
    int32_t max_num_seqs = 0;   // rows of which one may be sampled
    int32_t max_positions = 0;  // tokens of a sequence
  };
  // Between two attentions. [num_tokens, ...]
  struct State {
    PjrtBuffer hidden;
    PjrtBuffer q;
    PjrtBuffer k;
    PjrtBuffer v;
  };

  // Errors: the compiler's.
  static absl::StatusOr<std::unique_ptr<DeviceTransformer>> Create(
      ProgramCache* programs, const Sizes& sizes);

  // Other weights; the programs stay.
  absl::Status SetModel(const TinyTransformer& model);

  const Sizes& sizes() const { return sizes_; }

  // i32 arrays; `source_rows` names for a token the row of `sampled` that it
  // is, -1 where it is known. `sampled` may be empty if all are.
  absl::Status Begin(std::span<const int32_t> token_ids,
                     std::span<const int32_t> source_rows,
                     std::span<const int32_t> positions, PjrtBuffer& sampled,
                     State& state);
  absl::Status Next(int32_t layer, PjrtBuffer& attention, State& state);
  // `last_tokens`: of each row its last token, [max_num_seqs]. `sampled`
  // becomes the likeliest next token of each, kVocabulary if a logit is NaN.
  absl::Status Sample(std::span<const int32_t> last_tokens,
                      PjrtBuffer& attention, State& state, PjrtBuffer& sampled);

 private:
  enum Weight {
    kAttentionNorm,
    kQkv,
    kOutput,
    kMlpNorm,
    kGate,
    kUp,
    kDown,
    kNumWeights
  };

  DeviceTransformer(ProgramCache* programs, const Sizes& sizes)
      : programs_(programs), sizes_(sizes) {}

  absl::Status Compile();
  Program EmitBegin() const;
  Program EmitNext() const;
  Program EmitSample() const;
  absl::StatusOr<PjrtBuffer> UploadInts(std::span<const int32_t> values) const;
  absl::StatusOr<PjrtBuffer> UploadFloats(std::span<const float> values,
                                          int64_t rows, int64_t columns) const;
  absl::Status UploadTurns();

  ProgramCache* const programs_;
  const Sizes sizes_;
  std::unique_ptr<PjrtExecutable> fill_;
  std::unique_ptr<PjrtExecutable> begin_;
  std::unique_ptr<PjrtExecutable> next_;
  std::unique_ptr<PjrtExecutable> sample_;
  PjrtBuffer cosines_;  // [max_positions, kHeadDim / 2]
  PjrtBuffer sines_;
  PjrtBuffer positions_;  // of the step
  PjrtBuffer embedding_;
  PjrtBuffer final_norm_;
  PjrtBuffer unembed_;
  std::vector<std::vector<PjrtBuffer>> weights_;  // [kNumLayers][kNumWeights]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_DEVICE_TRANSFORMER_H_
