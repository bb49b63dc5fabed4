#include "tools/traces/number_field.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "tools/traces/trace_error.h"

namespace tidewheel {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

absl::Status NegativeTokens(absl::string_view column, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat(
      column, " ", value, " is negative; correct or remove the row"));
}

absl::Status TooManyTokens(absl::string_view column, absl::string_view value) {
  return absl::InvalidArgumentError(
      absl::StrCat(column, " ", value, " exceeds ", kMaxTokens,
                   ", the longest length; correct or remove the row"));
}

}  // namespace

absl::StatusOr<int32_t> CheckTokenCount(int64_t count,
                                        absl::string_view column) {
  if (count < 0) return NegativeTokens(column, absl::StrCat(count));
  if (count > kMaxTokens) return TooManyTokens(column, absl::StrCat(count));
  return static_cast<int32_t>(count);
}

absl::StatusOr<int32_t> ParseTokenCount(absl::string_view text,
                                        absl::string_view column) {
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (text.empty() || error == std::errc::invalid_argument || stop != end) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " ", Excerpt(text),
                     " is not a whole number; correct or remove the row"));
  }
  if (error == std::errc::result_out_of_range) {
    return text[0] == '-' ? NegativeTokens(column, Excerpt(text))
                          : TooManyTokens(column, Excerpt(text));
  }
  return CheckTokenCount(count, column);
}

absl::StatusOr<int64_t> CheckTime(double value, double unit_us,
                                  absl::string_view column) {
  if (std::isnan(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " is NaN; correct or remove the row"));
  }
  if (value < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " ", value,
                     " is negative, and times count up from the start of a "
                     "trace; shift all times or remove the row"));
  }
  const double time_us = value * unit_us;
  if (time_us > static_cast<double>(kMaxTraceTimeUs)) {
    return absl::InvalidArgumentError(absl::StrCat(
        column, " ", value, " in units of ", unit_us / 1e6,
        " s lies past the year 9999; bring it to that unit, or remove the "
        "row"));
  }
  // The double nearest to the limit may be above it.
  return std::min<int64_t>(std::llround(time_us), kMaxTraceTimeUs);
}

absl::StatusOr<int64_t> ParseSecondsToUs(absl::string_view text,
                                         absl::string_view column) {
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds);
  if (text.empty() || error != std::errc() || stop != end ||
      !std::isfinite(seconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat(column, " ", Excerpt(text),
                     " is not a number of seconds; correct or remove the row"));
  }
  return CheckTime(seconds, 1e6, column);
}

}  // namespace tidewheel
