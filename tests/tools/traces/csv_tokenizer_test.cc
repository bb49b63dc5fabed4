#include "tools/traces/csv_tokenizer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Records = std::vector<std::vector<std::string>>;

struct Tokens {
  Records records;
  std::vector<int64_t> lines;
  absl::Status status;
};

Tokens Tokenize(absl::string_view text) {
  CsvTokenizer csv(text);
  Tokens tokens;
  while (true) {
    const absl::StatusOr<bool> more = csv.Next();
    tokens.status = more.status();
    if (!more.ok()) tokens.lines.push_back(csv.line());
    if (!more.ok() || !*more) return tokens;
    std::vector<std::string>& record = tokens.records.emplace_back();
    for (const absl::string_view field : csv.fields()) {
      record.emplace_back(field);
    }
    tokens.lines.push_back(csv.line());
  }
}

struct TextCase {
  const char* name;
  const char* text;
  Records records;
};

class CsvTokenizerTextTest : public testing::TestWithParam<TextCase> {};

TEST_P(CsvTokenizerTextTest, SplitsIntoRecordsAndFields) {
  const Tokens tokens = Tokenize(GetParam().text);
  EXPECT_THAT(tokens.status, IsOk());
  EXPECT_EQ(tokens.records, GetParam().records);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, CsvTokenizerTextTest,
    testing::Values(
        TextCase{"Empty", "", {}}, TextCase{"OnlyBlankLines", "\n \r\n\t", {}},
        TextCase{"Lf", "a,b\nc,d\n", {{"a", "b"}, {"c", "d"}}},
        TextCase{"CrLf", "a,b\r\nc,d\r\n", {{"a", "b"}, {"c", "d"}}},
        TextCase{"Cr", "a,b\rc,d\r", {{"a", "b"}, {"c", "d"}}},
        TextCase{"NoFinalNewline", "a,b\nc,d", {{"a", "b"}, {"c", "d"}}},
        TextCase{"BlankLinesBetween", "a\n\n  \n\r\nb\n\n", {{"a"}, {"b"}}},
        TextCase{"EmptyFields", ",a,\n", {{"", "a", ""}}},
        TextCase{"FinalCommaWithoutNewline", "a,", {{"a", ""}}},
        TextCase{"BlanksAround", " a ,\tb c\t\n", {{"a", "b c"}}},
        TextCase{"Quoted", "\"a\",\"b\"\n", {{"a", "b"}}},
        TextCase{"BlanksAroundQuotes", " \"a\" , \"b\"\t\n", {{"a", "b"}}},
        TextCase{"CommaInQuotes", "\"a,b\",c\n", {{"a,b", "c"}}},
        TextCase{"NewlineInQuotes", "\"a\nb\",c\n", {{"a\nb", "c"}}},
        TextCase{"DoubledQuotes",
                 "\"say \"\"x\"\"\",\"\"\"\"\n",
                 {{"say \"x\"", "\""}}},
        TextCase{"EmptyQuotes", "\"\",a\n", {{"", "a"}}},
        TextCase{"QuoteInsideField", "a\"b,c\n", {{"a\"b", "c"}}},
        TextCase{"QuotedAtEnd", "a,\"b\"", {{"a", "b"}}}),
    [](const auto& test) { return test.param.name; });

TEST(CsvTokenizerTest, LinesCountThroughBlankOnesAndThroughQuotes) {
  EXPECT_THAT(Tokenize("a\r\n\r\nb\n\"c\nd\r\ne\"\rf").lines,
              ElementsAre(1, 3, 4, 7));
}

TEST(CsvTokenizerTest, UnclosedQuoteIsAnErrorOnTheLineWhereItsRecordStarts) {
  const Tokens tokens = Tokenize("a,b\n1,\"2\n3,4\n5,6\n");
  EXPECT_THAT(tokens.status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'2\\n3,4\\n5,6\\n' is never closed")));
  EXPECT_THAT(tokens.lines, ElementsAre(1, 2));
}

TEST(CsvTokenizerTest, TextAfterAClosingQuoteIsAnError) {
  EXPECT_THAT(Tokenize("\"374\"8,44\n").status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("text after the closing quote of '374'")));
}

TEST(CsvTokenizerTest, RecordOfMoreFieldsThanTheLimitIsAnError) {
  const std::string commas(CsvTokenizer::kMaxFields - 1, ',');
  EXPECT_THAT(Tokenize(commas).status, IsOk());
  EXPECT_THAT(Tokenize(commas + ",").status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("more than 1024 fields")));
}

}  // namespace
}  // namespace tidewheel
