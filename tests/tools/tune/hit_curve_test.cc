#include "tools/tune/hit_curve.h"

#include <vector>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

constexpr HitQueries kQueries = {
    .page_size = 10, .requests = 4, .prompt_tokens = 1000, .prompt_pages = 80};

TEST(HitCurveTest, HitsOfASizeAreThoseOfTheStepBelow) {
  const HitCurve curve(kQueries, 2, std::vector<int64_t>{0, 1, 4, 0, 0, 5});
  EXPECT_EQ(curve.smallest(), 3);
  EXPECT_EQ(curve.HitPages(3), 5);
  EXPECT_EQ(curve.HitPages(5), 5);
  EXPECT_EQ(curve.HitPages(6), 10);
  EXPECT_EQ(curve.HitPages(1'000'000), 10);
  EXPECT_EQ(curve.ceiling().total_num_pages, 6);
  EXPECT_EQ(curve.points().size(), 2);
  EXPECT_DOUBLE_EQ(curve.TokenRatio(10), 0.1);
  EXPECT_DOUBLE_EQ(curve.PageRatio(10), 0.125);
}

TEST(HitCurveDeathTest, SizesThatRefuseRequestsAreNotOnTheCurve) {
  const HitCurve curve(kQueries, 2, std::vector<int64_t>{0, 1});
  EXPECT_DEATH(curve.HitPages(2), "total_num_pages");
  EXPECT_DEATH(HitCurve(kQueries, 0, {}), "longest_request");
}

TEST(HitCurveTest, TheKneeIsFurthestAboveTheChord) {
  // 6 of 10 hits from 2 pages on, then one each.
  const HitCurve curve(kQueries, 1, std::vector<int64_t>{0, 0, 6, 1, 1, 1, 1});
  ASSERT_TRUE(curve.Knee().has_value());
  EXPECT_EQ(curve.Knee()->total_num_pages, 3);
  EXPECT_EQ(curve.Knee()->hit_pages, 6);
}

TEST(HitCurveTest, ACurveBelowItsChordHasNoKnee) {
  EXPECT_FALSE(HitCurve(kQueries, 1, std::vector<int64_t>{0, 3, 1, 1, 8})
                   .Knee()
                   .has_value());
  EXPECT_FALSE(HitCurve(kQueries, 1, {}).Knee().has_value());
}

}  // namespace
}  // namespace tidewheel
