// Amounts of memory as people write them: "80GB", "31.25GiB", "512 MiB".
//
// 80GB and 80GiB are 7 % apart, and both are called 80 gigabytes, so a number
// without a unit is refused rather than guessed.

#ifndef TIDEWHEEL_TOOLS_BYTE_SIZE_H_
#define TIDEWHEEL_TOOLS_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

// The bytes of a number with a unit: B, kB, MB, GB, TB (powers of 1000) or
// KiB, MiB, GiB, TiB (powers of 1024); case does not matter, since no bits are
// meant. Fractions of a byte are cut off.
//
// Errors: InvalidArgument for anything else, and past 2^62 bytes.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// For people: "30.96 GB", with the power of 1000 that fits.
std::string FormatByteSize(int64_t bytes);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_BYTE_SIZE_H_
