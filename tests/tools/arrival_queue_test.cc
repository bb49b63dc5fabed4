#include "tools/arrival_queue.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/simulated_world.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;
using testing::Pair;

using Arrivals = std::vector<std::pair<int64_t, int32_t>>;

Arrivals TakeAll(ArrivalQueue& queue) {
  Arrivals arrivals;
  while (!queue.empty()) {
    arrivals.emplace_back(queue.next().time_us, queue.next().request);
    queue.Pop();
  }
  return arrivals;
}

TEST(ArrivalQueueTest, EqualTimesGoInTheTracesOrder) {
  const Trace trace = TraceOf({{0}, {0}, {5}, {5}});
  ArrivalQueue queue(trace);
  EXPECT_THAT(TakeAll(queue),
              ElementsAre(Pair(0, 0), Pair(0, 1), Pair(5, 2), Pair(5, 3)));
}

TEST(ArrivalQueueTest, LaterTurnHasNoArrivalUntilTheTurnBeforeHasEnded) {
  const Trace trace = TraceOf({{0, 1, 1}, {7, 1, 1, 0}, {100, 1, 1}});
  ArrivalQueue queue(trace);
  queue.Pop();
  EXPECT_EQ(queue.next().request, 2);
  queue.OnEnd(0, 50);
  EXPECT_THAT(TakeAll(queue), ElementsAre(Pair(57, 1), Pair(100, 2)));
}

TEST(ArrivalQueueTest, LaterTurnMayComeAfterEverythingElse) {
  const Trace trace = TraceOf({{0, 1, 1}, {7, 1, 1, 0}});
  ArrivalQueue queue(trace);
  queue.Pop();
  EXPECT_TRUE(queue.empty());
  queue.OnEnd(0, 1000);
  EXPECT_THAT(TakeAll(queue), ElementsAre(Pair(1007, 1)));
}

TEST(ArrivalQueueTest, LaterTurnOfTheSameTimeGoesByItsIndex) {
  const Trace trace =
      TraceOf({{0, 1, 1}, {10, 1, 1, 0}, {20, 1, 1}, {10, 1, 1, 0}});
  ArrivalQueue queue(trace);
  queue.Pop();
  queue.OnEnd(0, 10);
  EXPECT_THAT(TakeAll(queue),
              ElementsAre(Pair(20, 1), Pair(20, 2), Pair(20, 3)));
}

TEST(ArrivalQueueTest, EndOfARequestThatNobodyWaitsForChangesNothing) {
  const Trace trace = TraceOf({{0, 1, 1}, {7, 1, 1, 0}, {100, 1, 1}});
  ArrivalQueue queue(trace);
  queue.Pop();
  queue.OnEnd(2, 1);
  EXPECT_THAT(TakeAll(queue), ElementsAre(Pair(100, 2)));
}

TEST(ArrivalQueueDeathTest, EmptyQueueHasNothingToPop) {
  const Trace trace;
  ArrivalQueue queue(trace);
  EXPECT_DEATH(queue.Pop(), "empty");
}

}  // namespace
}  // namespace tidewheel
