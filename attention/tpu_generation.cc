#include "attention/tpu_generation.h"

#include <array>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "allocator/check.h"
#include "allocator/page_table.h"

namespace tidewheel {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

constexpr std::array<TpuGeneration, 5> kAll = {
    TpuGeneration::kV4, TpuGeneration::kV5e, TpuGeneration::kV5p,
    TpuGeneration::kV6e, TpuGeneration::kV7x};

// Spellings after lower case, without spaces, a leading "tpu" and what
// follows a '-'. "v5" and "v4" are device kinds of JAX: v5p is "TPU v5".
constexpr std::array<std::pair<absl::string_view, TpuGeneration>, 14>
    kSpellings = {{{"v4", TpuGeneration::kV4},
                   {"v5e", TpuGeneration::kV5e},
                   {"v5lite", TpuGeneration::kV5e},
                   {"v5litepod", TpuGeneration::kV5e},
                   {"v5", TpuGeneration::kV5p},
                   {"v5p", TpuGeneration::kV5p},
                   {"v6e", TpuGeneration::kV6e},
                   {"v6lite", TpuGeneration::kV6e},
                   {"v6", TpuGeneration::kV6e},
                   {"v7x", TpuGeneration::kV7x},
                   {"7x", TpuGeneration::kV7x},
                   {"v7", TpuGeneration::kV7x},
                   {"7", TpuGeneration::kV7x},
                   {"ironwood", TpuGeneration::kV7x}}};

}  // namespace

std::span<const TpuGeneration> AllTpuGenerations() { return kAll; }

absl::string_view TpuGenerationName(TpuGeneration generation) {
  switch (generation) {
    case TpuGeneration::kV4:
      return "v4";
    case TpuGeneration::kV5e:
      return "v5e";
    case TpuGeneration::kV5p:
      return "v5p";
    case TpuGeneration::kV6e:
      return "v6e";
    case TpuGeneration::kV7x:
      return "v7x";
  }
  TIDEWHEEL_CHECK(false);
}

absl::StatusOr<TpuGeneration> ParseTpuGeneration(absl::string_view name) {
  const std::string text =
      absl::StrReplaceAll(absl::AsciiStrToLower(name), {{" ", ""}});
  absl::string_view key = text;
  key = key.substr(0, key.find('-'));
  absl::ConsumePrefix(&key, "tpu");
  for (const auto& [spelling, generation] : kSpellings) {
    if (key == spelling) return generation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("TPU generation \"", name,
                   "\" is not known; use v4, v5e, v5p, v6e or v7x"));
}

int64_t VmemBytes(TpuGeneration generation) {
  // Sizes from JAX's TPU info table. The compiler's own messages say
  // "of 16.00M" on v4 and "of 128.00M" on v5e, but "of 127.94M" on v6e, which
  // keeps 64 KiB back. No program has filled v5p or v7x yet: v7x is taken to
  // behave as v6e does, the nearer of the two.
  constexpr int64_t kReserved = 64 * 1024;
  switch (generation) {
    case TpuGeneration::kV4:
      return 16 * kMiB;
    case TpuGeneration::kV5e:
      return 128 * kMiB;
    case TpuGeneration::kV5p:
      return 64 * kMiB;
    case TpuGeneration::kV6e:
      return 128 * kMiB - kReserved;
    case TpuGeneration::kV7x:
      return 64 * kMiB - kReserved;
  }
  TIDEWHEEL_CHECK(false);
}

int64_t DefaultVmemLimitBytes(TpuGeneration generation) {
  // From "limit 16.00M" and "limit 32.00M" of refused compiles without a
  // limit, on both compiler versions. v4 has 16 MiB in all, and says so.
  return HasWideMatrixUnit(generation) ? 32 * kMiB : 16 * kMiB;
}

int64_t InternalScratchBytes(TpuGeneration generation) {
  // The compiler's allocation "internal scratch", u32[72,128] on v4, v5e and
  // v5p, u32[144,128] on v6e and v7x, in every kernel that was dumped.
  constexpr int64_t kRowBytes = 128 * 4;
  return (HasWideMatrixUnit(generation) ? 144 : 72) * kRowBytes;
}

int64_t SmemBytes(TpuGeneration) { return kTpuSmemBytes; }

bool HasWideMatrixUnit(TpuGeneration generation) {
  return generation == TpuGeneration::kV6e || generation == TpuGeneration::kV7x;
}

}  // namespace tidewheel
