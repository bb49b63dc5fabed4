// Padding buckets for tokens and sequences.

#include <cstdint>
#include <vector>

#include "attention/padding_buckets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenBucketOptions Tokens(int32_t max_num_batched_tokens) {
  TokenBucketOptions options;
  options.max_num_batched_tokens = max_num_batched_tokens;
  return options;
}

TEST(PaddingBucketsTest, TokensDoubleFromSixteenPastTheMaximum) {
  EXPECT_THAT(TokenBuckets(Tokens(512)).value(),
              ElementsAre(16, 32, 64, 128, 256, 512));
  EXPECT_THAT(TokenBuckets(Tokens(317)).value(),
              ElementsAre(16, 32, 64, 128, 256, 512));
  EXPECT_THAT(TokenBuckets(Tokens(1)).value(), ElementsAre(16));
}

TEST(PaddingBucketsTest, AboveTheGapTheyGrowByIt) {
  TokenBucketOptions options = Tokens(512);
  options.gap = 128;
  EXPECT_THAT(TokenBuckets(options).value(),
              ElementsAre(16, 32, 64, 128, 256, 384, 512));
  options.gap = 100;
  EXPECT_THAT(TokenBuckets(options).value(),
              ElementsAre(16, 32, 64, 164, 264, 364, 464, 564));
}

TEST(PaddingBucketsTest, SequencesEndWithTheMaximum) {
  EXPECT_THAT(SequenceBuckets(256).value(),
              ElementsAre(8, 16, 32, 64, 128, 256));
  EXPECT_THAT(SequenceBuckets(100).value(), ElementsAre(8, 16, 32, 64, 100));
  EXPECT_THAT(SequenceBuckets(3).value(), ElementsAre(3));
}

TEST(PaddingBucketsTest, EveryCountUpToTheMaximumHasTheSmallestBucket) {
  for (int32_t max = 1; max <= 300; ++max) {
    const std::vector<int32_t> buckets = TokenBuckets(Tokens(max)).value();
    for (int32_t count = 1; count <= max; ++count) {
      const int32_t bucket = RoundUpToBucket(buckets, count).value();
      ASSERT_GE(bucket, count);
      for (const int32_t other : buckets) {
        ASSERT_TRUE(other >= bucket || other < count);
      }
    }
  }
}

TEST(PaddingBucketsTest, AboveTheLastBucketIsNone) {
  const std::vector<int32_t> buckets = {8, 16};
  EXPECT_EQ(RoundUpToBucket(buckets, 16), 16);
  EXPECT_EQ(RoundUpToBucket(buckets, 17), std::nullopt);
  EXPECT_EQ(RoundUpToBucket({}, 1), std::nullopt);
}

TEST(PaddingBucketsTest, NumbersThatAreNoSizesAreErrors) {
  EXPECT_THAT(TokenBuckets(Tokens(0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_num_batched_tokens 0 is outside")));
  EXPECT_THAT(SequenceBuckets(-1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_num_seqs -1 is outside")));
  TokenBucketOptions options = Tokens(64);
  options.gap = 0;
  EXPECT_THAT(TokenBuckets(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("gap 0 is outside")));
}

TEST(PaddingBucketsTest, ABucketBeyondInt32IsAnError) {
  EXPECT_THAT(TokenBuckets(Tokens(2'000'000'000)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("lower it to at most 1073741824")));
}

TEST(PaddingBucketsTest, AGapThatMakesThousandsOfCompilesIsAnError) {
  TokenBucketOptions options = Tokens(1'000'000);
  options.gap = 1;
  EXPECT_THAT(TokenBuckets(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("raise it to 245 or more")));
}

}  // namespace
}  // namespace tidewheel
