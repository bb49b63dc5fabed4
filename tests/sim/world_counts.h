// WorldCounts: what happened in transformer worlds, to say that what was to be
// tested did happen.

#ifndef TIDEWHEEL_TESTS_SIM_WORLD_COUNTS_H_
#define TIDEWHEEL_TESTS_SIM_WORLD_COUNTS_H_

#include <cstdint>
#include <string>

namespace tidewheel {

// What happened, over one world or many.
struct WorldCounts {
  int64_t worlds = 0;
  int64_t steps = 0;
  int64_t finished = 0;
  int64_t completed = 0;  // of those, by a stop token or a limit
  int64_t stopped = 0;    // of those, by a token
  int64_t tokens = 0;     // generated and compared
  // Of those, tokens that are right within logit_tolerance only.
  int64_t near_ties = 0;
  int64_t preemptions = 0;
  int64_t hit_tokens = 0;
  int64_t forks = 0;
  int64_t copies = 0;
  int64_t cancels = 0;
  int64_t failed_steps = 0;
  int64_t missing_tokens = 0;
  int64_t resets = 0;
  int64_t chunks = 0;          // prompts that took several steps
  int64_t poisoned_pages = 0;  // on becoming free
  // Worlds in which it happened at all.
  int64_t worlds_with_preemptions = 0;
  int64_t worlds_with_hits = 0;
  int64_t worlds_with_forks = 0;
  int64_t worlds_with_copies = 0;
  int64_t worlds_with_failed_steps = 0;

  void Add(const WorldCounts& other);
};

// Three lines.
std::string ToString(const WorldCounts& counts);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_WORLD_COUNTS_H_
