#include "allocator/isolation_roots.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

PrefixIndex MakeIndex() {
  return PrefixIndex({.total_num_pages = 2, .page_size = 1});
}

IsolationKey Salt(absl::string_view salt) {
  IsolationKey key;
  key.salt = salt;
  return key;
}

// C3: no two different keys have one encoding.
TEST(IsolationKeyTest, DifferentKeysHaveDifferentEncodings) {
  const std::vector<IsolationKey::Content> cat = {{"cat", 4}};
  const std::vector<IsolationKey::Content> cat_later = {{"cat", 5}};
  const std::vector<IsolationKey::Content> dog = {{"dog", 4}};
  const std::vector<IsolationKey::Content> both = {{"cat", 4}, {"dog", 9}};
  const std::vector<IsolationKey::Content> swapped = {{"dog", 4}, {"cat", 9}};
  const std::vector<IsolationKey> keys = {
      {{}, {}, {}},   {"", {}, {}},      {{}, "", {}},        {"", "", {}},
      {"X", {}, {}},  {{}, "X", {}},     {"a", "b", {}},      {"b", "a", {}},
      {"ab", {}, {}}, {"ab", "", {}},    {"a1:b", {}, {}},    {"Xa1:X", {}, {}},
      {"X", "X", {}}, {{}, {}, cat},     {{}, {}, cat_later}, {{}, {}, dog},
      {{}, {}, both}, {{}, {}, swapped}, {"cat", {}, {}},     {"cat", {}, cat},
  };
  std::set<std::string> encodings;
  for (const IsolationKey& key : keys) encodings.insert(key.Encode());
  EXPECT_EQ(encodings.size(), keys.size());
}

TEST(IsolationRootsTest, EqualKeysShareASlot) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(2, index);
  const std::optional<int32_t> first = roots.TryAcquire(Salt("a"));
  EXPECT_EQ(roots.TryAcquire(Salt("a")), first);
  EXPECT_NE(roots.TryAcquire(Salt("b")), first);
}

TEST(IsolationRootsTest, TheEmptyKeyIsShared) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(1, index);
  EXPECT_EQ(roots.TryAcquire({}), IsolationRoots::kShared);
  EXPECT_NE(roots.TryAcquire(Salt("")), IsolationRoots::kShared);
}

TEST(IsolationRootsTest, KeyIsKnownAfterItsLastHolderLeft) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(2, index);
  const int32_t slot = *roots.TryAcquire(Salt("a"));
  const uint64_t root = roots.root(slot).serial;
  roots.Release(slot);
  EXPECT_EQ(roots.TryAcquire(Salt("a")), slot);
  EXPECT_EQ(roots.root(slot).serial, root);
}

TEST(IsolationRootsTest, LeastRecentlyReleasedKeyMakesRoom) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(2, index);
  const int32_t a = *roots.TryAcquire(Salt("a"));
  const int32_t b = *roots.TryAcquire(Salt("b"));
  const uint64_t root_of_a = roots.root(a).serial;
  const uint64_t root_of_b = roots.root(b).serial;
  roots.Release(b);
  roots.Release(a);
  EXPECT_EQ(roots.TryAcquire(Salt("c")), b);
  EXPECT_NE(roots.root(b).serial, root_of_b);
  EXPECT_EQ(roots.TryAcquire(Salt("a")), a);
  EXPECT_EQ(roots.root(a).serial, root_of_a);
}

TEST(IsolationRootsTest, HeldKeysAreNotPushedOut) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(1, index);
  const std::optional<int32_t> a = roots.TryAcquire(Salt("a"));
  EXPECT_EQ(roots.TryAcquire(Salt("b")), std::nullopt);
  EXPECT_EQ(roots.TryAcquire(Salt("a")), a);
}

TEST(IsolationRootsTest, SlotWithTwoHoldersStaysUntilBothLeft) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(1, index);
  const int32_t slot = *roots.TryAcquire(Salt("a"));
  roots.Hold(slot);
  roots.Release(slot);
  EXPECT_EQ(roots.TryAcquire(Salt("b")), std::nullopt);
  roots.Release(slot);
  EXPECT_TRUE(roots.TryAcquire(Salt("b")).has_value());
}

TEST(IsolationRootsTest, WithoutSlotsOnlyTheEmptyKeyIsAdmitted) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(0, index);
  EXPECT_EQ(roots.TryAcquire({}), IsolationRoots::kShared);
  EXPECT_EQ(roots.TryAcquire(Salt("a")), std::nullopt);
}

TEST(IsolationRootsTest, RenewedRootsAreOtherPlacesWithTheSameHashes) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(1, index);
  const int32_t slot = *roots.TryAcquire(Salt("a"));
  const uint64_t serial = roots.root(slot).serial;
  const uint64_t hash = roots.root_hash(slot);
  roots.RenewRoots();
  EXPECT_NE(roots.root(slot).serial, serial);
  EXPECT_EQ(roots.root_hash(slot), hash);
  EXPECT_EQ(roots.TryAcquire(Salt("a")), slot);
}

TEST(IsolationRootsDeathTest, NumberOfKeysIsNotNegative) {
  PrefixIndex index = MakeIndex();
  EXPECT_DEATH(IsolationRoots(-1, index), "max_keys >= 0");
}

TEST(IsolationRootsDeathTest, OnlyHeldSlotsAreReleased) {
  PrefixIndex index = MakeIndex();
  IsolationRoots roots(1, index);
  EXPECT_DEATH(roots.Release(1), "holders > 0");
  EXPECT_DEATH(roots.Hold(1), "holders > 0");
}

}  // namespace
}  // namespace tidewheel
