#include "tools/traces/number_field.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(NumberFieldTest, CountsReachTheLargestInt32) {
  EXPECT_EQ(*ParseTokenCount("0", "n"), 0);
  EXPECT_EQ(*ParseTokenCount("-0", "n"), 0);
  EXPECT_EQ(*ParseTokenCount("007", "n"), 7);
  EXPECT_EQ(*ParseTokenCount("2147483647", "n"), 2147483647);
}

TEST(NumberFieldTest, CountsPastInt32NameValueAndLimit) {
  for (const char* text : {"2147483648", "9223372036854775807",
                           "9223372036854775808", "99999999999999999999999"}) {
    EXPECT_THAT(
        ParseTokenCount(text, "ContextTokens"),
        StatusIs(kInvalid, AllOf(HasSubstr("ContextTokens "), HasSubstr(text),
                                 HasSubstr("exceeds 2147483647"))));
  }
}

TEST(NumberFieldTest, NegativeCountsAreErrors) {
  for (const char* text : {"-1", "-2147483649", "-99999999999999999999999"}) {
    EXPECT_THAT(
        ParseTokenCount(text, "n"),
        StatusIs(kInvalid, AllOf(HasSubstr(text), HasSubstr("is negative"))));
  }
}

TEST(NumberFieldTest, CountsWithAnythingButDigitsAreErrors) {
  for (const char* text :
       {"", "2748 610", "12.5", "1e3", "+5", "0x10", "nan", "inf", "-", "12,",
        "1'000", "\xd9\xa3", " 5", "5 "}) {
    EXPECT_THAT(ParseTokenCount(text, "n"),
                StatusIs(kInvalid, HasSubstr("is not a whole number")))
        << text;
  }
}

TEST(NumberFieldTest, SecondsAreReadToTheNearestMicrosecond) {
  EXPECT_EQ(*ParseSecondsToUs("0", "t"), 0);
  EXPECT_EQ(*ParseSecondsToUs("-0.0", "t"), 0);
  EXPECT_EQ(*ParseSecondsToUs("45", "t"), 45'000'000);
  EXPECT_EQ(*ParseSecondsToUs("4.314579", "t"), 4'314'579);
  EXPECT_EQ(*ParseSecondsToUs("1e-06", "t"), 1);
  EXPECT_EQ(*ParseSecondsToUs("1.5E3", "t"), 1'500'000'000);
  EXPECT_EQ(*ParseSecondsToUs(".25", "t"), 250'000);
  EXPECT_EQ(*ParseSecondsToUs("1700158546.680591", "t"), 1'700'158'546'680'591);
}

TEST(NumberFieldTest, SecondsThatAreNoFiniteNumberAreErrors) {
  for (const char* text : {"", "nan", "inf", "-inf", "infinity", "NaN", "1e999",
                           "12 13", "12s", "+1", "0x1p3", "--1"}) {
    EXPECT_THAT(ParseSecondsToUs(text, "t"),
                StatusIs(kInvalid, HasSubstr("is not a number of seconds")))
        << text;
  }
}

TEST(NumberFieldTest, TimesOutOfRangeAreErrors) {
  EXPECT_THAT(ParseSecondsToUs("-5", "Time"),
              StatusIs(kInvalid, HasSubstr("Time -5 is negative")));
  EXPECT_THAT(ParseSecondsToUs("-1e-9", "Time"),
              StatusIs(kInvalid, HasSubstr("is negative")));
  // Milliseconds since 1970 in a column of seconds.
  EXPECT_THAT(ParseSecondsToUs("1700158546680", "Time"),
              StatusIs(kInvalid, HasSubstr("past the year 9999")));
  EXPECT_THAT(CheckTime(std::nan(""), 1e6, "Time"),
              StatusIs(kInvalid, HasSubstr("Time is NaN")));
  EXPECT_THAT(CheckTime(std::numeric_limits<double>::infinity(), 1e6, "Time"),
              StatusIs(kInvalid, HasSubstr("past the year 9999")));
  EXPECT_LE(*CheckTime(253402300799.99999999, 1e6, "Time"), kMaxTraceTimeUs);
}

}  // namespace
}  // namespace tidewheel
