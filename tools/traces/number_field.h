// Numbers of a trace file as text: token counts, and times in seconds.
//
// Strict on purpose: a published trace once held "2748 610" in one field, and
// reading its first half would have made a wrong request out of it. No sign
// but '-', no junk after the digits, no NaN or infinity. Texts name the column
// and the value; the caller puts file and line in front.

#ifndef TIDEWHEEL_TOOLS_TRACES_NUMBER_FIELD_H_
#define TIDEWHEEL_TOOLS_TRACES_NUMBER_FIELD_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

// The last microsecond of the year 9999 (UTC) as Unix time. A time beyond it
// has another unit than the format says.
inline constexpr int64_t kMaxTraceTimeUs = 253'402'300'799'999'999;

// A count of tokens in [0, 2^31 - 1].
// Errors: InvalidArgument.
absl::StatusOr<int32_t> ParseTokenCount(absl::string_view text,
                                        absl::string_view column);

// Seconds as a decimal number, to the nearest microsecond, in
// [0, kMaxTraceTimeUs].
// Errors: InvalidArgument.
absl::StatusOr<int64_t> ParseSecondsToUs(absl::string_view text,
                                         absl::string_view column);

// A count that is a number already. For counts from JSON.
// Errors: InvalidArgument.
absl::StatusOr<int32_t> CheckTokenCount(int64_t count,
                                        absl::string_view column);

// `value` units of `unit_us` microseconds, to the nearest microsecond. For
// times that are numbers already.
// Errors: InvalidArgument for NaN, a negative time, or one past
// kMaxTraceTimeUs.
absl::StatusOr<int64_t> CheckTime(double value, double unit_us,
                                  absl::string_view column);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_NUMBER_FIELD_H_
