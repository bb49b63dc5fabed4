#include "tools/traces/trace_reader.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/temporary_folder.h"
#include "tools/traces/trace_check.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// What a row becomes, as text: "arrival_us prompt output".
std::vector<std::string> RowsOf(const Trace& trace) {
  std::vector<std::string> rows;
  for (const TraceRequest& r : trace.requests) {
    rows.push_back(
        absl::StrCat(r.arrival_us, " ", r.prompt_tokens, " ", r.output_tokens));
  }
  return rows;
}

struct ReadCase {
  const char* name;
  std::string text;
  const char* format;
};

// Each of these is the same three requests.
const char kAzure[] =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 23:59:59.5000000,374,44\n"
    "2023-11-17 00:00:00.0000000,396,109\n"
    "2023-11-17 00:00:00.0010000,879,55\n";

class SameTraceTest : public testing::TestWithParam<ReadCase> {};

TEST_P(SameTraceTest, IsReadWithoutNotes) {
  const auto trace = ParseTrace("t.csv", GetParam().text, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  EXPECT_EQ(trace->format, GetParam().format);
  EXPECT_EQ(trace->name, "t.csv");
  EXPECT_THAT(trace->notes, IsEmpty());
  EXPECT_THAT(RowsOf(*trace),
              ElementsAre("0 374 44", "500000 396 109", "501000 879 55"));
}

INSTANTIATE_TEST_SUITE_P(
    Azure, SameTraceTest,
    testing::Values(
        ReadCase{"Published", kAzure, "azure"},
        ReadCase{"CrLf", absl::StrReplaceAll(kAzure, {{"\n", "\r\n"}}),
                 "azure"},
        ReadCase{"Cr", absl::StrReplaceAll(kAzure, {{"\n", "\r"}}), "azure"},
        ReadCase{"ByteOrderMark", absl::StrCat("\xef\xbb\xbf", kAzure),
                 "azure"},
        ReadCase{"BlankLines",
                 absl::StrCat("\n",
                              absl::StrReplaceAll(kAzure, {{"\n", "\n \n\n"}})),
                 "azure"},
        ReadCase{"NoFinalNewline", std::string(kAzure, sizeof(kAzure) - 2),
                 "azure"},
        ReadCase{"SpacesAround", absl::StrReplaceAll(kAzure, {{",", " , "}}),
                 "azure"},
        ReadCase{"TrailingCommas", absl::StrReplaceAll(kAzure, {{"\n", ",\n"}}),
                 "azure"},
        ReadCase{"Year2024",
                 "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                 "2024-02-29 23:59:59.500000+00:00,374,44\n"
                 "2024-03-01 00:00:00+00:00,396,109\n"
                 "2024-03-01 00:00:00.001000+00:00,879,55\n",
                 "azure"},
        ReadCase{"MixedZonesAndQuotes",
                 "timestamp,contexttokens,generatedtokens\n"
                 "\"2023-11-16T23:59:59.5Z\",\"374\",44\n"
                 "2023-11-17T01:00:00+01:00,396,\"109\"\n"
                 "2023-11-17 00:00:00.001,879,55\n",
                 "azure"},
        ReadCase{"OtherOrderCaseAndColumns",
                 "id,Generated_Tokens,note,CONTEXT TOKENS,TimeStamp\n"
                 "a,44,\"x, y\",374,2023-11-16 23:59:59.5\n"
                 "b,109,\"two\nlines\",396,2023-11-17 00:00:00\n"
                 "c,55,,879,2023-11-17 00:00:00.001\n",
                 "azure"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Vidur, SameTraceTest,
    testing::Values(
        ReadCase{"New",
                 "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                 "4.25,374,44\n4.75,396,109\n4.751,879,55\n",
                 "vidur"},
        ReadCase{"NewWithIndexAndMore",
                 ",num_decode_tokens,num_prefill_tokens,arrived_at,pd_ratio\n"
                 "0,44,374,0.0,8.5\n1,109,396,5e-01,3.6\n2,55,879,0.501,16\n",
                 "vidur"},
        ReadCase{"OldWithTime",
                 "Time,PromptTokenCount,GeneratedTokenCount\n"
                 "0,374,44\n0.5,396,109\n0.501,879,55\n",
                 "vidur"},
        ReadCase{"OldWithArrivedAt",
                 "PromptTokenCount,GeneratedTokenCount,arrived_at\n"
                 "374,44,1700158546.25\n396,109,1700158546.75\n"
                 "879,55,1700158546.751\n",
                 "vidur"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    BurstGpt, SameTraceTest,
    testing::Values(
        ReadCase{"Published",
                 "Timestamp,Model,Request tokens,Response tokens,Total tokens,"
                 "Log Type\n"
                 "5.5,ChatGPT,374,44,418,Conversation log\n"
                 "6,GPT-4,396,109,505,API log\n"
                 "6.001,ChatGPT,879,55,934,Conversation log\n",
                 "burstgpt"},
        ReadCase{"WithSessions",
                 "Timestamp,Session ID,Elapsed time,Model,Request tokens,"
                 "Response tokens,Total tokens,Log Type\n"
                 "19440110.0,1722ac82,43,GPT-4,374,44,418,Conversation log\n"
                 "19440110.5,,2,ChatGPT,396,109,505,Conversation log\n"
                 "19440110.501,x,2,ChatGPT,879,55,934,API log\n",
                 "burstgpt"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Mooncake, SameTraceTest,
    testing::Values(
        ReadCase{
            "Published",
            "{\"timestamp\": 0, \"input_length\": 374, \"output_length\": 44, "
            "\"hash_ids\": [0]}\n"
            "{\"timestamp\": 500, \"input_length\": 396, \"output_length\": "
            "109, \"hash_ids\": [0]}\n"
            "{\"timestamp\": 501, \"input_length\": 879, \"output_length\": "
            "55, \"hash_ids\": [1, 2]}\n",
            "mooncake"},
        ReadCase{
            "EpochOtherOrderCrLfBlankLinesByteOrderMark",
            "\xef\xbb\xbf\r\n"
            "{\"hash_ids\":[0],\"output_length\":44,\"input_length\":374,"
            "\"timestamp\":1700158546250,\"extra\":{\"hash_ids\":3}}\r\n\r\n"
            "{\"hash_ids\":[0],\"output_length\":109,\"input_length\":396,"
            "\"timestamp\":1700158546750.0}\r\n"
            "{\"hash_ids\":[1,2],\"output_length\":55,\"input_length\":879,"
            "\"timestamp\":1700158546751}",
            "mooncake"}),
    [](const auto& test) { return test.param.name; });

TEST(TraceReaderTest, AFormatCanBeForced) {
  // Fits two formats, so it has to be.
  const char text[] =
      "Timestamp,arrived_at,Request tokens,num_prefill_tokens,Response tokens,"
      "num_decode_tokens\n10,0,1,2,3,4\n";
  EXPECT_THAT(ParseTrace("t.csv", text, {}),
              StatusIs(kInvalid, HasSubstr("fits the formats vidur, burstgpt; "
                                           "say which one to read")));
  const auto vidur = ParseTrace("t", text, {.format = TraceFormat::kVidur});
  ASSERT_THAT(vidur, IsOk());
  EXPECT_THAT(RowsOf(*vidur), ElementsAre("0 2 4"));
  const auto burst = ParseTrace("t", text, {.format = TraceFormat::kBurstGpt});
  ASSERT_THAT(burst, IsOk());
  EXPECT_THAT(RowsOf(*burst), ElementsAre("0 1 3"));
  EXPECT_THAT(
      ParseTrace("t.csv", text, {.format = TraceFormat::kAzure}),
      StatusIs(kInvalid,
               AllOf(StartsWith("t.csv:1: no column holds the prompt length"),
                     HasSubstr("'num_prefill_tokens'"))));
  EXPECT_THAT(
      ParseTrace("t.csv", text, {.format = TraceFormat::kMooncake}),
      StatusIs(kInvalid, StartsWith("t.csv:1: line is not valid JSON")));
}

TEST(TraceReaderTest, RepeatedHeaderIsLeftOutAndNoted) {
  const std::string header =
      "arrived_at,num_prefill_tokens,num_decode_tokens\n";
  const auto trace =
      ParseTrace("t.csv", header + header + "0,1,2\n" + header + "1,3,4\n", {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(RowsOf(*trace), ElementsAre("0 1 2", "1000000 3 4"));
  EXPECT_THAT(trace->notes,
              ElementsAre("2 rows left out: the header again, the first on "
                          "line 2"));
}

struct ErrorCase {
  const char* name;
  std::string text;
  std::vector<const char*> parts;  // of the error's text
};

class TraceErrorTest : public testing::TestWithParam<ErrorCase> {};

TEST_P(TraceErrorTest, NamesPlaceValueAndRemedy) {
  const auto trace = ParseTrace("some.trace", GetParam().text, {});
  ASSERT_THAT(trace, StatusIs(kInvalid, StartsWith("some.trace:")));
  for (const char* part : GetParam().parts) {
    EXPECT_THAT(std::string(trace.status().message()), HasSubstr(part));
  }
  EXPECT_LT(trace.status().message().size(), 1000u);
}

std::string Vidur(const std::string& rows) {
  return absl::StrCat("arrived_at,num_prefill_tokens,num_decode_tokens\n",
                      rows);
}
std::string Burst(const std::string& rows) {
  return absl::StrCat("Timestamp,Request tokens,Response tokens\n", rows);
}
std::string Azure(const std::string& rows) {
  return absl::StrCat("TIMESTAMP,ContextTokens,GeneratedTokens\n", rows);
}

INSTANTIATE_TEST_SUITE_P(
    Files, TraceErrorTest,
    testing::Values(
        ErrorCase{"Empty", "", {"file is empty", "azure (CSV"}},
        ErrorCase{"OnlyByteOrderMark", "\xef\xbb\xbf", {"file is empty"}},
        ErrorCase{"OnlyBlankLines", "\r\n \n\n", {"file is empty"}},
        ErrorCase{"HeaderOnly", Azure(""), {"no request to replay", "give a"}},
        ErrorCase{"UnknownHeader",
                  "when,\"in\",out\n1,2,3\n",
                  {":1: ", "columns 'when', 'in', 'out'", "azure (CSV",
                   "mooncake (JSON", "vidur (CSV", "burstgpt (CSV"}},
        ErrorCase{"NoHeader", "0.5,374,44\n", {"columns '0.5', '374', '44'"}},
        ErrorCase{"MissingColumn",
                  "TIMESTAMP,ContextTokens\n",
                  {"columns 'TIMESTAMP', 'ContextTokens'"}},
        ErrorCase{"ColumnTwice",
                  "arrived_at,num_prefill_tokens,num_decode_tokens,"
                  "NUM-PREFILL-TOKENS\n0,1,2,3\n",
                  {":1: columns 2 (num_prefill_tokens) and 4 "
                   "(NUM-PREFILL-TOKENS) both hold the prompt length",
                   "remove or rename"}},
        ErrorCase{"OldAndNewNames",
                  "Time,num_prefill_tokens,num_decode_tokens,arrived_at\n",
                  {"columns 1 (Time) and 4 (arrived_at) both hold the arrival "
                   "time"}},
        ErrorCase{"Junk",
                  std::string("\x7f"
                              "ELF\x02\x01\x00\x00,\n\x00\xff",
                              13),
                  {"columns '\\177ELF\\002\\001\\000\\000', ''"}},
        ErrorCase{"Gzip", "\x1f\x8b\x08 abc", {":1: ", "gzip; decompress"}},
        ErrorCase{"Zstd", "\x28\xb5\x2f\xfd abc", {"zstd; decompress"}},
        ErrorCase{"Utf16", "\xff\xfeT", {"UTF-16", "save it as UTF-8"}},
        ErrorCase{"LongLineOfText", std::string(10'000'000, 'x'), {"xxx...'"}},
        ErrorCase{"LongLineOfCommas",
                  std::string(10'000'000, ','),
                  {":1: record has more than 1024 fields"}},
        ErrorCase{"LongLineOfJson",
                  absl::StrCat("{", std::string(10'000'000, '[')),
                  {":1: line is not valid JSON"}},
        ErrorCase{"OpenQuote",
                  Azure("\"2023-11-16 18:15:46,1,2\n"),
                  {":2: quote before '2023-11-16 18:15:46,1,2\\n'"}},
        ErrorCase{"JsonArray", "[{\"timestamp\": 0}]", {"no known format"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Rows, TraceErrorTest,
    testing::Values(
        ErrorCase{"TwoNumbersInOneField",
                  Vidur("0,1,2\n1,2748 610,3\n"),
                  {":3: num_prefill_tokens '2748 610' is not a whole number",
                   "correct or remove the row"}},
        ErrorCase{"CountPastInt32",
                  Vidur("0,1,2147483648\n"),
                  {":2: num_decode_tokens 2147483648 exceeds 2147483647"}},
        ErrorCase{"SumPastInt32",
                  Vidur("0,2147483647,1\n"),
                  {":2: prompt and output lengths 2147483647 + 1 exceed "
                   "2147483647"}},
        ErrorCase{"NegativeCount",
                  Burst("0,-5,1\n"),
                  {":2: Request tokens -5 is negative"}},
        ErrorCase{"NaNTime",
                  Vidur("nan,1,2\n"),
                  {":2: arrived_at 'nan' is not a number of seconds"}},
        ErrorCase{"NegativeTime",
                  Vidur("0,1,2\n-0.5,1,2\n"),
                  {":3: arrived_at -0.5 is negative"}},
        ErrorCase{"MillisecondsInSeconds",
                  Burst("1700158546680,1,2\n"),
                  {":2: Timestamp 1.70016e+12 in units of 1 s lies past the "
                   "year 9999"}},
        ErrorCase{"EmptyCount",
                  Vidur("0,,2\n"),
                  {":2: num_prefill_tokens '' is not a whole number"}},
        ErrorCase{"TooFewFields",
                  Vidur("0,1\n"),
                  {":2: row has 2 fields, but num_decode_tokens is field 3"}},
        ErrorCase{"TooManyFields",
                  Vidur("0,1,2,3\n"),
                  {":2: row has 4 fields, but the header has 3"}},
        ErrorCase{"SecondsInAzure",
                  Azure("12.5,1,2\n"),
                  {":2: TIMESTAMP '12.5' is not a date and time"}},
        ErrorCase{"ZeroPrompt",
                  Azure("2023-11-16 18:15:46,0,2\n"),
                  {":2: prompt length is 0", "remove the row"}},
        ErrorCase{"ZeroOutput",
                  Vidur("0,1,2\n\n3,1,0\n"),
                  {":4: output length is 0"}},
        ErrorCase{"ZeroPromptInBurstGpt",
                  Burst("0,0,2\n"),
                  {":2: prompt length is 0"}},
        ErrorCase{"OnlyFailedRequests",
                  Burst("0,5,0\n"),
                  {"no request to replay (1 rows left out"}}),
    [](const auto& test) { return test.param.name; });

TEST(TraceReaderTest, ZeroLengthsAreLeftOutAndCountedOnRequest) {
  const auto trace =
      ParseTrace("t.csv", Vidur("0,1,2\n1,0,2\n2,1,0\n3,0,0\n4,5,6\n"),
                 {.zero_lengths = ZeroLengths::kSkip});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(RowsOf(*trace), ElementsAre("0 1 2", "4000000 5 6"));
  EXPECT_THAT(trace->notes, ElementsAre("3 rows left out: a length of 0, the "
                                        "first on line 3"));
}

TEST(TraceReaderTest, TimesStartAtTheFirstRequestThatIsKept) {
  const auto trace = ParseTrace("t.csv", Vidur("100,0,2\n200,1,2\n"),
                                {.zero_lengths = ZeroLengths::kSkip});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(RowsOf(*trace), ElementsAre("0 1 2"));
}

TEST(TraceReaderTest, FailedRequestsOfBurstGptAreLeftOutUnderEitherRule) {
  for (const ZeroLengths rule : {ZeroLengths::kRefuse, ZeroLengths::kSkip}) {
    const auto trace = ParseTrace(
        "t.csv", Burst("1,5,6\n2,5,0\n3,0,0\n4,7,8\n"), {.zero_lengths = rule});
    ASSERT_THAT(trace, IsOk());
    EXPECT_THAT(RowsOf(*trace), ElementsAre("0 5 6", "3000000 7 8"));
    EXPECT_THAT(trace->notes,
                ElementsAre("2 rows left out: 0 output tokens mark a failed "
                            "request, the first on line 3"));
  }
}

TEST(TraceReaderTest, UnsortedRowsAreSortedStablyAndNoted) {
  const std::string text = Vidur("5,1,1\n5,2,1\n3,3,1\n5,4,1\n3,5,1\n9,6,1\n");
  const auto trace = ParseTrace("t.csv", text, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  EXPECT_THAT(RowsOf(*trace),
              ElementsAre("0 3 1", "0 5 1", "2000000 1 1", "2000000 2 1",
                          "2000000 4 1", "6000000 6 1"));
  EXPECT_THAT(trace->notes, ElementsAre("2 rows moved: out of order in time, "
                                        "the first on line 4"));
  EXPECT_THAT(
      ParseTrace("t.csv", text, {.unsorted_rows = UnsortedRows::kRefuse}),
      StatusIs(kInvalid, AllOf(HasSubstr("t.csv:4: row arrives 2000000 us "
                                         "before an earlier row"),
                               HasSubstr("sort the file"))));
}

TEST(TraceReaderTest, MaxRequestsKeepsTheFirstToArrive) {
  const std::string text = Vidur("5,1,1\n3,2,1\n9,3,1\n");
  for (const int64_t keep : {1, 2, 3, 4}) {
    const auto trace = ParseTrace("t.csv", text, {.max_requests = keep});
    ASSERT_THAT(trace, IsOk());
    EXPECT_THAT(CheckTrace(*trace), IsOk());
    EXPECT_EQ(trace->requests.size(), std::min<size_t>(keep, 3));
    EXPECT_EQ(trace->segments.size(), trace->requests.size());
    EXPECT_EQ(trace->requests[0].prompt_tokens, 2);
  }
  EXPECT_THAT(ParseTrace("t.csv", text, {.max_requests = -1}),
              StatusIs(kInvalid, HasSubstr("max_requests -1 is negative")));
  // The note of what was cut is there only if something was.
  EXPECT_EQ(ParseTrace("t.csv", text, {.max_requests = 2})->notes.back(),
            "kept the first 2 of 3 requests");
  EXPECT_EQ(ParseTrace("t.csv", text, {.max_requests = 3})->notes.size(), 1u);
}

TEST(TraceReaderTest, TicksAreSpreadOverTheGapThatFollows) {
  const std::string text = Vidur("0,1,1\n0,2,1\n0,3,1\n3,4,1\n4,5,1\n4,6,1\n");
  const auto together = ParseTrace("t.csv", text, {});
  ASSERT_THAT(together, IsOk());
  EXPECT_EQ(together->requests[2].arrival_us, 0);
  const auto spread = ParseTrace("t.csv", text, {.spread_ticks = true});
  ASSERT_THAT(spread, IsOk());
  EXPECT_THAT(CheckTrace(*spread), IsOk());
  // The last tick takes the gap before it, 1 s.
  EXPECT_THAT(RowsOf(*spread),
              ElementsAre("0 1 1", "1000000 2 1", "2000000 3 1", "3000000 4 1",
                          "4000000 5 1", "4500000 6 1"));
}

TEST(TraceReaderTest, OneTickHasNoGapToSpreadOver) {
  const auto trace =
      ParseTrace("t.csv", Vidur("7,1,1\n7,2,1\n"), {.spread_ticks = true});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(RowsOf(*trace), ElementsAre("0 1 1", "0 2 1"));
  EXPECT_THAT(trace->notes, ElementsAre(HasSubstr("one timestamp")));
}

TEST(TraceReaderTest, HugeGapsSpreadWithoutOverflow) {
  std::string rows = "0,1,1\n";
  for (int i = 0; i < 1000; ++i) rows += "0,1,1\n";
  const auto trace = ParseTrace("t.csv", Vidur(rows + "253402300799,1,1\n"),
                                {.spread_ticks = true});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(CheckTrace(*trace), IsOk());
  EXPECT_EQ(trace->requests[1000].arrival_us,
            253'402'300'799'000'000 / 1001 * 1000 +
                253'402'300'799'000'000 % 1001 * 1000 / 1001);
}

TEST(TraceReaderTest, SubMillisecondOffsetsSurvive) {
  // inference-perf pull request 782: these became 0, 0, 0, 10 ms.
  const auto trace = ParseTrace("t.csv",
                                Azure("2023-11-16 18:15:46.001,1,1\n"
                                      "2023-11-16 18:15:46.0020000,1,1\n"
                                      "2023-11-16 18:15:46.009,1,1\n"
                                      "2023-11-16 18:15:46.011000000,1,1\n"),
                                {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(RowsOf(*trace),
              ElementsAre("0 1 1", "1000 1 1", "8000 1 1", "10000 1 1"));
}

class TraceFileTest : public testing::Test {
 protected:
  std::string Write(const char* name, const std::string& text) const {
    return folder_.Write(name, text);
  }

  const TemporaryFolder folder_;
};

TEST_F(TraceFileTest, AFileIsReadByItsContentWhateverItsName) {
  const auto trace = ReadTrace(Write("trace.jsonl", kAzure), {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_EQ(trace->name, "trace.jsonl");
  EXPECT_EQ(trace->format, "azure");
  EXPECT_EQ(trace->requests.size(), 3u);
}

TEST_F(TraceFileTest, FilesOfAnySizeAroundTheReadSizeAreReadWhole) {
  const std::string header = Vidur("");
  for (const size_t rows : {174762u, 174763u, 349525u, 400000u}) {
    std::string text = header;
    for (size_t i = 0; i < rows; ++i) text += "1,1,1\n";
    const auto trace = ReadTrace(Write("t.csv", text), {});
    ASSERT_THAT(trace, IsOk());
    EXPECT_EQ(trace->requests.size(), rows);
  }
}

TEST_F(TraceFileTest, ErrorsInAFileNameItWithoutItsFolders) {
  const auto trace = ReadTrace(Write("bad.csv", Vidur("0,x,1\n")), {});
  EXPECT_THAT(trace, StatusIs(kInvalid, StartsWith("bad.csv:2: ")));
}

TEST_F(TraceFileTest, AMissingFileIsNotFound) {
  const std::string path = folder_.File("none.csv");
  EXPECT_THAT(ReadTrace(path, {}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(path), HasSubstr("No such file"))));
  EXPECT_THAT(ReadTrace("", {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("No such file")));
}

TEST_F(TraceFileTest, AFolderIsRefused) {
  EXPECT_THAT(ReadTrace(folder_.path().string(), {}),
              StatusIs(kInvalid, HasSubstr("Is a directory")));
}

TEST_F(TraceFileTest, APipeIsRead) {
  const std::string path = folder_.File("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const pid_t writer = fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    std::ofstream(path) << kAzure;
    _exit(0);
  }
  const auto trace = ReadTrace(path, {});
  ASSERT_THAT(trace, IsOk());
  EXPECT_EQ(trace->requests.size(), 3u);
}

TEST(TraceFormatTest, EveryFormatIsFoundByItsName) {
  for (const TraceFormat format :
       {TraceFormat::kDetect, TraceFormat::kAzure, TraceFormat::kMooncake,
        TraceFormat::kVidur, TraceFormat::kBurstGpt}) {
    const auto found = TraceFormatFromName(TraceFormatName(format));
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(*found, format);
  }
  EXPECT_EQ(*TraceFormatFromName("BurstGPT"), TraceFormat::kBurstGpt);
  EXPECT_THAT(TraceFormatFromName("csv"),
              StatusIs(kInvalid, AllOf(HasSubstr("'csv'"),
                                       HasSubstr("vidur or burstgpt"))));
}

}  // namespace
}  // namespace tidewheel
