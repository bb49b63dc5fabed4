// What a request generates does not depend on the schedule: in random worlds,
// under every kind of disturbance, each token is that of plain full attention.
//
// The usual run takes the first kUsualWorlds worlds. TIDEWHEEL_WORLDS=10000 in
// the environment takes that many, TIDEWHEEL_FIRST_WORLD=77 begins at a seed
// (with TIDEWHEEL_WORLDS=1: only that one, to reproduce a failure).

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/tiny_transformer.h"
#include "tests/sim/transformer_world.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

constexpr uint64_t kUsualWorlds = 500;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  uint64_t value = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &value))
      << name << "=" << text << " is not a whole number";
  return value;
}

TEST(ScheduleIndependenceTest, EveryTokenIsThatOfPlainFullAttention) {
  const uint64_t first = FromEnvironment("TIDEWHEEL_FIRST_WORLD", 0);
  const uint64_t worlds = FromEnvironment("TIDEWHEEL_WORLDS", kUsualWorlds);
  WorldCounts sum;
  for (uint64_t seed = first; seed < first + worlds; ++seed) {
    TransformerWorld world(seed);
    ASSERT_THAT(world.Run(), IsOk())
        << "TIDEWHEEL_FIRST_WORLD=" << seed << " TIDEWHEEL_WORLDS=1";
    sum.Add(world.counts());
  }
  std::cout << ToString(sum) << "\n";
  if (worlds < kUsualWorlds) return;
  // What is to be tested does happen, and often.
  const int64_t often = sum.worlds / 10;
  EXPECT_GT(sum.worlds_with_preemptions, often);
  EXPECT_GT(sum.worlds_with_hits, often);
  EXPECT_GT(sum.worlds_with_forks, often);
  EXPECT_GT(sum.worlds_with_copies, often);
  EXPECT_GT(sum.worlds_with_failed_steps, often);
  EXPECT_GT(sum.cancels, often);
  EXPECT_GT(sum.missing_tokens, often);
  EXPECT_GT(sum.resets, often);
  EXPECT_GT(sum.stopped, often);
  EXPECT_GT(sum.chunks, often);
  EXPECT_GT(sum.poisoned_pages, often);
  EXPECT_GT(sum.completed, 2 * sum.worlds);
}

// Canaries: each planted bug makes a token differ or lets a NaN through.
class ScheduleIndependenceCanaryTest : public testing::TestWithParam<int32_t> {
};

TEST_P(ScheduleIndependenceCanaryTest, PlantedBugIsFoundInManyWorlds) {
  constexpr uint64_t kWorlds = 100;
  int32_t found = 0;
  int32_t found_by_token = 0;
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    WorldSettings settings = DrawWorldSettings(seed);
    settings.sabotage = static_cast<WorldSabotage>(GetParam());
    TransformerWorld world(seed, settings);
    const absl::Status status = world.Run();
    if (status.ok()) continue;
    ++found;
    const std::string text(status.message());
    if (text.find("alone") != std::string::npos) ++found_by_token;
  }
  std::cout << found << " of " << kWorlds << " worlds found it, "
            << found_by_token << " by a token\n";
  EXPECT_GE(found, 6);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ScheduleIndependenceCanaryTest,
    testing::Range(1, static_cast<int32_t>(kLastWorldSabotage) + 1));

// A generated sequence may be compared to one plain run over all of it.
TEST(TinyTransformerTest, NextTokensOfAPrefixDoNotDependOnWhatFollows) {
  const TinyTransformer model(3, ScalarType::kFloat32);
  std::vector<int32_t> tokens = {7, 0, 63, 12, 12};
  std::vector<int32_t> alone;
  for (int32_t i = 0; i < 30; ++i) {
    alone.push_back(model.GreedyNext(tokens).back());
    tokens.push_back(alone.back());
  }
  std::vector<int32_t> together = model.GreedyNext(tokens);
  together.erase(together.begin(), together.begin() + 4);
  together.pop_back();
  EXPECT_EQ(together, alone);
}

// Else a wrong key would seldom show.
TEST(TinyTransformerTest, ContinuationsAreVariedAndDependOnTheFirstToken) {
  std::set<int32_t> seen;
  int32_t differ = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const TinyTransformer model(seed, ScalarType::kFloat32);
    std::vector<int32_t> tokens(20);
    std::iota(tokens.begin(), tokens.end(), 0);
    const std::vector<int32_t> next = model.GreedyNext(tokens);
    seen.insert(next.begin(), next.end());
    tokens.front() = 40;
    for (size_t i = 1; i < next.size(); ++i) {
      differ += model.GreedyNext(tokens)[i] != next[i] ? 1 : 0;
    }
  }
  EXPECT_GT(seen.size(), 40);
  EXPECT_GT(differ, 60);  // of 380
}

}  // namespace
}  // namespace tidewheel
