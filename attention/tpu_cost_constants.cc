#include "attention/tpu_cost_constants.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tidewheel {
namespace {

using C = TpuCostConstants;

// The published measurements that the sources name:
//  - LLMServingSim's TPU profile 5daddb2, v6e, Llama-3.1-8B: the linears of a
//    layer (436 MB) take 273.5 us at 1 token, lm_head (1.05 GB) 0.68 ms at 32
//    tokens, the gate projection 177 us at 1024 tokens.
//  - AI-Hypercomputer tpu-recipes c8cfe2f: matmuls of 8192^3 and 16384^3, HBM
//    copies. marin #6736: ppermute on v6e. arXiv 2604.15464: ragged paged
//    attention on v7x. Serving runs of tpu-recipes, sglang-jax and
//    tpu-inference on v6e.
constexpr TpuCostConstantEntry kTable[] = {
    {"weight_stream_efficiency", &C::weight_stream_efficiency, 0.95, 0.05, 1.1,
     "of peak HBM bandwidth",
     "0.97 for the linears of a layer, 0.94 for lm_head"},
    {"matmul_efficiency", &C::matmul_efficiency, 0.74, 0.01, 1,
     "of peak FLOP/s",
     "0.74 for a projection of 1024 tokens; 0.82 to 0.90 for large squares"},
    {"kv_read_efficiency", &C::kv_read_efficiency, 0.70, 0.01, 1,
     "of peak HBM bandwidth",
     "0.86 at best in decode; serving runs imply 0.3 to 0.86"},
    {"attention_efficiency", &C::attention_efficiency, 0.50, 0.01, 1,
     "of peak FLOP/s, of scores that are not masked",
     "0.73 at best in prefill; blocks on the diagonal are computed whole"},
    {"attention_block_query_rows", &C::attention_block_query_rows, 1024, 1,
     1048576, "query tokens x query heads per KV head",
     "default blocks of tpu-inference's kernel v3 for prefill on v5 and v6"},
    {"layer_overhead_s", &C::layer_overhead_s, 15e-6, 0, 1, "s per layer",
     "norms, rotary embedding, residuals, KV write: what serving runs leave"},
    {"step_overhead_s", &C::step_overhead_s, 1.5e-3, 0, 10, "s per step",
     "dispatch and sampling on one chip: what serving runs leave"},
    {"group_step_overhead_s", &C::group_step_overhead_s, 2.5e-3, 0, 10,
     "s per step, more if the group has several devices",
     "dispatch and collectives are 6 to 7 ms a step on 4 chips"},
    {"link_latency_s", &C::link_latency_s, 2.29e-6, 0, 1, "s per hop",
     "ppermute on v6e"},
    {"link_efficiency", &C::link_efficiency, 0.964, 0.01, 1, "of a link's rate",
     "ppermute on v6e: 86.8 of 90 GB/s"},
    {"link_directions", &C::link_directions, 2, 1, 12,
     "links x directions that a ring all-reduce keeps busy",
     "a ring sends both ways at once"},
    {"unstated_link_bytes_per_s", &C::unstated_link_bytes_per_s, 90e9, 1e6,
     1e13, "B/s", "v6e, for chips whose link rate is not published"}};

}  // namespace

TpuCostConstants::TpuCostConstants() {
  for (const TpuCostConstantEntry& info : kTable) {
    this->*info.field = info.default_value;
  }
}

std::span<const TpuCostConstantEntry> TpuCostConstantTable() { return kTable; }

absl::Status SetTpuCostConstant(TpuCostConstants& constants,
                                absl::string_view name, double value) {
  std::vector<absl::string_view> names;
  for (const TpuCostConstantEntry& info : kTable) {
    names.push_back(info.name);
    if (info.name != name) continue;
    // Written so that NaN fails it.
    if (!(value >= info.min && value <= info.max)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost constant ", name, " ", value, " is outside [",
                       info.min, ", ", info.max, "] (", info.unit,
                       "); the default is ", info.default_value));
    }
    constants.*info.field = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("cost constant \"", name,
                                                 "\" is not known; known are ",
                                                 absl::StrJoin(names, ", ")));
}

}  // namespace tidewheel
