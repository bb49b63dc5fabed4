#include "tools/tune/page_paths.h"

#include <initializer_list>
#include <set>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/simulated_world.h"
#include "tests/tools/tune/random_trace.h"
#include "tools/traces/content_ids.h"
#include "tools/traces/token_content.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Prompt {
  std::initializer_list<ContentSegment> content;
  int32_t output_tokens = 1;
};

PagePaths PathsOf(std::initializer_list<Prompt> prompts, int32_t page_size) {
  Trace trace;
  for (const Prompt& prompt : prompts) {
    TraceRequest request;
    request.output_tokens = prompt.output_tokens;
    request.output_content_id =
        ContentId(ContentSpace::kOutput, trace.requests.size());
    request.first_segment = static_cast<uint32_t>(trace.segments.size());
    request.num_segments = static_cast<uint32_t>(prompt.content.size());
    for (const ContentSegment& segment : prompt.content) {
      request.prompt_tokens += segment.length;
      trace.segments.push_back(segment);
    }
    trace.requests.push_back(request);
  }
  absl::StatusOr<PagePaths> paths =
      BuildPagePaths(trace, {.page_size = page_size});
  EXPECT_THAT(paths, IsOk());
  return *std::move(paths);
}

std::vector<int32_t> PagesOf(const PagePaths& paths, size_t request) {
  const std::span<const int32_t> pages =
      paths.pages_of(paths.requests[request]);
  return {pages.begin(), pages.end()};
}

TEST(PagePathsTest, ContentThatIsCutElsewhereHasTheSamePages) {
  const PagePaths paths =
      PathsOf({{{{7, 0, 20}}}, {{{7, 0, 3}, {7, 3, 14}, {7, 17, 3}}}}, 4);
  EXPECT_EQ(PagesOf(paths, 0).size(), 5);
  EXPECT_EQ(PagesOf(paths, 0), PagesOf(paths, 1));
}

TEST(PagePathsTest, APageIsItsContentAndAllBeforeIt) {
  const PagePaths paths = PathsOf({{{{7, 0, 8}}},
                                   {{{8, 0, 4}, {7, 4, 4}}},
                                   {{{7, 0, 4}, {7, 5, 4}}},
                                   {{{7, 0, 3}, {8, 3, 5}}}},
                                  4);
  EXPECT_NE(PagesOf(paths, 0)[0], PagesOf(paths, 1)[0]);
  EXPECT_NE(PagesOf(paths, 0)[1], PagesOf(paths, 1)[1]);
  EXPECT_EQ(PagesOf(paths, 0)[0], PagesOf(paths, 2)[0]);
  EXPECT_NE(PagesOf(paths, 0)[1], PagesOf(paths, 2)[1]);
  EXPECT_NE(PagesOf(paths, 0)[0], PagesOf(paths, 3)[0]);
}

TEST(PagePathsTest, PagesAreEqualExactlyWhereTokensAre) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const int32_t page_size = 4 + static_cast<int32_t>(seed % 3);
    const Trace trace = RandomReuseTrace(seed, page_size);
    const absl::StatusOr<PagePaths> paths =
        BuildPagePaths(trace, {.page_size = page_size});
    ASSERT_THAT(paths, IsOk());
    std::set<std::pair<std::vector<int32_t>, int32_t>> seen;
    std::set<std::vector<int32_t>> prefixes;
    std::set<int32_t> numbers;
    for (const PagePaths::Request& request : paths->requests) {
      const TraceRequest& original = trace.requests[request.index];
      std::vector<int32_t> tokens(static_cast<size_t>(original.prompt_tokens));
      WriteContent(trace.segments_of(original), tokens);
      for (int32_t page = 0; page < request.prompt_tokens / page_size; ++page) {
        const std::vector<int32_t> prefix(
            tokens.begin(), tokens.begin() + (page + 1) * page_size);
        const int32_t number = paths->pages_of(request)[page];
        seen.emplace(prefix, number);
        prefixes.insert(prefix);
        numbers.insert(number);
      }
    }
    EXPECT_EQ(seen.size(), prefixes.size());
    EXPECT_EQ(seen.size(), numbers.size());
  }
}

TEST(PagePathsTest, TheLastTokenIsNeitherLookedUpNorComputed) {
  const PagePaths paths = PathsOf(
      {{{{1, 0, 8}}, 1}, {{{1, 0, 9}}, 1}, {{{1, 0, 8}}, 5}, {{{1, 0, 3}}, 2}},
      4);
  const auto expect = [&](size_t i, int32_t full, int32_t taken,
                          int32_t looked_up) {
    EXPECT_EQ(paths.requests[i].num_full, full) << i;
    EXPECT_EQ(paths.requests[i].num_taken, taken) << i;
    EXPECT_EQ(paths.requests[i].num_looked_up, looked_up) << i;
  };
  expect(0, 2, 2, 1);
  expect(1, 2, 3, 2);
  expect(2, 3, 3, 1);
  expect(3, 1, 1, 0);
}

TEST(PagePathsTest, RequestsPastTheModelsLengthAreLeftOutAndCounted) {
  const Trace trace = TraceOf({{.prompt_tokens = 90, .output_tokens = 10},
                               {.prompt_tokens = 90, .output_tokens = 11}});
  const absl::StatusOr<PagePaths> paths =
      BuildPagePaths(trace, {.page_size = 16, .max_model_len = 100});
  ASSERT_THAT(paths, IsOk());
  EXPECT_EQ(paths->requests.size(), 1);
  EXPECT_EQ(paths->excluded_requests, 1);
  EXPECT_EQ(paths->excluded_prompt_tokens, 90);
}

TEST(PagePathsTest, ATurnComesItsThinkTimeAfterTheOneBefore) {
  const Trace trace = TraceOf({{.arrival_us = 0},
                               {.arrival_us = 50, .after_request = 0},
                               {.arrival_us = 40}});
  const absl::StatusOr<PagePaths> paths =
      BuildPagePaths(trace, {.page_size = 1});
  ASSERT_THAT(paths, IsOk());
  EXPECT_EQ(paths->requests[1].index, 2);
  EXPECT_EQ(paths->requests[2].index, 1);
}

TEST(PagePathsTest, PageSizesThatCanNotBeAreRefusedWithARemedy) {
  const Trace trace = EqualRequests(200, {.prompt_tokens = 1'000'000}, 1);
  EXPECT_THAT(BuildPagePaths(trace, {.page_size = 1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("200000000 pages"),
                             HasSubstr("page_size of at least 3"))));
  EXPECT_THAT(BuildPagePaths(trace, {.page_size = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("page_size 0 is below 1")));
}

}  // namespace
}  // namespace tidewheel
