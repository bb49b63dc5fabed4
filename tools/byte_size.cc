#include "tools/byte_size.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tidewheel {
namespace {

struct Unit {
  absl::string_view name;
  int64_t bytes;
};

constexpr Unit kUnits[] = {{"B", 1},
                           {"kB", 1000},
                           {"MB", 1000 * 1000},
                           {"GB", 1000 * 1000 * 1000},
                           {"TB", int64_t{1000} * 1000 * 1000 * 1000},
                           {"KiB", 1 << 10},
                           {"MiB", 1 << 20},
                           {"GiB", 1 << 30},
                           {"TiB", int64_t{1} << 40}};

absl::Status Refuse(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" ", what,
                   "; give a number with a unit, such as 32GiB (2^30 bytes "
                   "each) or 34.4GB (10^9 bytes each)"));
}

// Digits with at most one point: what a person writes for a size. SimpleAtod
// alone would take "nan", "1e9" and "0x10" too.
bool IsPlainNumber(absl::string_view text) {
  int points = 0;
  int digits = 0;
  for (const char c : text) {
    if (c == '.') {
      ++points;
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      ++digits;
    } else {
      return false;
    }
  }
  return digits > 0 && points <= 1;
}

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t end = trimmed.find_first_not_of("0123456789.");
  const absl::string_view number = trimmed.substr(0, end);
  if (!IsPlainNumber(number)) return Refuse(text, "is not an amount of memory");
  if (end == absl::string_view::npos) return Refuse(text, "has no unit");
  const absl::string_view name =
      absl::StripLeadingAsciiWhitespace(trimmed.substr(end));
  for (const Unit& unit : kUnits) {
    if (!absl::EqualsIgnoreCase(name, unit.name)) continue;
    int64_t whole = 0;
    // Whole numbers are exact; a double holds only 53 bits.
    if (absl::SimpleAtoi(number, &whole)) {
      int64_t bytes = 0;
      if (!__builtin_mul_overflow(whole, unit.bytes, &bytes) &&
          bytes <= int64_t{1} << 62) {
        return bytes;
      }
      return Refuse(text, "exceeds 2^62 bytes");
    }
    double value = 0;
    if (!absl::SimpleAtod(number, &value)) break;
    const double bytes = value * static_cast<double>(unit.bytes);
    if (!(bytes <= std::ldexp(1.0, 62))) {
      return Refuse(text, "exceeds 2^62 bytes");
    }
    return static_cast<int64_t>(bytes);
  }
  return Refuse(text, absl::StrCat("has the unknown unit \"", name, "\""));
}

std::string FormatByteSize(int64_t bytes) {
  const Unit* best = &kUnits[0];
  for (const Unit& unit : kUnits) {
    const bool decimal = unit.name.size() <= 2;
    if (decimal && std::abs(bytes) >= unit.bytes) best = &unit;
  }
  if (best == &kUnits[0]) return absl::StrCat(bytes, " B");
  return absl::StrFormat(
      "%.2f %s", static_cast<double>(bytes) / static_cast<double>(best->bytes),
      best->name);
}

}  // namespace tidewheel
