// TpuLimits: what a TPU generation accepts of the ragged paged attention
// kernel, and why not. The facade of the rules.
//
// It predicts JAX's kernel (jax 0.10.2) compiled by libtpu 0.0.42.1 or 0.0.52
// without having either: a verdict takes a microsecond where a compile takes
// seconds, and over a minute where vector memory overflows badly. It knows
// nothing of time or of HBM (tpu_cost_model, capacity_plan).
//
//   shape_rules  heads, head_dim, types, blocks     exact where tried
//   smem_rule    the page table in scalar memory    exact
//   vmem_rule    a choice of blocks                 an upper and a lower bound
//
// A verdict of ok means that the compile succeeds. One that is not means that
// it fails, but for may_compile: the limit of vector memory lies between the
// bounds, and the compiler's choice of spills, which no rule here knows,
// decides.
//
// Thread-safety: immutable. Findings allocate, nothing else does.

#ifndef TIDEWHEEL_ATTENTION_TPU_LIMITS_H_
#define TIDEWHEEL_ATTENTION_TPU_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/block_choice.h"
#include "attention/kernel_shape.h"
#include "attention/limit_finding.h"
#include "attention/tpu_generation.h"

namespace tidewheel {

struct Verdict {
  bool ok = false;
  // Not ok, for no other reason than that the need is not known to fit.
  bool may_compile = false;
  // The first rule that is broken, in the order of a compile; absent if ok.
  std::optional<LimitClass> failure = std::nullopt;
  // What the memory in question needs at most and has, bytes: scalar memory if
  // that is the failure, else vector memory. Absent where the shape is refused
  // before memory matters.
  std::optional<int64_t> needed_bytes = std::nullopt;
  std::optional<int64_t> limit_bytes = std::nullopt;
  // The finding's sentence, or what fits and how closely.
  std::string text;
};

// What a page size is asked for.
struct PageSizeQuery {
  int64_t max_model_len = 0;  // tokens
  int32_t max_num_seqs = 0;
  int32_t at_least = 16;  // tokens a page
};

class TpuLimits {
 public:
  explicit TpuLimits(TpuGeneration generation) : generation_(generation) {}

  TpuGeneration generation() const { return generation_; }

  // Every rule that the shape breaks, in the order of a compile.
  std::vector<LimitFinding> Findings(const KernelShape& shape) const;

  Verdict Predict(const KernelShape& shape) const;

  // See block_choice.h.
  absl::StatusOr<BlockChoice> ChooseBlocks(const KernelShape& shape) const;

  // The smallest power of two of tokens a page for which the page table fits
  // scalar memory; nothing if one page a sequence is too much already.
  // REQUIRES: positive numbers.
  std::optional<int32_t> SmallestPageSize(const PageSizeQuery& query) const;

  // The most sequences whose page table fits scalar memory; 0 if none.
  // REQUIRES: pages_per_seq > 0.
  int32_t LargestMaxNumSeqs(int32_t pages_per_seq) const;

 private:
  TpuGeneration generation_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_TPU_LIMITS_H_
