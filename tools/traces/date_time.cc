#include "tools/traces/date_time.h"

namespace tidewheel {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes `count` digits off the front of `text`.
bool TakeDigits(absl::string_view& text, size_t count, int64_t& value) {
  if (text.size() < count) return false;
  value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!IsDigit(text[i])) return false;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return true;
}

bool TakeChar(absl::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

int64_t DaysInMonth(int64_t year, int64_t month) {
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (month == 2) return leap ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// Days from 1970-01-01. Counts years from March, so that the leap day comes
// last and the days before a month are a linear function, (153 m + 2) / 5.
int64_t DaysFromEpoch(int64_t year, int64_t month, int64_t day) {
  const int64_t march_year = month > 2 ? year : year - 1;
  const int64_t march_month = (month + 9) % 12;
  const int64_t leap_days =
      march_year / 4 - march_year / 100 + march_year / 400;
  return march_year * 365 + leap_days + (153 * march_month + 2) / 5 + day - 1 -
         719'468;  // 1970-01-01 in this count
}

bool TakeDate(absl::string_view& text, int64_t& days) {
  int64_t year = 0;
  int64_t month = 0;
  int64_t day = 0;
  if (!TakeDigits(text, 4, year) || !TakeChar(text, '-') ||
      !TakeDigits(text, 2, month) || !TakeChar(text, '-') ||
      !TakeDigits(text, 2, day)) {
    return false;
  }
  if (year < 1 || month < 1 || month > 12 || day < 1 ||
      day > DaysInMonth(year, month)) {
    return false;
  }
  days = DaysFromEpoch(year, month, day);
  return true;
}

bool TakeClock(absl::string_view& text, int64_t& seconds) {
  int64_t hour = 0;
  int64_t minute = 0;
  int64_t second = 0;
  if (!TakeDigits(text, 2, hour) || !TakeChar(text, ':') ||
      !TakeDigits(text, 2, minute) || !TakeChar(text, ':') ||
      !TakeDigits(text, 2, second)) {
    return false;
  }
  seconds = hour * 3600 + minute * 60 + second;
  return hour <= 23 && minute <= 59 && second <= 60;
}

bool TakeFraction(absl::string_view& text, int64_t& fraction_us) {
  fraction_us = 0;
  if (!TakeChar(text, '.')) return true;
  int64_t unit_us = 100'000;
  size_t digits = 0;
  while (digits < text.size() && IsDigit(text[digits])) {
    fraction_us += unit_us * (text[digits] - '0');
    unit_us /= 10;
    ++digits;
  }
  text.remove_prefix(digits);
  return digits > 0;
}

bool TakeZone(absl::string_view& text, int64_t& offset_seconds) {
  offset_seconds = 0;
  if (text.empty() || TakeChar(text, 'Z') || TakeChar(text, 'z')) return true;
  const bool minus = text.front() == '-';
  if (!minus && text.front() != '+') return false;
  text.remove_prefix(1);
  int64_t hours = 0;
  int64_t minutes = 0;
  if (!TakeDigits(text, 2, hours)) return false;
  if (!text.empty()) {
    TakeChar(text, ':');
    if (!TakeDigits(text, 2, minutes)) return false;
  }
  offset_seconds = (minus ? -1 : 1) * (hours * 3600 + minutes * 60);
  return hours <= 23 && minutes <= 59;
}

}  // namespace

std::optional<int64_t> ParseDateTime(absl::string_view text) {
  int64_t days = 0;
  int64_t seconds = 0;
  int64_t fraction_us = 0;
  int64_t offset_seconds = 0;
  if (!TakeDate(text, days)) return std::nullopt;
  if (!TakeChar(text, ' ') && !TakeChar(text, 'T') && !TakeChar(text, 't')) {
    return std::nullopt;
  }
  if (!TakeClock(text, seconds) || !TakeFraction(text, fraction_us) ||
      !TakeZone(text, offset_seconds) || !text.empty()) {
    return std::nullopt;
  }
  return (days * 86'400 + seconds - offset_seconds) * 1'000'000 + fraction_us;
}

}  // namespace tidewheel
