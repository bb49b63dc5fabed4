#include "tools/traces/date_time.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tidewheel {
namespace {

using ::testing::Optional;

TEST(DateTimeTest, KnownInstantsAreTheirUnixTimes) {
  // From `date -u -d ... +%s`.
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:00"), Optional(0));
  EXPECT_THAT(ParseDateTime("2023-11-16 18:15:46"),
              Optional(1'700'158'546'000'000));
  EXPECT_THAT(ParseDateTime("2024-05-10 00:00:00.009930+00:00"),
              Optional(1'715'299'200'009'930));
  EXPECT_THAT(ParseDateTime("1969-12-31 23:59:59.5"), Optional(-500'000));
  EXPECT_THAT(ParseDateTime("9999-12-31 23:59:59.999999"),
              Optional(253'402'300'799'999'999));
}

TEST(DateTimeTest, AnyNumberOfFractionalDigitsIsKeptToTheMicrosecond) {
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01"), Optional(1'000'000));
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01.2"), Optional(1'200'000));
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01.009"), Optional(1'009'000));
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01.000001"), Optional(1'000'001));
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01.6805909"),
              Optional(1'680'590));
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01.999999999"),
              Optional(1'999'999));
  EXPECT_THAT(ParseDateTime("1970-01-01 00:00:01.0000019999999999999999999"),
              Optional(1'000'001));
}

TEST(DateTimeTest, ZonesMoveTheInstant) {
  const auto utc = ParseDateTime("2024-05-10 12:00:00");
  ASSERT_TRUE(utc.has_value());
  for (const char* same :
       {"2024-05-10T12:00:00", "2024-05-10T12:00:00Z", "2024-05-10t12:00:00z",
        "2024-05-10 12:00:00+00:00", "2024-05-10 12:00:00-0000",
        "2024-05-10 14:00:00+02:00", "2024-05-10 14:00:00+02",
        "2024-05-10 06:30:00.0-0530", "2024-05-11 01:00:00+13:00"}) {
    EXPECT_EQ(ParseDateTime(same), utc) << same;
  }
}

TEST(DateTimeTest, SecondsFollowAcrossMidnightMonthsAndLeapDays) {
  struct Pair {
    const char* before;
    const char* after;
  };
  for (const Pair& pair :
       {Pair{"2023-11-16 18:15:59", "2023-11-16 18:16:00"},
        Pair{"2023-11-16 23:59:59", "2023-11-17 00:00:00"},
        Pair{"2023-11-30 23:59:59", "2023-12-01 00:00:00"},
        Pair{"2023-12-31 23:59:59", "2024-01-01 00:00:00"},
        Pair{"2024-02-28 23:59:59", "2024-02-29 00:00:00"},
        Pair{"2024-02-29 23:59:59", "2024-03-01 00:00:00"},
        Pair{"2023-02-28 23:59:59", "2023-03-01 00:00:00"},
        Pair{"2000-02-29 23:59:59", "2000-03-01 00:00:00"},
        Pair{"1900-02-28 23:59:59", "1900-03-01 00:00:00"},
        Pair{"2016-12-31 23:59:59", "2016-12-31 23:59:60"}}) {
    const auto before = ParseDateTime(pair.before);
    const auto after = ParseDateTime(pair.after);
    ASSERT_TRUE(before.has_value() && after.has_value()) << pair.before;
    EXPECT_EQ(*after - *before, 1'000'000) << pair.before;
  }
}

// Every day of eight centuries, against a count by ones.
TEST(DateTimeTest, EveryDayFollowsTheOneBefore) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  constexpr int64_t kDayUs = 86'400'000'000;
  int64_t expected_us = ParseDateTime("1600-01-01 00:00:00").value_or(0);
  EXPECT_EQ(expected_us, -135'140 * kDayUs);
  for (int year = 1600; year < 2400; ++year) {
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    for (int month = 1; month <= 12; ++month) {
      const int days = kDays[month - 1] + (month == 2 && leap ? 1 : 0);
      for (int day = 1; day <= days; ++day, expected_us += kDayUs) {
        char text[32];
        snprintf(text, sizeof(text), "%04d-%02d-%02d 00:00:00", year, month,
                 day);
        ASSERT_THAT(ParseDateTime(text), Optional(expected_us)) << text;
      }
    }
  }
}

TEST(DateTimeTest, WhatIsNoSuchTimeIsNothing) {
  for (const char* text : {"",
                           "2023",
                           "2023-11-16",
                           "2023-11-16 ",
                           "2023-11-16 18:15",
                           "2023-11-16 18:15:46.",
                           "2023-11-16 18:15:46.1x",
                           "2023-11-16  18:15:46",
                           "2023-11-16_18:15:46",
                           "2023-13-16 18:15:46",
                           "2023-00-16 18:15:46",
                           "2023-11-31 18:15:46",
                           "2023-02-29 18:15:46",
                           "1900-02-29 18:15:46",
                           "2023-11-00 18:15:46",
                           "2023-11-16 24:00:00",
                           "2023-11-16 18:60:46",
                           "2023-11-16 18:15:61",
                           "0000-01-01 00:00:00",
                           "23-11-16 18:15:46",
                           "2023-11-16 18:15:46+",
                           "2023-11-16 18:15:46+1",
                           "2023-11-16 18:15:46+24:00",
                           "2023-11-16 18:15:46+01:60",
                           "2023-11-16 18:15:46+01:",
                           "2023-11-16 18:15:46Zjunk",
                           "2023-11-16 18:15:46 UTC",
                           "-023-11-16 18:15:46",
                           "16/11/2023 18:15:46",
                           "1700158546"}) {
    EXPECT_EQ(ParseDateTime(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tidewheel
