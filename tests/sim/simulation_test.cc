// Simulations of many seeds, and proof that a bug would be found by them.

#include "tests/sim/simulation.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

constexpr uint64_t kSeeds = 200;

TEST(FaultSimulationTest, NoSeedBreaksAnInvariantAndEveryRequestEnds) {
  SchedulerStats sum;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Simulation simulation(seed, DrawSettings(seed));
    ASSERT_THAT(simulation.Run(), IsOk()) << "seed " << seed;
    sum.finished += simulation.stats().finished;
    sum.steps += simulation.stats().steps;
    sum.failed_steps += simulation.stats().failed_steps;
    sum.dropped_steps += simulation.stats().dropped_steps;
    sum.preemptions += simulation.stats().preemptions;
    sum.prefix_cache_hits += simulation.stats().prefix_cache_hits;
    sum.refused += simulation.stats().refused;
  }
  // What is to be tested does happen.
  EXPECT_GT(sum.steps, 10'000);
  EXPECT_GT(sum.finished, 10'000);
  EXPECT_GT(sum.failed_steps, 500);
  EXPECT_GT(sum.dropped_steps, 100);
  EXPECT_GT(sum.preemptions, 1'000);
  EXPECT_GT(sum.prefix_cache_hits, 10'000);
  EXPECT_GT(sum.refused, 1'000);
}

// Canaries: each planted bug stands for a kind that the scheduler could have.
class FaultSimulationCanaryTest : public testing::TestWithParam<int32_t> {};

TEST_P(FaultSimulationCanaryTest, PlantedBugIsFoundWithinTwentySeeds) {
  int32_t found = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimSettings settings = DrawSettings(seed);
    settings.sabotage = static_cast<Sabotage>(GetParam());
    if (settings.sabotage == Sabotage::kWrongSource) {
      settings.scheduler.max_steps_in_flight = 2;
    }
    Simulation simulation(seed, settings);
    if (!simulation.Run().ok()) ++found;
  }
  EXPECT_GE(found, 10);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultSimulationCanaryTest,
                         testing::Range(1, static_cast<int32_t>(kLastSabotage) +
                                               1));

uint64_t HashOfPlans(uint64_t seed, const SimSettings& settings) {
  Simulation simulation(seed, settings);
  EXPECT_THAT(simulation.Run(), IsOk()) << "seed " << seed;
  return simulation.hash();
}

TEST(FaultSimulationTest, ASeedGivesTheSamePlansWhateverTheIndexIsSeededWith) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimSettings settings = DrawSettings(seed);
    const uint64_t hash = HashOfPlans(seed, settings);
    EXPECT_EQ(HashOfPlans(seed, settings), hash);
    settings.pages.hash_seed = 0x1234567890abcdef;
    EXPECT_EQ(HashOfPlans(seed, settings), hash);
    settings.pages.hash_mask = 0;
    EXPECT_EQ(HashOfPlans(seed, settings), hash);
    EXPECT_NE(HashOfPlans(seed + 1, settings), hash);
  }
}

// Of every compiler and build type: all that the scheduler decided for these
// seeds. A change of policy changes it, and nothing else may.
TEST(FaultSimulationTest, PlansAreThoseOfEveryOtherCompilerAndBuild) {
  PlanHash all;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    all.Add(HashOfPlans(seed, DrawSettings(seed)));
  }
  EXPECT_EQ(all.value(), 0x60b727c61fc6379au)
      << "if the policy was changed on purpose, the new value goes here";
}

}  // namespace
}  // namespace tidewheel
