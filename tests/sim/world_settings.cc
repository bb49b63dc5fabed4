#include "tests/sim/world_settings.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "tests/sim/draw.h"

namespace tidewheel {
namespace {

// Small enough that every limit is met: a pool of one or two of the longest
// sequences, a few rows, budgets of a few tokens.
void DrawPages(Draw& draw, WorldSettings& settings) {
  constexpr std::array<int32_t, 7> kPageSizes = {1, 2, 3, 4, 5, 8, 16};
  PageAllocator::Options& pages = settings.pages;
  pages.page_size = kPageSizes[static_cast<size_t>(draw.Below(7))];
  settings.scheduler.max_model_len = draw.Between(10, 48);
  const int32_t longest =
      (settings.scheduler.max_model_len - 1 + pages.page_size - 1) /
      pages.page_size;
  pages.pages_per_seq = longest + draw.Below(2);
  pages.total_num_pages = 1 + longest + draw.Below(longest + 1);
  if (draw.OneIn(8)) pages.total_num_pages = draw.Between(2, 1 + longest);
  pages.max_num_seqs = draw.OneIn(6) ? 1 : draw.Between(2, 8);
  pages.enable_prefix_cache = !draw.OneIn(4);
  // Every page of one hash: only tokens tell them apart.
  if (draw.OneIn(8)) pages.hash_mask = 0;
}

void DrawScheduler(Draw& draw, WorldSettings& settings) {
  SchedulerOptions& scheduler = settings.scheduler;
  scheduler.max_num_seqs = settings.pages.max_num_seqs;
  if (draw.OneIn(3)) {
    scheduler.max_num_seqs = draw.Between(1, settings.pages.max_num_seqs);
  }
  scheduler.max_num_batched_tokens =
      scheduler.max_num_seqs + draw.Below(draw.OneIn(2) ? 6 : 60);
  scheduler.policy =
      draw.OneIn(2) ? OrderingPolicy::kFcfs : OrderingPolicy::kPriority;
  scheduler.priority_age_us = draw.OneIn(2) ? 0 : draw.Between(1, 50);
  scheduler.admission =
      draw.OneIn(5) ? AdmissionPolicy::kReserve : AdmissionPolicy::kOptimistic;
  if (draw.OneIn(4)) {
    scheduler.watermark_pages = draw.Below(settings.pages.total_num_pages);
  }
  scheduler.chunked_prefill = !draw.OneIn(6);
  if (scheduler.chunked_prefill && draw.OneIn(2)) {
    scheduler.max_prefill_chunk =
        draw.Between(1, scheduler.max_num_batched_tokens);
  }
  scheduler.max_bypasses = draw.Below(4);
  scheduler.bypass_lookahead = draw.Below(4);
  scheduler.max_waiting = 32;
  scheduler.max_step_failures = draw.OneIn(4) ? draw.Between(1, 3) : 1000;
  // The world asks the same of each plan, and says which seed broke it.
  scheduler.validate_steps = false;
}

void DrawWorkload(Draw& draw, WorldSettings& settings) {
  settings.kv_type =
      draw.OneIn(3) ? ScalarType::kBfloat16 : ScalarType::kFloat32;
  settings.kv_writes = draw.OneIn(2)
                           ? TinyTransformerRunner::KvWrites::kByRunner
                           : TinyTransformerRunner::KvWrites::kByBackend;
  settings.requests = draw.Between(2, 9);
  settings.forks = draw.OneIn(3) ? 0 : draw.Between(1, 6);
  const int32_t model_len = settings.scheduler.max_model_len;
  settings.max_prompt = draw.OneIn(2) ? draw.Between(1, model_len / 3)
                                      : draw.Between(model_len / 3, model_len);
  settings.max_new = draw.OneIn(4) ? draw.Between(1, 8) : 40;
  settings.num_contents = draw.Between(1, 3);
  settings.arrival = draw.OneIn(3) ? 1000 : draw.Between(100, 900);
  settings.fork = draw.Between(20, 300);
}

// A third of the worlds have no faults, so that what faults break is told from
// what is broken anyhow.
void DrawFaults(Draw& draw, WorldSettings& settings) {
  if (draw.OneIn(3)) return;
  if (draw.OneIn(2)) settings.cancel = draw.Between(5, 100);
  if (draw.OneIn(2)) settings.failed_step = draw.Between(10, 300);
  if (draw.OneIn(3)) settings.missing_token = draw.Between(5, 80);
  if (draw.OneIn(3)) settings.reset = draw.Between(10, 100);
}

}  // namespace

WorldSettings DrawWorldSettings(uint64_t seed) {
  Draw draw(seed);
  WorldSettings settings;
  DrawPages(draw, settings);
  DrawScheduler(draw, settings);
  DrawWorkload(draw, settings);
  DrawFaults(draw, settings);
  settings.scheduler.max_steps_in_flight = draw.Between(1, 2);
  return settings;
}

std::string ToString(const WorldSettings& settings) {
  const PageAllocator::Options& pages = settings.pages;
  const SchedulerOptions& scheduler = settings.scheduler;
  return absl::StrCat(
      pages.total_num_pages, " pages of ", pages.page_size, ", rows ",
      scheduler.max_num_seqs, " of ", pages.max_num_seqs, ", budget ",
      scheduler.max_num_batched_tokens, ", chunk ", scheduler.max_prefill_chunk,
      ", chunked ", scheduler.chunked_prefill, ", model length ",
      scheduler.max_model_len, ", cache ", pages.enable_prefix_cache,
      ", policy ", static_cast<int32_t>(scheduler.policy), ", admission ",
      static_cast<int32_t>(scheduler.admission), ", watermark ",
      scheduler.watermark_pages, ", KV type ",
      static_cast<int32_t>(settings.kv_type), " written by ",
      static_cast<int32_t>(settings.kv_writes), ", requests ",
      settings.requests, ", prompts to ", settings.max_prompt, ", outputs to ",
      settings.max_new, ", forks ", settings.forks, ", contents ",
      settings.num_contents, ", cancel ", settings.cancel, ", failed ",
      settings.failed_step, ", missing ", settings.missing_token, ", reset ",
      settings.reset, ", in flight ", scheduler.max_steps_in_flight);
}

}  // namespace tidewheel
