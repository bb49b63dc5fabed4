// The programs that move pages and bring a step's inputs up to date: exact
// bytes on CPU plugins.

#include "attention/stablehlo/page_program.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "attention/stablehlo/step_program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/pjrt_plugins.h"
#include "tests/attention/stablehlo/device_program.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int32_t>;

constexpr int32_t kPages = 7;
constexpr int32_t kWild[] = {-1, kPages, INT32_MAX, INT32_MIN};

// The parameter is the plugin's place in TIDEWHEEL_PJRT_CPU_PLUGINS.
class PageProgramTest : public ::testing::TestWithParam<int> {
 protected:
  // Every type of the pool, as a CPU plugin should have it.
  static std::vector<PagePoolShape> Pools() {
    std::vector<PagePoolShape> pools;
    for (const ScalarType type : {ScalarType::kFloat32, ScalarType::kBfloat16,
                                  ScalarType::kFloat8E4m3fn,
                                  ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
      pools.push_back({.kv_type = type,
                       .total_num_pages = kPages,
                       .page_size = 4,
                       .num_kv_heads = 2,
                       .pool_head_dim = 8,
                       .pool_as_bits = true});
    }
    return pools;
  }

  Bytes Random(int64_t size) {
    Bytes bytes(static_cast<size_t>(size));
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  std::mt19937 random_{3};
};

size_t PageBytes(const PagePoolShape& pool) {
  return static_cast<size_t>(pool.type().num_bytes()) / kPages;
}

bool IsPage(int32_t id) { return 0 <= id && id < kPages; }

Ints IntsOf(const Bytes& bytes) {
  Ints values(bytes.size() / sizeof(int32_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Twelve copies, some of them padding, in which pages are copied on, copied
// twice and overwritten.
TEST_P(PageProgramTest, CopiesHappenInTheListedOrder) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  constexpr size_t kCopies = 12;
  for (const PagePoolShape& pool : Pools()) {
    SCOPED_TRACE(ScalarTypeName(pool.kv_type));
    const auto program = EmitCopyPages(pool, kCopies);
    ASSERT_THAT(program, IsOk());
    const DeviceProgram copy(client, *program);
    ASSERT_TRUE(copy.ok());
    EXPECT_EQ(copy.MemoryStats().alias_bytes, pool.type().num_bytes());
    for (int round = 0; round < 50; ++round) {
      Ints from;
      Ints to;
      for (size_t i = 0; i < kCopies; ++i) {
        const bool wild_from = random_() % 5 == 0;
        const bool wild_to = random_() % 5 == 0;
        from.push_back(wild_from ? kWild[random_() % 4]
                                 : static_cast<int32_t>(random_() % kPages));
        to.push_back(wild_to ? kWild[random_() % 4]
                             : static_cast<int32_t>(random_() % kPages));
      }
      const Bytes before = Random(pool.type().num_bytes());
      Bytes wanted = before;
      for (size_t i = 0; i < kCopies; ++i) {
        if (!IsPage(from[i]) || !IsPage(to[i])) continue;
        std::memmove(
            wanted.data() + static_cast<size_t>(to[i]) * PageBytes(pool),
            wanted.data() + static_cast<size_t>(from[i]) * PageBytes(pool),
            PageBytes(pool));
      }
      ASSERT_EQ(copy.Run({before, BytesOf(from), BytesOf(to)})[0], wanted);
    }
  }
}

TEST_P(PageProgramTest, PagesGoOutAndComeBackElsewhere) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  for (const PagePoolShape& pool : Pools()) {
    SCOPED_TRACE(ScalarTypeName(pool.kv_type));
    const auto gather_program = EmitGatherPages(pool, 5);
    const auto scatter_program = EmitScatterPages(pool, 5);
    ASSERT_THAT(gather_program, IsOk());
    ASSERT_THAT(scatter_program, IsOk());
    const DeviceProgram gather(client, *gather_program);
    const DeviceProgram scatter(client, *scatter_program);
    ASSERT_TRUE(gather.ok() && scatter.ok());
    EXPECT_EQ(scatter.MemoryStats().alias_bytes, pool.type().num_bytes());

    const Bytes before = Random(pool.type().num_bytes());
    const size_t page = PageBytes(pool);
    const Ints from = {6, 0, 3, 3, 1};
    const Bytes pages = gather.Run({before, BytesOf(from)})[0];
    ASSERT_EQ(pages.size(), 5 * page);
    for (size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(std::memcmp(pages.data() + i * page,
                            before.data() + static_cast<size_t>(from[i]) * page,
                            page),
                0)
          << i;
    }
    for (const int32_t wild : kWild) {
      const Ints to = {2, wild, 0, wild, 6};
      Bytes wanted = before;
      for (size_t i = 0; i < to.size(); ++i) {
        if (!IsPage(to[i])) continue;
        std::memcpy(wanted.data() + static_cast<size_t>(to[i]) * page,
                    pages.data() + i * page, page);
      }
      EXPECT_EQ(scatter.Run({before, BytesOf(to), pages})[0], wanted) << wild;
    }
  }
}

TEST_P(PageProgramTest, StepProgramsReplaceWhatIsNamed) {
  TIDEWHEEL_REQUIRE_PJRT_CPU_PLUGIN(plugin, GetParam());
  const auto client = CpuClient(plugin);
  ASSERT_NE(client, nullptr);
  const TableShape table = {.max_num_seqs = 4, .pages_per_seq = 2};
  const Ints before = {10, 11, 20, 21, 30, 31, 40, 41};

  const auto delta = EmitTableDelta(table, 3);
  ASSERT_THAT(delta, IsOk());
  const DeviceProgram replace(client, *delta);
  ASSERT_TRUE(replace.ok());
  EXPECT_EQ(replace.MemoryStats().alias_bytes, table.type().num_bytes());
  const Ints values = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(IntsOf(replace.Run({BytesOf(before), BytesOf(Ints{3, -1, 0}),
                                  BytesOf(values)})[0]),
              ElementsAre(5, 6, 20, 21, 30, 31, 1, 2));
  EXPECT_EQ(IntsOf(replace.Run({BytesOf(before),
                                BytesOf(Ints{4, INT32_MIN, INT32_MAX}),
                                BytesOf(values)})[0]),
            before);

  const auto permute = EmitPermuteTable(table);
  ASSERT_THAT(permute, IsOk());
  const DeviceProgram move(client, *permute);
  ASSERT_TRUE(move.ok());
  EXPECT_THAT(
      IntsOf(move.Run({BytesOf(before), BytesOf(Ints{3, 3, -1, 0})})[0]),
      ElementsAre(40, 41, 40, 41, 0, 0, 10, 11));

  const auto fill_program = EmitFillTokens(5, 3);
  ASSERT_THAT(fill_program, IsOk());
  const DeviceProgram fill(client, *fill_program);
  ASSERT_TRUE(fill.ok());
  EXPECT_THAT(IntsOf(fill.Run({BytesOf(Ints{1, 2, 3, 4, 5}),
                               BytesOf(Ints{-1, 2, 0, 3, 2}),
                               BytesOf(Ints{100, 101, 102})})[0]),
              ElementsAre(1, 102, 100, 4, 102));
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, PageProgramTest,
                         ::testing::Range(0, kNumCpuPlugins));

TEST(PageProgramErrorTest, SizesThatDoNotFitAreNamed) {
  const PagePoolShape pool = {.kv_type = ScalarType::kBfloat16,
                              .total_num_pages = 1 << 27,
                              .page_size = 16,
                              .num_kv_heads = 8,
                              .pool_head_dim = 128};
  for (const auto& status :
       {EmitCopyPages(pool, 1).status(), EmitGatherPages(pool, 1).status(),
        EmitScatterPages(pool, 1).status()}) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("total_num_pages 134217728 times page_size "
                                   "16 exceeds 2147483647")));
  }
  PagePoolShape good = pool;
  good.total_num_pages = (1 << 27) - 1;
  EXPECT_THAT(EmitCopyPages(good, 1), IsOk());
  EXPECT_THAT(EmitCopyPages(good, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_ids 0 is not in [1, 2147483647]")));
  good.num_kv_heads = -1;
  EXPECT_THAT(EmitGatherPages(good, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_kv_heads -1 is not in")));
  EXPECT_THAT(EmitTableDelta({8, 0}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pages_per_seq 0 is not in")));
  EXPECT_THAT(EmitPermuteTable({int64_t{1} << 31, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_num_seqs 2147483648 is not in")));
  EXPECT_THAT(EmitFillTokens(0, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_tokens 0 is not in")));
}

}  // namespace
}  // namespace tidewheel
