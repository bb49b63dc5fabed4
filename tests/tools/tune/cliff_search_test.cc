#include "tools/tune/cliff_search.h"

#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/tune/tune_world.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CliffSearchTest : public testing::Test {
 protected:
  CliffSearchTest()
      : traffic_(TuneTraffic({.requests = 200, .replications = 1})),
        evaluator_(SmallSearch(traffic_).server, traffic_) {
    candidate_.page_size = 32;
    candidate_.total_num_pages = 220;
    candidate_.max_num_seqs = 16;
    candidate_.max_num_batched_tokens = 256;
    candidate_.watermark_pages = 4;
    options_.request_rate = 7;
    options_.bytes_per_page = 4 << 20;
  }

  double Strain(int64_t pages) const {
    const absl::StatusOr<std::vector<RunSample>> samples =
        evaluator_.RunReplications(WithPages(candidate_, pages),
                                   {.request_rate = options_.request_rate}, 1);
    EXPECT_THAT(samples, IsOk());
    const LoadOutcome outcome =
        Summarize(*samples, evaluator_.options().promise, {});
    return outcome.overloaded ? kBrokenStrain : outcome.strain.value;
  }

  Traffic traffic_;
  CandidateEvaluator evaluator_;
  Candidate candidate_;
  CliffOptions options_;
};

TEST_F(CliffSearchTest, FindsTheEdgeThatAScanOverAllPoolsShows) {
  const absl::StatusOr<Cliff> cliff =
      FindCliff(evaluator_, candidate_, options_, {});
  ASSERT_THAT(cliff, IsOk());
  ASSERT_TRUE(cliff->has_edge);
  EXPECT_EQ(cliff->below_pages, cliff->edge_pages - 1);
  EXPECT_EQ(cliff->margin_pages, 220 - cliff->edge_pages);
  EXPECT_DOUBLE_EQ(cliff->margin_gib,
                   static_cast<double>(cliff->margin_pages) / 256);
  EXPECT_DOUBLE_EQ(cliff->margin_ratio,
                   static_cast<double>(cliff->margin_pages) / 220);

  const double limit = cliff->plateau_strain * (1 + cliff->tolerance);
  EXPECT_NEAR(Strain(cliff->plateau_pages), cliff->plateau_strain, 1e-12);
  // The scan's edges: pools on the plateau whose next smaller one is not.
  const int64_t low =
      FewestPages(candidate_, traffic_.longest_request_tokens());
  int64_t lowest = 0;
  int64_t highest = 0;
  bool was_on = false;
  bool found_is_edge = false;
  for (int64_t pages = low; pages <= 220; ++pages) {
    const bool is_on = Strain(pages) <= limit;
    if (is_on && !was_on && pages > low) {
      lowest = lowest == 0 ? pages : lowest;
      highest = pages;
      found_is_edge = found_is_edge || pages == cliff->edge_pages;
    }
    was_on = is_on;
  }
  EXPECT_TRUE(found_is_edge)
      << cliff->edge_pages << " of " << lowest << " to " << highest;
  EXPECT_GE(cliff->edge_pages, lowest);
  EXPECT_LE(cliff->edge_pages, highest);
  // The cliff is one: below it things get worse, and preemptions show why.
  EXPECT_GT(Strain(low), 2 * limit);
}

TEST_F(CliffSearchTest, BothSidesCarryWhatTheyCost) {
  const absl::StatusOr<Cliff> cliff =
      FindCliff(evaluator_, candidate_, options_, {});
  ASSERT_THAT(cliff, IsOk());
  EXPECT_EQ(cliff->at_edge.candidate.total_num_pages, cliff->edge_pages);
  EXPECT_EQ(cliff->below_edge.candidate.total_num_pages, cliff->below_pages);
  EXPECT_EQ(cliff->at_recommended.candidate.total_num_pages, 220);
  EXPECT_LE(cliff->at_edge.strain.value,
            cliff->plateau_strain * (1 + cliff->tolerance));
  EXPECT_GT(cliff->below_edge.strain.value,
            cliff->plateau_strain * (1 + cliff->tolerance));
  EXPECT_GE(cliff->below_edge.preemptions, cliff->at_recommended.preemptions);
  EXPECT_THAT(CliffMarginText(*cliff),
              AllOf(HasSubstr(absl::StrCat("you are ", cliff->margin_pages,
                                           " pages, ")),
                    HasSubstr(" % from the edge")));
}

TEST_F(CliffSearchTest, APoolBelowThePlateauHasANegativeMargin) {
  candidate_ = WithPages(candidate_, 60);
  const absl::StatusOr<Cliff> cliff =
      FindCliff(evaluator_, candidate_, options_, {});
  ASSERT_THAT(cliff, IsOk());
  EXPECT_LT(cliff->margin_pages, 0);
  EXPECT_GT(cliff->edge_pages, 60);
  EXPECT_THAT(
      CliffMarginText(*cliff),
      AllOf(HasSubstr("below the plateau"),
            HasSubstr(absl::StrCat(cliff->edge_pages - 60, " pages, "))));
}

TEST_F(CliffSearchTest, ATrickleOfRequestsHasNoCliff) {
  options_.request_rate = 0.01;
  const absl::StatusOr<Cliff> cliff =
      FindCliff(evaluator_, candidate_, options_, {});
  ASSERT_THAT(cliff, IsOk());
  EXPECT_FALSE(cliff->has_edge);
  EXPECT_EQ(cliff->edge_pages,
            FewestPages(candidate_, traffic_.longest_request_tokens()));
  EXPECT_THAT(CliffMarginText(*cliff), HasSubstr("no edge: even "));
}

TEST_F(CliffSearchTest, IsCancelledBetweenRuns) {
  int asked = 0;
  EXPECT_THAT(FindCliff(evaluator_, candidate_, options_,
                        [&asked] { return ++asked > 3; }),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  EXPECT_EQ(evaluator_.runs(), 3);
}

}  // namespace
}  // namespace tidewheel
