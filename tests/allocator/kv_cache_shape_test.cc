#include "allocator/kv_cache_shape.h"

#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

KvCacheShape::Options Llama8b() {
  return {.num_layers = 32, .num_kv_heads = 8, .head_dim = 128};
}

// H5: an extra head factor made this eight times too large elsewhere.
TEST(KvCacheShapeTest, ATokenOfLlama8bIs131072Bytes) {
  const auto shape = KvCacheShape::Create(Llama8b());
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->bytes_per_token(), 131072);
  EXPECT_EQ(shape->unpadded_bytes_per_token(), 131072);
  EXPECT_EQ(*shape->BytesPerPage(16), 2097152);
}

// The pool of 8192 pages of 16 tokens and one layer, as the TPU compiler
// reported its argument: 512, 256, 128, 64 MiB.
TEST(KvCacheShapeTest, PoolBytesAreThoseOfTheTpuCompiler) {
  struct Case {
    KvDtype dtype;
    int32_t heads;
    int64_t mib;
  };
  for (const Case& c :
       {Case{KvDtype::kBf16, 8, 512}, Case{KvDtype::kFp8E4m3, 8, 256},
        Case{KvDtype::kBf16, 2, 128}, Case{KvDtype::kBf16, 1, 64}}) {
    const auto shape = KvCacheShape::Create({.num_layers = 1,
                                             .num_kv_heads = c.heads,
                                             .head_dim = 128,
                                             .dtype = c.dtype});
    ASSERT_THAT(shape, IsOk());
    EXPECT_EQ(*shape->BytesPerPage(16) * 8192, c.mib << 20) << c.heads;
  }
}

TEST(KvCacheShapeTest, HeadDimIsPaddedTo128Lanes) {
  for (auto [head_dim, stored] : {std::pair{1, 128},
                                  {64, 128},
                                  {128, 128},
                                  {129, 256},
                                  {192, 256},
                                  {256, 256}}) {
    auto options = Llama8b();
    options.head_dim = head_dim;
    const auto shape = KvCacheShape::Create(options);
    ASSERT_THAT(shape, IsOk());
    EXPECT_EQ(shape->stored_head_dim(), stored);
    EXPECT_EQ(shape->bytes_per_token(), 32LL * 16 * stored * 2);
    EXPECT_EQ(shape->unpadded_bytes_per_token(), 32LL * 16 * head_dim * 2);
  }
}

TEST(KvCacheShapeTest, CombinedHeadsArePaddedToTheWord) {
  // One KV head is two combined heads: half of a word of fp8.
  for (auto [dtype, stored] : {std::pair{KvDtype::kF32, 2},
                               {KvDtype::kBf16, 2},
                               {KvDtype::kFp8E4m3, 4},
                               {KvDtype::kFp8E5m2, 4},
                               {KvDtype::kInt8, 4}}) {
    const auto shape = KvCacheShape::Create(
        {.num_layers = 1, .num_kv_heads = 1, .head_dim = 128, .dtype = dtype});
    ASSERT_THAT(shape, IsOk());
    EXPECT_EQ(shape->stored_combined_heads(), stored) << KvDtypeName(dtype);
  }
  // Three heads are six combined heads: two words of fp8.
  const auto shape = KvCacheShape::Create({.num_layers = 1,
                                           .num_kv_heads = 3,
                                           .head_dim = 128,
                                           .dtype = KvDtype::kFp8E4m3});
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(shape->stored_combined_heads(), 8);
  EXPECT_EQ(shape->bytes_per_token(), 8 * 128);
  EXPECT_EQ(shape->unpadded_bytes_per_token(), 6 * 128);
}

// H3: bytes are those of one chip, so more chips never multiply the pages by
// more than their number, and replication stops the growth.
TEST(KvCacheShapeTest, ChipsSplitTheHeadsAndThenReplicateThem) {
  for (auto [chips, heads, replication] : {std::tuple{1, 8, 1},
                                           {2, 4, 1},
                                           {4, 2, 1},
                                           {8, 1, 1},
                                           {16, 1, 2},
                                           {32, 1, 4}}) {
    auto options = Llama8b();
    options.tensor_parallel = chips;
    const auto shape = KvCacheShape::Create(options);
    ASSERT_THAT(shape, IsOk());
    EXPECT_EQ(shape->kv_heads_per_chip(), heads) << chips;
    EXPECT_EQ(shape->replication(), replication) << chips;
    EXPECT_EQ(shape->bytes_per_token(), 16384 * heads) << chips;
  }
}

TEST(KvCacheShapeTest, HeadsAndChipsThatDivideNeitherWayAreRefused) {
  for (auto [heads, chips] :
       {std::pair{8, 3}, {8, 6}, {8, 12}, {3, 2}, {2, 3}, {5, 8}}) {
    auto options = Llama8b();
    options.num_kv_heads = heads;
    options.tensor_parallel = chips;
    EXPECT_THAT(
        KvCacheShape::Create(options),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(absl::StrCat("num_kv_heads ", heads)),
                       HasSubstr(absl::StrCat("tensor_parallel ", chips)))));
  }
}

TEST(KvCacheShapeTest, ANumberThatIsNotPositiveIsRefusedByName) {
  for (const int32_t bad : {0, -1, std::numeric_limits<int32_t>::min()}) {
    auto options = Llama8b();
    options.num_layers = bad;
    EXPECT_THAT(KvCacheShape::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("num_layers ", bad))));
    options = Llama8b();
    options.num_kv_heads = bad;
    EXPECT_THAT(KvCacheShape::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("num_kv_heads")));
    options = Llama8b();
    options.head_dim = bad;
    EXPECT_THAT(
        KvCacheShape::Create(options),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("head_dim")));
    options = Llama8b();
    options.tensor_parallel = bad;
    EXPECT_THAT(KvCacheShape::Create(options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("tensor_parallel")));
    EXPECT_THAT(
        KvCacheShape::Create(Llama8b())->BytesPerPage(bad),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
  }
}

// F6: the same product in int is negative.
TEST(KvCacheShapeTest, APageLargerThanAnIntKeepsItsSize) {
  const auto shape = KvCacheShape::Create({.num_layers = 80,
                                           .num_kv_heads = 8,
                                           .head_dim = 128,
                                           .dtype = KvDtype::kFp8E4m3});
  ASSERT_THAT(shape, IsOk());
  EXPECT_EQ(*shape->BytesPerPage(32768), 2 * int64_t{2684354560});
}

TEST(KvCacheShapeTest, ASizePastInt64IsAnErrorAndNoWrap) {
  KvCacheShape::Options huge = {.num_layers = kMax,
                                .num_kv_heads = 1 << 20,
                                .head_dim = 1 << 20,
                                .dtype = KvDtype::kF32};
  EXPECT_THAT(KvCacheShape::Create(huge),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2^63")));
  huge.head_dim = 128;
  const auto shape = KvCacheShape::Create(huge);
  ASSERT_THAT(shape, IsOk());
  EXPECT_GT(shape->bytes_per_token(), int64_t{1} << 59);
  EXPECT_THAT(shape->BytesPerPage(16),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("page_size")));
}

TEST(KvDtypeTest, EveryNameIsReadBack) {
  for (KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16, KvDtype::kFp8E4m3,
                        KvDtype::kFp8E5m2, KvDtype::kInt8}) {
    const auto read = ParseKvDtype(KvDtypeName(dtype));
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(*read, dtype);
    EXPECT_EQ(KvPacking(dtype) * KvDtypeBytes(dtype), 4);
  }
  EXPECT_EQ(*ParseKvDtype("fp8"), KvDtype::kFp8E4m3);
  EXPECT_THAT(ParseKvDtype("fp16"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fp16")));
}

}  // namespace
}  // namespace tidewheel
