#include "attention/pjrt/device_pools.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/pjrt/cpu_plugin_test_base.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int32_t kLayers = 3;
constexpr int32_t kPages = 200;

class DevicePoolsTest : public CpuPluginTest {
 protected:
  using Bytes = std::vector<char>;

  void SetUp() override {
    CpuPluginTest::SetUp();
    if (client_ == nullptr) return;
    auto programs = ProgramCache::Create(client_, {});
    ASSERT_THAT(programs, IsOk());
    programs_ = *std::move(programs);
  }

  std::unique_ptr<DevicePools> MakePools(ScalarType type,
                                         int64_t pool_kv_heads = 2) {
    auto pools = DevicePools::Create(programs_.get(),
                                     {.kv_type = type,
                                      .total_num_pages = kPages,
                                      .page_size = 4,
                                      .num_kv_heads = 2,
                                      .pool_head_dim = 8,
                                      .pool_kv_heads = pool_kv_heads,
                                      .pool_as_bits = true},
                                     kLayers);
    EXPECT_THAT(pools, IsOk());
    return *std::move(pools);
  }
  static Bytes RandomBytes(size_t size) {
    std::mt19937 random(3);
    Bytes bytes(size);
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  static std::vector<int32_t> Ids(int32_t first, size_t count) {
    std::vector<int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }
  static Bytes Read(DevicePools& pools, const std::vector<int32_t>& ids) {
    Bytes bytes(kLayers * ids.size() * pools.page_bytes(), '\x55');
    EXPECT_THAT(pools.ReadPages(ids, std::as_writable_bytes(std::span(bytes))),
                IsOk());
    return bytes;
  }
  static absl::Status Write(DevicePools& pools, const std::vector<int32_t>& ids,
                            const Bytes& bytes) {
    return pools.WritePages(ids, std::as_bytes(std::span(bytes)));
  }

  std::unique_ptr<ProgramCache> programs_;
};

TEST_P(DevicePoolsTest, NewPoolsAreZero) {
  const auto pools = MakePools(ScalarType::kBfloat16);
  EXPECT_THAT(Read(*pools, Ids(0, kPages)), Each(0));
}

// NaNs of every kind are among the bytes.
TEST_P(DevicePoolsTest, PagesGoToTheHostAndBackExactly) {
  for (const ScalarType type :
       {ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E4m3fn,
        ScalarType::kFloat8E5m2, ScalarType::kInt8}) {
    SCOPED_TRACE(ScalarTypeName(type));
    const auto pools = MakePools(type);
    EXPECT_EQ(pools->page_bytes(), 4u * 4 * 8 * SizeOfScalar(type));
    // More than one launch, and counts that are no powers of two.
    for (const size_t count : {size_t{1}, size_t{7}, size_t{150}}) {
      std::vector<int32_t> ids = Ids(1, count);
      std::ranges::shuffle(ids, std::mt19937(5));
      const Bytes sent = RandomBytes(kLayers * count * pools->page_bytes());
      ASSERT_THAT(Write(*pools, ids, sent), IsOk());
      EXPECT_EQ(Read(*pools, ids), sent);
    }
    EXPECT_THAT(Read(*pools, {0}), Each(0));
    EXPECT_THAT(Read(*pools, Ids(151, 49)), Each(0));
  }
}

TEST_P(DevicePoolsTest, PaddedKvHeadsStayOnTheDevice) {
  const auto pools = MakePools(ScalarType::kBfloat16, 3);
  EXPECT_EQ(pools->page_bytes(), 4u * 4 * 8 * 2);
  EXPECT_EQ(*pools->PoolBytes(), int64_t{kLayers} * kPages * 4 * 6 * 8 * 2);
  const std::vector<int32_t> ids = Ids(1, 20);
  const Bytes sent = RandomBytes(kLayers * ids.size() * pools->page_bytes());
  ASSERT_THAT(Write(*pools, ids, sent), IsOk());
  std::vector<PjrtEvent> events(kLayers);
  ASSERT_THAT(pools->CopyPages(std::vector<PageCopy>{{1, 20, 4}}, events),
              IsOk());
  const Bytes got = Read(*pools, ids);
  const size_t page = pools->page_bytes();
  EXPECT_TRUE(std::equal(&sent[0], &sent[0] + 19 * page, &got[0]));
  EXPECT_TRUE(std::equal(&sent[0], &sent[0] + page, &got[19 * page]));
  EXPECT_THAT(DevicePools::Create(programs_.get(),
                                  {.kv_type = ScalarType::kInt8,
                                   .total_num_pages = kPages,
                                   .page_size = 4,
                                   .num_kv_heads = 2,
                                   .pool_head_dim = 8,
                                   .pool_kv_heads = 1},
                                  kLayers),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pool_kv_heads 1 is below num_kv_heads 2")));
}

TEST_P(DevicePoolsTest, CopiesAreDoneInTheListedOrder) {
  const auto pools = MakePools(ScalarType::kFloat8E4m3fn);
  const std::vector<int32_t> ids = Ids(1, kPages - 1);
  const Bytes sent = RandomBytes(kLayers * ids.size() * pools->page_bytes());
  ASSERT_THAT(Write(*pools, ids, sent), IsOk());
  // A chain, then 90 random ones: three launches.
  std::vector<PageCopy> copies = {{5, 6, 1}, {6, 7, 4}, {5, 5, 2}};
  std::mt19937 random(9);
  for (int32_t i = 0; i < 90; ++i) {
    copies.push_back({static_cast<int32_t>(1 + random() % (kPages - 1)),
                      static_cast<int32_t>(1 + random() % (kPages - 1)), 4});
  }
  std::vector<int32_t> content = Ids(0, kPages);
  for (const PageCopy& copy : copies) {
    content[static_cast<size_t>(copy.target)] =
        content[static_cast<size_t>(copy.source)];
  }
  std::vector<PjrtEvent> events(kLayers);
  ASSERT_THAT(pools->CopyPages(copies, events), IsOk());
  for (const PjrtEvent& event : events) EXPECT_THAT(event.Await(), IsOk());
  const Bytes got = Read(*pools, ids);
  const size_t page = pools->page_bytes();
  for (size_t layer = 0; layer < kLayers; ++layer) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t to = (layer * ids.size() + i) * page;
      const auto source = static_cast<size_t>(content[i + 1] - 1);
      const size_t from = (layer * ids.size() + source) * page;
      ASSERT_TRUE(std::equal(&got[to], &got[to] + page, &sent[from]))
          << "page " << i + 1 << " of layer " << layer;
    }
  }
}

TEST_P(DevicePoolsTest, PoolStaysWhereItIsAndNoProgramCopiesIt) {
  for (const ScalarType type :
       {ScalarType::kFloat32, ScalarType::kBfloat16, ScalarType::kFloat8E5m2}) {
    const auto pools = MakePools(type);
    ASSERT_THAT(pools->Warm(), IsOk());
    const auto before = pools->pool(1).UnsafePointer();
    ASSERT_THAT(before, IsOk());
    std::vector<PjrtEvent> events(kLayers);
    ASSERT_THAT(pools->CopyPages(std::vector<PageCopy>{{1, 2, 4}}, events),
                IsOk());
    ASSERT_THAT(Write(*pools, {3}, Bytes(kLayers * pools->page_bytes())),
                IsOk());
    EXPECT_EQ(*pools->pool(1).UnsafePointer(), *before);
    const int64_t pool_bytes =
        kPages * static_cast<int64_t>(pools->page_bytes());
    EXPECT_EQ(*pools->PoolBytes(), kLayers * pool_bytes);
    LaunchMemory memory;
    ASSERT_THAT(pools->AddMemory(memory), IsOk());
    EXPECT_EQ(memory.num_programs, 21);
    EXPECT_EQ(memory.least_pool_alias_bytes, pool_bytes);
    // What 64 pages take, once or twice.
    EXPECT_LE(memory.largest_temp_bytes,
              static_cast<int64_t>(2 * 64 * pools->page_bytes() + 65536));
  }
}

TEST_P(DevicePoolsTest, ResetMakesAllPagesZero) {
  const auto pools = MakePools(ScalarType::kInt8);
  ASSERT_THAT(Write(*pools, {3}, RandomBytes(kLayers * pools->page_bytes())),
              IsOk());
  ASSERT_THAT(pools->Reset(), IsOk());
  EXPECT_THAT(Read(*pools, Ids(0, kPages)), Each(0));
}

TEST_P(DevicePoolsTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const auto pools = MakePools(ScalarType::kInt8);
  const size_t page = kLayers * pools->page_bytes();
  const auto invalid = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  std::vector<PjrtEvent> events(kLayers);
  for (const PageCopy copy : {PageCopy{0, 1, 4}, PageCopy{1, 0, 4},
                              PageCopy{1, kPages, 4}, PageCopy{-1, 2, 4}}) {
    EXPECT_THAT(
        pools->CopyPages(std::vector<PageCopy>{{1, 2, 4}, copy}, events),
        invalid("is not inside of [1, 200)"));
  }
  EXPECT_THAT(Write(*pools, {1, 0}, Bytes(2 * page)),
              invalid("page id 0 at 1 is not in [1, 200)"));
  EXPECT_THAT(Write(*pools, {4, 9, 4}, Bytes(3 * page)),
              invalid("page 4 is written twice"));
  EXPECT_THAT(Write(*pools, {4}, Bytes(page - 1)), invalid("383 bytes"));
  Bytes target(page);
  EXPECT_THAT(pools->ReadPages(std::vector<int32_t>{kPages},
                               std::as_writable_bytes(std::span(target))),
              invalid("page id 200 at 0"));
  EXPECT_THAT(DevicePools::Create(programs_.get(), pools->shape(), 0),
              invalid("num_layers 0"));
  EXPECT_THAT(Read(*pools, Ids(0, kPages)), Each(0));
}

INSTANTIATE_TEST_SUITE_P(CpuPlugins, DevicePoolsTest,
                         ::testing::Range(0, kNumCpuPlugins));

}  // namespace
}  // namespace tidewheel
