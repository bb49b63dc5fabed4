// Property: whatever CSV a writer may make of a trace, the same trace is read.

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/traces/content_ids.h"
#include "tools/traces/trace_check.h"
#include "tools/traces/trace_reader.h"

namespace tidewheel {
namespace {

struct Row {
  int64_t time_us;
  int32_t prompt;
  int32_t output;
};

// Draws how a CSV file is written, all from one seed.
class RandomWriter {
 public:
  explicit RandomWriter(uint32_t seed) : engine_(seed) {}

  size_t Below(size_t n) { return engine_() % n; }
  bool OneIn(size_t n) { return Below(n) == 0; }

  std::string Blanks() { return OneIn(4) ? std::string(Below(3), ' ') : ""; }

  std::string Field(std::string text) {
    const bool must_quote = text.find_first_of("\",\r\n") != std::string::npos;
    if (must_quote || OneIn(3)) {
      std::string quoted = "\"";
      for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
      text = quoted + "\"";
    }
    return Blanks() + text + Blanks();
  }

  std::string Name(std::string text) {
    if (OneIn(3)) absl::AsciiStrToUpper(&text);
    if (OneIn(3)) absl::AsciiStrToLower(&text);
    return text;
  }

  std::string Text() {
    static constexpr const char* kTexts[] = {
        "", "x", "a,b", "say \"hi\"", "two\nlines", "\r\n", "1,2,3", "\"\"\""};
    return kTexts[Below(8)];
  }

  std::string LineEnd() {
    std::string end = end_;
    while (OneIn(5)) end += OneIn(2) ? "  " + end_ : end_;
    return end;
  }

  // `names` and each row's values in one random order, among other columns.
  std::string Csv(std::vector<std::string> names,
                  const std::vector<std::vector<std::string>>& rows) {
    const size_t extra = Below(4);
    for (size_t i = 0; i < extra; ++i) names.push_back(absl::StrCat("x", i));
    std::vector<size_t> order(names.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), engine_);
    static constexpr const char* kEnds[] = {"\n", "\r\n", "\r"};
    end_ = kEnds[Below(3)];
    std::string csv = OneIn(2) ? "\xef\xbb\xbf" : "";
    const auto add_record = [&](const std::vector<std::string>& values,
                                bool is_header) {
      for (size_t i = 0; i < order.size(); ++i) {
        const size_t column = order[i];
        std::string value = column < values.size() ? values[column] : Text();
        if (is_header) value = Name(std::move(value));
        csv += i == 0 ? "" : ",";
        csv += Field(std::move(value));
      }
    };
    add_record(names, true);
    for (const auto& row : rows) {
      csv += LineEnd();
      add_record(row, false);
    }
    if (OneIn(2)) csv += LineEnd();
    return csv;
  }

  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
  std::string end_;
};

std::string AzureTime(int64_t time_us) {
  // From 23:59 on the last day of a leap February, for up to 24 h.
  const int64_t since_midnight_us = time_us - 60'000'000;
  const bool before = since_midnight_us < 0;
  const int64_t us =
      before ? since_midnight_us + 86'400'000'000 : since_midnight_us;
  char text[64];
  snprintf(text, sizeof(text), "%s %02d:%02d:%02d.%06d",
           before ? "2024-02-29" : "2024-03-01",
           static_cast<int>(us / 3'600'000'000),
           static_cast<int>(us / 60'000'000 % 60),
           static_cast<int>(us / 1'000'000 % 60),
           static_cast<int>(us % 1'000'000));
  return text;
}

std::string Seconds(int64_t time_us) {
  char text[64];
  snprintf(text, sizeof(text), "%.6f", static_cast<double>(time_us) / 1e6);
  return text;
}

class CsvRoundTripTest : public testing::TestWithParam<int> {};

TEST_P(CsvRoundTripTest, WhatWasWrittenIsRead) {
  RandomWriter writer(static_cast<uint32_t>(GetParam()));
  std::vector<Row> rows(1 + writer.Below(40));
  for (Row& row : rows) {
    row.time_us = static_cast<int64_t>(writer.Below(80'000'000'000));
    if (writer.OneIn(4)) row.time_us = 59'999'999;
    row.prompt = static_cast<int32_t>(1 + writer.Below(1 << 30));
    row.output = static_cast<int32_t>(1 + writer.Below(1 << 30));
  }
  const size_t format = writer.Below(4);
  static const std::vector<std::string> kNames[] = {
      {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
      {"arrived_at", "num_prefill_tokens", "num_decode_tokens"},
      {"Time", "PromptTokenCount", "GeneratedTokenCount"},
      {"Timestamp", "Request tokens", "Response tokens"}};
  std::vector<std::vector<std::string>> fields;
  for (const Row& row : rows) {
    fields.push_back(
        {format == 0 ? AzureTime(row.time_us) : Seconds(row.time_us),
         absl::StrCat(row.prompt), absl::StrCat(row.output)});
  }
  const std::string csv = writer.Csv(kNames[format], fields);
  const auto trace = ParseTrace("t.csv", csv, {});
  ASSERT_THAT(trace, IsOk()) << csv;
  ASSERT_THAT(CheckTrace(*trace), IsOk());

  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.time_us < b.time_us;
  });
  ASSERT_EQ(trace->requests.size(), rows.size()) << csv;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TraceRequest& request = trace->requests[i];
    EXPECT_EQ(request.arrival_us, rows[i].time_us - rows[0].time_us) << csv;
    EXPECT_EQ(request.prompt_tokens, rows[i].prompt) << csv;
    EXPECT_EQ(request.output_tokens, rows[i].output) << csv;
    EXPECT_EQ(SpaceOf(trace->segments_of(request)[0].content_id),
              ContentSpace::kPrompt);
  }
  std::vector<uint64_t> contents;
  for (const ContentSegment& s : trace->segments) {
    contents.push_back(s.content_id);
  }
  std::sort(contents.begin(), contents.end());
  EXPECT_EQ(std::unique(contents.begin(), contents.end()), contents.end());
}

INSTANTIATE_TEST_SUITE_P(Seeds, CsvRoundTripTest, testing::Range(0, 300));

}  // namespace
}  // namespace tidewheel
