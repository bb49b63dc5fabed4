#include "allocator/prefix_index.h"

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using Tokens = std::vector<int32_t>;

PrefixIndex::Options Options(int32_t total_num_pages, int32_t page_size) {
  return {.total_num_pages = total_num_pages, .page_size = page_size};
}

TEST(PrefixIndexTest, InsertedPageIsFoundBelowItsParentOnly) {
  PrefixIndex index(Options(4, 2));
  const PrefixIndex::Node root = index.NewRoot();
  const PrefixIndex::Node other = index.NewRoot();
  const uint64_t hash = index.HashPage(index.HashRoot(""), Tokens{1, 2});
  const PrefixIndex::Node node = index.Insert(root, 3, hash, Tokens{1, 2});
  EXPECT_EQ(index.Find(root, hash, Tokens{1, 2}).page, 3);
  EXPECT_EQ(index.Find(root, hash, Tokens{1, 2}).serial, node.serial);
  EXPECT_EQ(index.Find(other, hash, Tokens{1, 2}).serial, 0u);
  EXPECT_EQ(index.Find(node, hash, Tokens{1, 2}).serial, 0u);
  EXPECT_EQ(index.parent(3), kNullPage);
  EXPECT_THAT(index.CheckInvariants(), IsOk());
}

// C1: a token id counts with all its bits and at its place.
TEST(PrefixIndexTest, TokensAreComparedWithAllTheirBits) {
  for (const uint64_t mask : {~uint64_t{0}, uint64_t{0}}) {
    PrefixIndex::Options options = Options(3, 2);
    options.hash_mask = mask;
    PrefixIndex index(options);
    const PrefixIndex::Node root = index.NewRoot();
    const auto hash = [&](const Tokens& tokens) {
      return index.HashPage(index.HashRoot(""), tokens);
    };
    const Tokens stored = {1, 23};
    index.Insert(root, 1, hash(stored), stored);
    for (const Tokens& other :
         {Tokens{1 + 256, 23}, Tokens{1, 23 + 256}, Tokens{1 + 65'536, 23},
          Tokens{1, 23 + 65'536}, Tokens{12, 3}, Tokens{23, 1},
          Tokens{1 - 0x7fffffff - 1, 23}, Tokens{0x7fffffff, 23}}) {
      EXPECT_EQ(index.Find(root, hash(other), other).serial, 0u)
          << other[0] << ", " << other[1];
    }
    EXPECT_EQ(index.Find(root, hash(stored), stored).page, 1);
  }
}

// C2: neither the hash 0 nor all ones means "empty" to the table.
TEST(PrefixIndexTest, NoHashIsASentinel) {
  PrefixIndex index(Options(4, 1));
  const PrefixIndex::Node root = index.NewRoot();
  index.Insert(root, 1, 0, Tokens{7});
  index.Insert(root, 2, ~uint64_t{0}, Tokens{8});
  EXPECT_EQ(index.Find(root, 0, Tokens{7}).page, 1);
  EXPECT_EQ(index.Find(root, ~uint64_t{0}, Tokens{8}).page, 2);
  EXPECT_EQ(index.Find(root, 0, Tokens{8}).serial, 0u);
  index.Erase(1);
  EXPECT_EQ(index.Find(root, 0, Tokens{7}).serial, 0u);
  EXPECT_EQ(index.Find(root, ~uint64_t{0}, Tokens{8}).page, 2);
}

// C7: of several pages of one hash, erasing one leaves the others.
TEST(PrefixIndexTest, ErasingOneOfManyEqualHashesLeavesTheOthers) {
  for (PageId erased = 1; erased <= 5; ++erased) {
    PrefixIndex index(Options(6, 1));
    const PrefixIndex::Node root = index.NewRoot();
    constexpr uint64_t kHash = 0x1234'5678'0000'0000;
    for (PageId page = 1; page <= 5; ++page) {
      index.Insert(root, page, kHash, Tokens{100 + page});
    }
    index.Erase(erased);
    for (PageId page = 1; page <= 5; ++page) {
      EXPECT_EQ(index.Find(root, kHash, Tokens{100 + page}).page,
                page == erased ? kNullPage : page);
    }
    EXPECT_EQ(index.size(), 4);
    EXPECT_THAT(index.CheckInvariants(), IsOk());
  }
}

// A stale parent is a place in no trie: its serial number is never used again.
TEST(PrefixIndexTest, ChildOfAnErasedParentIsNotFoundBelowItsSuccessor) {
  PrefixIndex index(Options(4, 1));
  const PrefixIndex::Node root = index.NewRoot();
  const PrefixIndex::Node before = index.Insert(root, 1, 11, Tokens{5});
  index.Insert(before, 2, 22, Tokens{6});
  index.Erase(2);
  index.Erase(1);
  const PrefixIndex::Node after = index.Insert(root, 1, 11, Tokens{5});
  EXPECT_NE(before.serial, after.serial);
  EXPECT_EQ(index.Find(after, 22, Tokens{6}).serial, 0u);
  index.Insert(after, 2, 22, Tokens{6});
  EXPECT_EQ(index.Find(before, 22, Tokens{6}).serial, 0u);
}

TEST(PrefixIndexTest, LongestPathEndsAtTheFirstOtherToken) {
  PrefixIndex index(Options(64, 2));
  const PrefixIndex::Node root = index.NewRoot();
  Tokens tokens;
  std::vector<uint64_t> hashes;
  PrefixIndex::Node node = root;
  uint64_t hash = index.HashRoot("");
  for (PageId page = 1; page <= 40; ++page) {
    const Tokens here = {page, 7};
    tokens.insert(tokens.end(), here.begin(), here.end());
    hash = index.HashPage(hash, here);
    hashes.push_back(hash);
    node = index.Insert(node, page, hash, here);
  }
  int32_t found = 0;
  EXPECT_EQ(index.FindLongest(root, hashes, tokens, found).serial, node.serial);
  EXPECT_EQ(found, 40);
  for (int32_t at = 0; at < 40; ++at) {
    Tokens other = tokens;
    other[static_cast<size_t>(2 * at + 1)] = 8;
    const PrefixIndex::Node last =
        index.FindLongest(root, hashes, other, found);
    EXPECT_EQ(found, at);
    EXPECT_EQ(last.page, at);
  }
  // The hashes bound how far it looks.
  index.FindLongest(root, {hashes.data(), 3}, tokens, found);
  EXPECT_EQ(found, 3);
  EXPECT_EQ(index.FindLongest(root, {}, tokens, found).serial, root.serial);
  EXPECT_EQ(found, 0);
}

TEST(PrefixIndexTest, ClearedIndexFindsNothing) {
  PrefixIndex index(Options(3, 1));
  const PrefixIndex::Node root = index.NewRoot();
  index.Insert(root, 1, 11, Tokens{5});
  index.Clear();
  EXPECT_EQ(index.Find(root, 11, Tokens{5}).serial, 0u);
  EXPECT_FALSE(index.contains(1));
  EXPECT_EQ(index.size(), 0);
}

// Hashing behaviours of peers (A, 4.5).
TEST(PrefixIndexTest, HashDependsOnParentTokensSeedAndKey) {
  const PrefixIndex index(Options(2, 2));
  PrefixIndex::Options seeded = Options(2, 2);
  seeded.hash_seed = 1;
  const PrefixIndex other(seeded);
  const uint64_t root = index.HashRoot("");
  EXPECT_NE(index.HashPage(root, Tokens{1, 2}),
            index.HashPage(root, Tokens{2, 1}));
  EXPECT_NE(index.HashPage(root, Tokens{1, 2}),
            index.HashPage(root + 1, Tokens{1, 2}));
  EXPECT_NE(index.HashRoot("a"), index.HashRoot("b"));
  EXPECT_NE(index.HashRoot("a"), other.HashRoot("a"));
  EXPECT_EQ(index.HashRoot("a"), PrefixIndex(Options(9, 2)).HashRoot("a"));
}

// Against a map, with few homes, so that entries are often moved past others.
TEST(PrefixIndexTest, AgreesWithAMapInARandomRun) {
  PrefixIndex index(Options(17, 1));
  const PrefixIndex::Node root = index.NewRoot();
  std::map<int32_t, PageId> expected;
  const auto hash = [](int32_t token) {
    return static_cast<uint64_t>(token % 5 + 28) << 32;
  };
  std::mt19937 random(3);
  for (int32_t i = 0; i < 20'000; ++i) {
    const int32_t token = static_cast<int32_t>(random() % 40);
    const PageId page = 1 + static_cast<PageId>(random() % 16);
    if (index.contains(page)) {
      index.Erase(page);
      std::erase_if(expected,
                    [page](const auto& entry) { return entry.second == page; });
    } else if (expected.emplace(token, page).second) {
      index.Insert(root, page, hash(token), Tokens{token});
    }
    for (int32_t t = 0; t < 40; ++t) {
      const auto found = expected.find(t);
      ASSERT_EQ(index.Find(root, hash(t), Tokens{t}).page,
                found == expected.end() ? kNullPage : found->second);
    }
    ASSERT_THAT(index.CheckInvariants(), IsOk());
  }
}

TEST(PrefixIndexDeathTest, IndexHasPagesOfTokens) {
  EXPECT_DEATH(PrefixIndex(Options(0, 1)), "total_num_pages > 0");
  EXPECT_DEATH(PrefixIndex(Options(1, 0)), "page_size > 0");
}

TEST(PrefixIndexDeathTest, PageIsInsertedOnce) {
  PrefixIndex index(Options(2, 1));
  const PrefixIndex::Node root = index.NewRoot();
  index.Insert(root, 1, 11, Tokens{5});
  EXPECT_DEATH(index.Insert(root, 1, 12, Tokens{6}), "contains");
}

TEST(PrefixIndexDeathTest, OnlyFullPagesAreInserted) {
  PrefixIndex index(Options(2, 2));
  const PrefixIndex::Node root = index.NewRoot();
  EXPECT_DEATH(index.Insert(root, 1, 11, Tokens{5}), "page_size_");
}

TEST(PrefixIndexDeathTest, OnlyIndexedPagesAreErased) {
  PrefixIndex index(Options(2, 1));
  EXPECT_DEATH(index.Erase(1), "contains");
}

}  // namespace
}  // namespace tidewheel
