// A calendar time as text, to microseconds.
//
// Understands what the Azure traces hold and its near kin:
// "2023-11-16 18:15:46.6805900", "2024-05-10 00:00:00.009930+00:00",
// "2023-11-16T18:15:46Z": a space or 'T', no fraction or any number of digits
// of it (kept to the microsecond, the rest cut off), no zone (read as UTC),
// 'Z', or an offset +HH:MM, +HHMM or +HH. Seconds may be 60: a leap second is
// the first second of the next minute, as in Unix time.

#ifndef TIDEWHEEL_TOOLS_TRACES_DATE_TIME_H_
#define TIDEWHEEL_TOOLS_TRACES_DATE_TIME_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace tidewheel {

// Microseconds since 1970-01-01 00:00 UTC (negative before it), or nothing if
// `text` is no such time. Years 0001 to 9999, Gregorian calendar throughout.
std::optional<int64_t> ParseDateTime(absl::string_view text);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_DATE_TIME_H_
