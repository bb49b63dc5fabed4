#include "tools/tune/space_file.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SpaceFileTest, ReadsListsValuesAndRanges) {
  const absl::StatusOr<SearchSpace> space = ParseSpace(R"({
    "page_size": [16, 32],
    "total_num_pages": {"min": 1000, "max": 4000, "steps": 4},
    "max_num_seqs": {"min": 32, "max": 256, "steps": 4, "scale": "log"},
    "max_num_batched_tokens": 2048,
    "admission": ["optimistic", "reserve"],
    "watermark": [0.01, 0.05],
    "policy": "fcfs"
  })",
                                                       "space");
  ASSERT_THAT(space, IsOk());
  EXPECT_THAT(space->page_size, ElementsAre(16, 32));
  EXPECT_THAT(space->total_num_pages, ElementsAre(1000, 2000, 3000, 4000));
  EXPECT_THAT(space->max_num_seqs, ElementsAre(32, 64, 128, 256));
  EXPECT_THAT(space->max_num_batched_tokens, ElementsAre(2048));
  EXPECT_THAT(space->admission, ElementsAre(AdmissionPolicy::kOptimistic,
                                            AdmissionPolicy::kReserve));
  EXPECT_THAT(space->watermark, ElementsAre(0.01, 0.05));
  EXPECT_THAT(space->policy, ElementsAre(OrderingPolicy::kFcfs));
  EXPECT_TRUE(space->chips.empty());
  EXPECT_EQ(space->size(), 2 * 4 * 4 * 2 * 2);
}

struct BadSpace {
  const char* json;
  const char* place;
};

class BadSpaceTest : public testing::TestWithParam<BadSpace> {};

TEST_P(BadSpaceTest, IsRefusedWithThePlace) {
  EXPECT_THAT(ParseSpace(GetParam().json, "s.json"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().place)));
}

INSTANTIATE_TEST_SUITE_P(
    Spaces, BadSpaceTest,
    testing::Values(
        BadSpace{"", "s.json: "},
        BadSpace{"{\n \"page_size\": [16,,]}", "line 2, column 19"},
        BadSpace{"{\"page_size\": [16}", "line 1, column 18"},
        BadSpace{"[16]", "s.json is a list; give an object"},
        BadSpace{"{}", "s.json is an empty space; name at least one of"},
        BadSpace{R"({"page_sizes": [16]})",
                 "s.json: page_sizes is no knob; use chips, page_size"},
        BadSpace{R"({"page_size": [16, 0]})",
                 "s.json: page_size[1] is 0; give a whole number in [1, "},
        BadSpace{
            R"({"page_size": 0})",
            "s.json: page_size is 0; give a whole number in [1, 16777216]"},
        BadSpace{R"({"page_size": [16.5]})", "page_size[0] is 16.5"},
        BadSpace{R"({"page_size": ["16"]})", "page_size[0] is \"16\""},
        BadSpace{R"({"page_size": [true]})", "page_size[0] is true"},
        BadSpace{R"({"page_size": [null]})", "page_size[0] is null"},
        BadSpace{R"({"page_size": [[16]]})", "page_size[0] is a list"},
        BadSpace{R"({"page_size": []})", "page_size is an empty list"},
        BadSpace{R"({"page_size": [16, 32, 16]})",
                 "page_size[2] repeats a value"},
        BadSpace{R"({"page_size": 16, "page_size": 32})",
                 "page_size appears twice; remove one"},
        BadSpace{R"({"max_num_seqs": -1})", "max_num_seqs is -1"},
        BadSpace{R"({"max_num_seqs": 1e9})", "max_num_seqs is 1000000000"},
        BadSpace{R"({"total_num_pages": 1})", "total_num_pages is 1"},
        BadSpace{R"({"hbm_utilization": 0})", "number in (0, 1]"},
        BadSpace{R"({"hbm_utilization": 1.5})", "hbm_utilization is 1.5"},
        BadSpace{R"({"watermark": 1})", "number in [0, 1)"},
        BadSpace{R"({"admission": "greedy"})", "admission: admission \"greedy"},
        BadSpace{R"({"admission": ["reserve", 3]})", "admission[1] is 3"},
        BadSpace{R"({"policy": ["lifo"]})", "policy[0]: policy \"lifo\""},
        BadSpace{R"({"max_num_seqs": {"min": 1, "max": 4}})",
                 "max_num_seqs lacks \"steps\""},
        BadSpace{R"({"max_num_seqs": {"min": 8, "max": 4, "steps": 2}})",
                 "max_num_seqs.min 8 is above .max 4"},
        BadSpace{R"({"max_num_seqs": {"min": 1, "max": 3, "steps": 9}})",
                 "max_num_seqs.steps 9 are more than the values"},
        BadSpace{R"({"max_num_seqs": {"min": 1, "max": 3, "steps": 1}})",
                 "give at least 2 steps"},
        BadSpace{R"({"max_num_seqs": {"min": 1, "max": 3, "steps": 0}})",
                 "max_num_seqs.steps is 0"},
        BadSpace{R"({"max_num_seqs": {"min": 1, "max": 3, "step": 1}})",
                 "max_num_seqs.step is no part of a range"},
        BadSpace{R"({"max_num_seqs": {"min": 1, "min": 2}})",
                 "max_num_seqs.min appears twice"},
        BadSpace{
            R"({"watermark": {"min":0,"max":0.1,"steps":3,"scale":"log"}})",
            "watermark.min is 0, which no ratio leads away from"},
        BadSpace{
            R"({"watermark": {"min":0,"max":0.1,"steps":3,"scale":"log10"}})",
            "watermark.scale is \"log10\""},
        BadSpace{R"({"total_num_pages": 100, "hbm_utilization": 0.5})",
                 "total_num_pages and hbm_utilization both"},
        BadSpace{R"({"watermark": 0.1, "watermark_pages": 3})",
                 "watermark_pages and watermark are the same knob"},
        BadSpace{R"({"watermark": 0.1, "admission": "reserve"})",
                 "a watermark has no effect"},
        BadSpace{
            R"({"max_num_seqs": 512, "max_num_batched_tokens": [64, 256]})",
            "max_num_batched_tokens is at most 256 and max_num_seqs at "
            "least 512"},
        BadSpace{R"({"max_num_seqs": {"min": 1, "max": 1000, "steps": 1000},
                     "page_size": {"min": 1, "max": 1000, "steps": 1000}})",
                 "more than 20000 combinations"}));

TEST(SpaceFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(ReadSpaceFile("no/such/space.json"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no/such/space.json: can not be read")));
}

}  // namespace
}  // namespace tidewheel
