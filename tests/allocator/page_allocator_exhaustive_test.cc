// All that can happen to PageAllocator in small worlds.
//
// Breadth first from the empty world: every operation is tried in every state,
// to a depth or until there is no new state. A state is known by its
// fingerprint and reached again by repeating the operations that led to it.

#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/allocator/allocator_operations.h"
#include "tests/allocator/allocator_world.h"

namespace tidewheel {
namespace {

struct SmallWorld {
  PageAllocator::Options options;
  std::vector<Operation> operations;
  int32_t depth = 0;
};

// Enumerates the world and returns its number of states.
size_t Enumerate(const SmallWorld& small) {
  std::unordered_set<std::string> known;
  std::vector<std::vector<Operation>> frontier = {{}};
  known.insert(AllocatorWorld(small.options).Fingerprint());
  for (int32_t depth = 0; depth < small.depth && !frontier.empty(); ++depth) {
    std::vector<std::vector<Operation>> next;
    for (const std::vector<Operation>& path : frontier) {
      for (const Operation& operation : small.operations) {
        AllocatorWorld world(small.options);
        for (const Operation& before : path) Perform(before, world);
        Perform(operation, world);
        const bool is_new = known.insert(world.Fingerprint()).second;
        std::vector<Operation> longer = path;
        longer.push_back(operation);
        const absl::Status status = world.Check();
        if (!status.ok()) {
          ADD_FAILURE() << status.ToString() << "\n" << ToString(longer);
          return known.size();
        }
        if (is_new) next.push_back(std::move(longer));
      }
    }
    frontier = std::move(next);
  }
  return known.size();
}

PageAllocator::Options Options(int32_t usable_pages, int32_t page_size,
                               int32_t max_num_seqs) {
  PageAllocator::Options options;
  options.total_num_pages = usable_pages + 1;
  options.page_size = page_size;
  options.max_num_seqs = max_num_seqs;
  options.pages_per_seq = 3;
  options.max_isolation_keys = 0;
  options.max_pins = 1;
  return options;
}

// Patterns 0 and 2 part at the second token.
std::vector<Operation> Sharing() {
  return {Submit{0, 0, 2}, Submit{0, 2, 2}, Admit{0, 2, 0, 0}, Extend{0, 1, 0},
          Write{},         Publish{0},      Publish{1},        Release{0},
          Release{1},      Fork{0, 1, 0},   Truncate{0, 1}};
}

TEST(PageAllocatorExhaustiveTest, SharingHoldsInAllWorldsOfThreePagesOfOne) {
  const size_t states = Enumerate({Options(3, 1, 2), Sharing(), 12});
  EXPECT_GT(states, 3000u);
}

TEST(PageAllocatorExhaustiveTest, SharingHoldsInAllWorldsOfFourPagesOfTwo) {
  const size_t states = Enumerate({Options(4, 2, 3), Sharing(), 10});
  EXPECT_GT(states, 3000u);
}

TEST(PageAllocatorExhaustiveTest, CopiesOnWriteHoldInAllWorlds) {
  const size_t states = Enumerate(
      {Options(4, 2, 3),
       {Submit{0, 0, 2}, Admit{0, 2, 0, 0}, Write{}, Publish{0}, Fork{0, 1, 0},
        Fork{0, 3, 4}, Extend{0, 1, 0}, Extend{1, 1, 2}, Extend{2, 2, 0},
        Truncate{0, 1}, Truncate{1, 1}, Release{0}, Release{1}},
       10});
  EXPECT_GT(states, 3000u);
}

TEST(PageAllocatorExhaustiveTest, PromisesAndPinsHoldInAllWorlds) {
  const size_t states = Enumerate(
      {Options(4, 1, 2),
       {Submit{0, 0, 1}, Submit{0, 2, 2}, Admit{0, 0, 3, 0}, Admit{0, 2, 0, 1},
        Extend{0, 1, 0}, Extend{1, 1, 0}, Write{}, Publish{0}, Truncate{0, 1},
        Release{0}, Pin{0, 0, 2}, Unpin{0}, Reset{0}, Reset{1}},
       11});
  EXPECT_GT(states, 3000u);
}

}  // namespace
}  // namespace tidewheel
