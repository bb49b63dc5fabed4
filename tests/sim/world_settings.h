// WorldSettings: what one TransformerWorld is made of, drawn from its seed.

#ifndef TIDEWHEEL_TESTS_SIM_WORLD_SETTINGS_H_
#define TIDEWHEEL_TESTS_SIM_WORLD_SETTINGS_H_

#include <cstdint>
#include <string>

#include "allocator/page_allocator.h"
#include "attention/scalar_types.h"
#include "scheduler/scheduler_options.h"
#include "tests/sim/tiny_transformer_runner.h"

namespace tidewheel {

// A bug that a world plants between the scheduler and the model, to show that
// a token or a NaN would give it away.
enum class WorldSabotage {
  kNone,
  kIgnoredCopies,    // page copies are not done
  kReversedCopies,   // ... or in the wrong direction
  kLostWrite,        // the last token's K and V are zero afterwards
  kForeignPage,      // a row reads another row's first page
  kPosition,         // a token is one position off
  kUnwrittenCommit,  // a step that wrote nothing is committed
  kStaleCache,       // cached pages lose what they held
  kTokenOfAnother,   // two rows' tokens are exchanged
};
inline constexpr WorldSabotage kLastWorldSabotage =
    WorldSabotage::kTokenOfAnother;

struct WorldSettings {
  PageAllocator::Options pages;
  SchedulerOptions scheduler;
  ScalarType kv_type = ScalarType::kFloat32;
  TinyTransformerRunner::KvWrites kv_writes =
      TinyTransformerRunner::KvWrites::kByRunner;

  int32_t requests = 0;
  int32_t forks = 0;         // at most
  int32_t max_prompt = 0;    // tokens
  int32_t max_new = 0;       // tokens
  int32_t num_contents = 0;  // different beginnings of prompts

  // Chances in a thousand a step.
  int32_t arrival = 0;
  int32_t fork = 0;
  int32_t cancel = 0;
  int32_t failed_step = 0;
  int32_t missing_token = 0;  // a row
  int32_t reset = 0;

  WorldSabotage sabotage = WorldSabotage::kNone;
  // Of the requests: see SubmittedRequest.
  double logit_tolerance = 0;
};

WorldSettings DrawWorldSettings(uint64_t seed);

// One line, for a person who reproduces a failure.
std::string ToString(const WorldSettings& settings);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_SIM_WORLD_SETTINGS_H_
