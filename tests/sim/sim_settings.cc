#include "tests/sim/sim_settings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/draw.h"

namespace tidewheel {
namespace {

// Worlds are small, so that limits are met all the time: pools of a few pages,
// a handful of rows, pages of one to a few tokens.
void DrawWorld(Draw& draw, SimSettings& settings) {
  PageAllocator::Options& pages = settings.pages;
  SchedulerOptions& scheduler = settings.scheduler;
  pages.page_size = draw.Between(1, 6);
  pages.total_num_pages =
      draw.OneIn(4) ? draw.Between(2, 12) : draw.Between(8, 60);
  pages.max_num_seqs = draw.Between(1, 12);
  scheduler.max_model_len = draw.Between(2, 90);
  pages.pages_per_seq =
      (scheduler.max_model_len + pages.page_size - 1) / pages.page_size +
      draw.Below(3);
  pages.enable_prefix_cache = !draw.OneIn(5);
  pages.max_isolation_keys = draw.Between(1, 4);
  pages.max_pins = 2;
  // Every page of one hash: only tokens tell them apart.
  if (draw.OneIn(6)) pages.hash_mask = 0;
  scheduler.max_num_seqs =
      draw.OneIn(3) ? draw.Between(1, pages.max_num_seqs) : pages.max_num_seqs;
  scheduler.max_num_batched_tokens =
      scheduler.max_num_seqs + draw.Below(draw.OneIn(2) ? 8 : 120);
  scheduler.validate_steps = false;
}

void DrawPolicy(Draw& draw, SimSettings& settings) {
  SchedulerOptions& scheduler = settings.scheduler;
  scheduler.policy =
      draw.OneIn(2) ? OrderingPolicy::kFcfs : OrderingPolicy::kPriority;
  scheduler.priority_age_us = draw.OneIn(2) ? 0 : draw.Between(1, 200);
  scheduler.admission =
      draw.OneIn(4) ? AdmissionPolicy::kReserve : AdmissionPolicy::kOptimistic;

  scheduler.chunked_prefill = !draw.OneIn(5);
  if (scheduler.chunked_prefill && draw.OneIn(2)) {
    scheduler.max_prefill_chunk =
        draw.Between(1, scheduler.max_num_batched_tokens);
  }
  scheduler.max_bypasses = draw.Below(5);
  scheduler.bypass_lookahead = draw.Below(6);
  scheduler.max_waiting = draw.Between(1, 40);
  scheduler.max_queue_time_us = draw.OneIn(4) ? draw.Between(50, 2000) : 0;
  scheduler.max_step_failures = draw.Between(1, 4);
}

void DrawWorkload(Draw& draw, SimSettings& settings) {
  settings.steps = draw.Between(60, 300);
  settings.arrivals = draw.Between(1, 3);
  settings.max_prompt = draw.Between(1, 90);
  settings.max_new = draw.Between(1, 60);
  settings.num_contents = draw.OneIn(3) ? 1 : draw.Between(2, 12);
  settings.num_salts = draw.Between(1, 3);
  settings.fork = draw.OneIn(2) ? draw.Between(1, 250) : 0;
  settings.vocabulary = draw.OneIn(2) ? draw.Between(6, 12) : 500;
  settings.max_step_us = draw.Between(1, 60);
  if (draw.OneIn(4)) return;
  // A pool that the longest request fits once or twice.
  const int32_t longest = std::min(settings.scheduler.max_model_len,
                                   settings.max_prompt + settings.max_new);
  const int32_t pages = longest / settings.pages.page_size + 1;
  settings.pages.total_num_pages = 2 + pages * draw.Between(100, 220) / 100;
}

// A third of the seeds have no faults, so that what faults break is told from
// what is broken anyhow.
void DrawFaults(Draw& draw, SimSettings& settings) {
  if (draw.OneIn(3)) return;
  if (draw.OneIn(2)) settings.failed_step = draw.Between(1, 300);
  if (draw.OneIn(2)) settings.missing_token = draw.Between(1, 60);
  if (draw.OneIn(2)) settings.cancel = draw.Between(1, 200);
  if (draw.OneIn(3)) settings.pin = draw.Between(1, 100);
  if (draw.OneIn(4)) settings.reset = draw.Between(1, 60);
  if (draw.OneIn(2)) settings.burst = draw.Between(1, 50);
  settings.poison = draw.OneIn(4);
}

}  // namespace

SimSettings DrawSettings(uint64_t seed) {
  Draw draw(seed);
  SimSettings settings;
  DrawWorld(draw, settings);
  DrawPolicy(draw, settings);
  DrawWorkload(draw, settings);
  DrawFaults(draw, settings);
  if (draw.OneIn(4)) {
    settings.scheduler.watermark_pages =
        draw.Below(settings.pages.total_num_pages);
  }
  settings.scheduler.max_steps_in_flight = draw.Between(1, 2);
  if (settings.failed_step > 0 && draw.OneIn(2)) {
    settings.newest_fails = draw.Between(1, 200);
  }
  return settings;
}

std::string ToString(const SimSettings& settings) {
  const PageAllocator::Options& pages = settings.pages;
  const SchedulerOptions& scheduler = settings.scheduler;
  return absl::StrCat(
      pages.total_num_pages, " pages of ", pages.page_size, ", rows ",
      scheduler.max_num_seqs, ", budget ", scheduler.max_num_batched_tokens,
      ", model length ", scheduler.max_model_len, ", cache ",
      pages.enable_prefix_cache, ", policy ",
      static_cast<int32_t>(scheduler.policy), ", admission ",
      static_cast<int32_t>(scheduler.admission), ", watermark ",
      scheduler.watermark_pages, ", chunked ", scheduler.chunked_prefill,
      ", cap ", scheduler.max_prefill_chunk, ", bypasses ",
      scheduler.max_bypasses, ", lookahead ", scheduler.bypass_lookahead,
      ", in flight ", scheduler.max_steps_in_flight, ", steps ", settings.steps,
      ", prompts to ", settings.max_prompt, ", outputs to ", settings.max_new,
      ", contents ", settings.num_contents, ", salts ", settings.num_salts,
      ", fork ", settings.fork, ", failed ", settings.failed_step,
      ", newest fails ", settings.newest_fails, ", missing ",
      settings.missing_token, ", cancel ", settings.cancel, ", pin ",
      settings.pin, ", reset ", settings.reset, ", poison ", settings.poison);
}

}  // namespace tidewheel
