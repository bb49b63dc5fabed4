#include "tools/traces/mooncake_trace.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/traces/content_ids.h"
#include "tools/traces/token_content.h"
#include "tools/traces/trace_check.h"
#include "tools/traces/trace_reader.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Line(const std::string& timestamp, const std::string& input,
                 const std::string& output, const std::string& ids) {
  return absl::StrCat(
      "{\"timestamp\": ", timestamp, ", \"input_length\": ", input,
      ", \"output_length\": ", output, ", \"hash_ids\": ", ids, "}\n");
}

std::vector<int32_t> PromptOf(const Trace& trace, size_t request) {
  const TraceRequest& r = trace.requests[request];
  std::vector<int32_t> tokens(static_cast<size_t>(r.prompt_tokens));
  WriteContent(trace.segments_of(r), tokens);
  return tokens;
}

size_t SharedPrefix(const std::vector<int32_t>& a,
                    const std::vector<int32_t>& b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

TEST(MooncakeTraceTest, PromptsShareTokensExactlyAsFarAsTheirBlocks) {
  const auto trace = ParseTrace(
      "t",
      Line("0", "1536", "1", "[7, 8, 9]") +
          Line("0", "1500", "1", "[7, 8, 10]") +
          Line("0", "1100", "1", "[7, 8, 9]") +  // 76 tokens of block 9
          Line("0", "1024", "1", "[8, 7]"),
      {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  const std::vector<int32_t> first = PromptOf(*trace, 0);
  EXPECT_EQ(SharedPrefix(first, PromptOf(*trace, 1)), 1024u);
  EXPECT_EQ(SharedPrefix(first, PromptOf(*trace, 2)), 1100u);
  EXPECT_EQ(SharedPrefix(first, PromptOf(*trace, 3)), 0u);
}

TEST(MooncakeTraceTest, OneSegmentForEachBlockAndTheLastMayBePartial) {
  const auto trace = ParseTrace("t", Line("0", "1025", "3", "[5, 6, 7]"), {});
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->segments.size(), 3u);
  EXPECT_EQ(trace->segments[0].length, 512);
  EXPECT_EQ(trace->segments[1].length, 512);
  EXPECT_EQ(trace->segments[2].length, 1);
  EXPECT_EQ(trace->segments[2].content_id, ContentId(ContentSpace::kBlock, 7));
}

TEST(MooncakeTraceTest, IdsOfAllSizesAreDistinctContents) {
  const std::vector<std::string> ids = {"0",
                                        "1",
                                        "2305843009213693951",  // 2^61 - 1
                                        "2305843009213693952",  // 2^61
                                        "2305843009213693953",
                                        "4611686018427387904",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "13835058055282163712",
                                        "18446744073709551615"};
  const std::string list = absl::StrCat("[", absl::StrJoin(ids, ","), "]");
  const std::string line = Line("0", absl::StrCat(512 * ids.size()), "1", list);
  const auto trace = ParseTrace("t", line + line, {});
  ASSERT_THAT(trace, IsOk());
  std::set<uint64_t> contents;
  for (const ContentSegment& s : trace->segments) {
    EXPECT_EQ(SpaceOf(s.content_id), ContentSpace::kBlock);
    contents.insert(s.content_id);
  }
  EXPECT_EQ(contents.size(), ids.size());
  EXPECT_EQ(PromptOf(*trace, 0), PromptOf(*trace, 1));
}

struct LineCase {
  const char* name;
  std::string line;
  const char* part;
};

class MooncakeErrorTest : public testing::TestWithParam<LineCase> {};

TEST_P(MooncakeErrorTest, NamesTheLine) {
  const std::string good = Line("0", "512", "1", "[0]");
  EXPECT_THAT(ParseTrace("conversation.jsonl",
                         good + "\n" + GetParam().line + good, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(StartsWith("conversation.jsonl:3: "),
                             HasSubstr(GetParam().part))));
}

INSTANTIATE_TEST_SUITE_P(
    Lines, MooncakeErrorTest,
    testing::Values(
        LineCase{"TwoNumbersInOneField", Line("0", "2748 610", "1", "[0]"),
                 "line is not valid JSON"},
        LineCase{"TooFewIds", Line("0", "6758", "1", "[0, 1, 2, 3]"),
                 "hash_ids has 4 entries but input_length 6758 needs 14, one "
                 "for each 512 tokens; correct"},
        LineCase{"TooManyIds", Line("0", "512", "1", "[0, 1]"),
                 "hash_ids has 2 entries but input_length 512 needs 1"},
        LineCase{"NoIds", Line("0", "1", "1", "[]"),
                 "hash_ids has 0 entries but input_length 1 needs 1"},
        LineCase{"IdsAreNoList", Line("0", "1", "1", "3"),
                 "hash_ids is not a list"},
        LineCase{"NegativeId", Line("0", "1", "1", "[-1]"),
                 "an entry of hash_ids is not a whole number"},
        LineCase{"FractionalId", Line("0", "1", "1", "[1.5]"),
                 "an entry of hash_ids is not a whole number"},
        LineCase{"TextId", Line("0", "1", "1", "[\"a\"]"),
                 "an entry of hash_ids is not a whole number"},
        LineCase{"TextLength", Line("0", "\"5\"", "1", "[0]"),
                 "input_length is not a whole number"},
        LineCase{"FractionalLength", Line("0", "5", "1.5", "[0]"),
                 "output_length is not a whole number"},
        LineCase{"NullLength", Line("0", "null", "1", "[0]"),
                 "input_length is not a whole number"},
        LineCase{"NegativeLength", Line("0", "1", "-1", "[0]"),
                 "output_length -1 is negative"},
        LineCase{"LengthPastInt32", Line("0", "1", "2147483648", "[0]"),
                 "output_length 2147483648 exceeds 2147483647"},
        LineCase{"LengthPastInt64",
                 Line("0", "1", "18446744073709551615", "[0]"),
                 "output_length '18446744073709551615' exceeds 2147483647"},
        LineCase{"ZeroInput", Line("0", "0", "1", "[]"), "prompt length is 0"},
        LineCase{"ZeroOutput", Line("0", "1", "0", "[0]"),
                 "output length is 0"},
        LineCase{"NegativeTime", Line("-3000", "1", "1", "[0]"),
                 "timestamp -3000 is negative"},
        LineCase{"TimePastTheLimit", Line("1e300", "1", "1", "[0]"),
                 "lies past the year 9999"},
        LineCase{"TextTime", Line("\"0\"", "1", "1", "[0]"),
                 "timestamp is not a number"},
        LineCase{"KeyTwice",
                 "{\"timestamp\":0,\"timestamp\":1,\"input_length\":1,"
                 "\"output_length\":1,\"hash_ids\":[0]}\n",
                 "key timestamp is there twice"},
        LineCase{"KeyAbsent",
                 "{\"timestamp\":0,\"input_length\":1,\"hash_ids\":[0]}\n",
                 "key output_length is absent"},
        LineCase{"NoObject", "[1, 2]\n", "line is not a JSON object"},
        LineCase{"TwoObjects", "{\"timestamp\":0} {\"timestamp\":0}\n",
                 "line is not valid JSON"},
        LineCase{"CutOff", "{\"timestamp\": 0, \"input_le\n",
                 "line is not valid JSON"},
        LineCase{"NoUtf8", "{\"timestamp\": 0, \"\xff\": 1}\n",
                 "line is not valid JSON"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tidewheel
