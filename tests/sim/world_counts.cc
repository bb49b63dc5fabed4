#include "tests/sim/world_counts.h"

#include "absl/strings/str_cat.h"

namespace tidewheel {

void WorldCounts::Add(const WorldCounts& other) {
  worlds += other.worlds;
  steps += other.steps;
  finished += other.finished;
  completed += other.completed;
  stopped += other.stopped;
  tokens += other.tokens;
  near_ties += other.near_ties;
  preemptions += other.preemptions;
  hit_tokens += other.hit_tokens;
  forks += other.forks;
  copies += other.copies;
  cancels += other.cancels;
  failed_steps += other.failed_steps;
  missing_tokens += other.missing_tokens;
  resets += other.resets;
  chunks += other.chunks;
  poisoned_pages += other.poisoned_pages;
  worlds_with_preemptions += other.preemptions > 0 ? 1 : 0;
  worlds_with_hits += other.hit_tokens > 0 ? 1 : 0;
  worlds_with_forks += other.forks > 0 ? 1 : 0;
  worlds_with_copies += other.copies > 0 ? 1 : 0;
  worlds_with_failed_steps += other.failed_steps > 0 ? 1 : 0;
}

std::string ToString(const WorldCounts& counts) {
  return absl::StrCat(
      counts.worlds, " worlds, ", counts.steps, " steps, ", counts.finished,
      " requests ended (", counts.completed, " completed, ", counts.stopped,
      " by a stop token, ", counts.cancels, " cancelled), ", counts.tokens,
      " tokens compared\npreemptions ", counts.preemptions, " in ",
      counts.worlds_with_preemptions, " worlds, cached tokens found ",
      counts.hit_tokens, " in ", counts.worlds_with_hits, ", forks ",
      counts.forks, " in ", counts.worlds_with_forks, ", page copies ",
      counts.copies, " in ", counts.worlds_with_copies, ", failed steps ",
      counts.failed_steps, " in ", counts.worlds_with_failed_steps,
      "\nmissing tokens ", counts.missing_tokens, ", cache resets ",
      counts.resets, ", unfinished chunks ", counts.chunks,
      ", pages poisoned when freed ", counts.poisoned_pages);
}

}  // namespace tidewheel
