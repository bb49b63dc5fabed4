// The waiting queue against a sorted set, and the slots of sequences.

#include "scheduler/waiting_queue.h"

#include <cstdint>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/sequence_store.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

TEST(WaitingQueueTest, EqualsASortedMapAfterEachOfManyOperations) {
  constexpr int32_t kSlots = 24;
  constexpr int32_t kFirst = 7;
  std::mt19937 random(1);
  WaitingQueue queue(kSlots, kFirst);
  std::map<std::tuple<int64_t, uint64_t>, int32_t> naive;
  std::vector<Rank> ranks(kSlots);
  uint64_t arrival = 0;
  for (int32_t step = 0; step < 20'000; ++step) {
    const int32_t slot = static_cast<int32_t>(random() % kSlots);
    if (queue.contains(slot)) {
      queue.Remove(slot);
      naive.erase({ranks[slot].key, ranks[slot].arrival});
    } else {
      // Every other one returns with the rank that it had.
      if (random() % 2 == 0 || ranks[slot].arrival == 0) {
        ranks[slot] = {static_cast<int64_t>(random() % 5), ++arrival};
      }
      queue.Push(slot, ranks[slot]);
      naive[{ranks[slot].key, ranks[slot].arrival}] = slot;
    }
    ASSERT_THAT(queue.CheckInvariants(), IsOk());
    ASSERT_EQ(queue.size(), static_cast<int32_t>(naive.size()));
    std::vector<int32_t> found(random() % (kFirst + 1));
    const size_t count = static_cast<size_t>(queue.CopyFirst(found));
    ASSERT_EQ(count, std::min(found.size(), naive.size()));
    auto expected = naive.begin();
    for (size_t i = 0; i < count; ++i, ++expected) {
      ASSERT_EQ(found[i], expected->second);
    }
    if (!queue.empty()) {
      ASSERT_EQ(queue.first(), naive.begin()->second);
    }
  }
}

TEST(WaitingQueueDeathTest, PushOfWhoWaitsAndRemoveOfWhoDoesNot) {
  WaitingQueue queue(2, 1);
  EXPECT_DEATH(queue.Remove(0), "contains");
  queue.Push(0, {});
  EXPECT_DEATH(queue.Push(0, {}), "contains");
}

TEST(SequenceStoreTest, ASlotThatComesBackHasANewNameAndKeepsItsArrays) {
  SequenceStore store(1);
  const std::optional<int32_t> slot = store.TryAcquire(10, 1);
  ASSERT_TRUE(slot.has_value());
  EXPECT_FALSE(store.TryAcquire(1, 0).has_value());
  const RequestId old = store[*slot].id;
  const int32_t* tokens = store[*slot].tokens.get();
  EXPECT_EQ(store.Find(old), slot);
  store[*slot].state = SequenceState::kEnded;
  EXPECT_EQ(store.Find(old), slot);
  store.Recycle(*slot);
  EXPECT_FALSE(store.Find(old).has_value());
  ASSERT_EQ(store.TryAcquire(10, 1), slot);
  EXPECT_FALSE(store.Find(old).has_value());
  EXPECT_EQ(store[*slot].tokens.get(), tokens);
  EXPECT_GT(store[*slot].rank.arrival, 1u);
}

TEST(SequenceStoreTest, NoNameNamesASlotThatWasNeverUsed) {
  SequenceStore store(3);
  for (uint64_t id = 0; id < 10; ++id) {
    EXPECT_FALSE(store.Find({id}).has_value()) << id;
  }
}

TEST(SequenceStoreDeathTest, RecycleOfWhatHasNotEnded) {
  SequenceStore store(1);
  ASSERT_TRUE(store.TryAcquire(10, 1).has_value());
  EXPECT_DEATH(store.Recycle(0), "kEnded");
}

}  // namespace
}  // namespace tidewheel
