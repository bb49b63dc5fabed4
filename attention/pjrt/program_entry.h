// A file that holds a compiled program: how it is written, and what is checked
// when it is read.
//
//   bytes 0-7    "TWPJRT\r\n"    spoiled by text-mode copies
//   8-11         version, 1      all numbers little-endian
//   12-15        0
//   16-31        key, XXH3-128
//   32-39        bytes of the payload
//   40-55        XXH3-128 of the payload
//   56-          payload
//
// Thread-safety: pure functions but for the files.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PROGRAM_ENTRY_H_
#define TIDEWHEEL_ATTENTION_PJRT_PROGRAM_ENTRY_H_

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

// 16 bytes of XXH3-128 over the parts and their lengths.
std::string HashOfParts(std::span<const absl::string_view> parts);

// The payload of the entry at `path`.
//
// Errors: NotFound if there is none; DataLoss, with the reason, if it is not
// a whole entry with this key.
absl::StatusOr<std::string> ReadProgramEntry(const std::string& path,
                                             absl::string_view key);

// Writes the entry under another name in the same folder, then renames it.
//
// Errors: Unavailable with the system's reason; then no file is left behind.
absl::Status WriteProgramEntry(const std::string& path, absl::string_view key,
                               absl::string_view payload);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PROGRAM_ENTRY_H_
