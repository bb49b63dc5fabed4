// LaunchMemory: what launches need of the device's memory besides the pools,
// from the statistics that compilers keep; nothing is computed from sizes.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_PJRT_LAUNCH_MEMORY_H_
#define TIDEWHEEL_ATTENTION_PJRT_LAUNCH_MEMORY_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/pjrt_executable.h"

namespace tidewheel {

// Over programs; launches run one at a time on a device, so the largest
// counts.
struct LaunchMemory {
  int64_t num_programs = 0;
  int64_t largest_temp_bytes = 0;
  // Of the programs that take a pool: what they reuse of it, at least. A
  // program that copies it would have less than the pool's bytes here.
  int64_t least_pool_alias_bytes = 0;  // 0: no such program
  int64_t code_bytes = 0;              // all together

  // Adds a program, whose statistics a plugin may not keep.
  absl::Status Add(const PjrtExecutable& executable, bool takes_pool) {
    const absl::StatusOr<PjrtCompiledMemoryStats> stats =
        executable.MemoryStats();
    if (!stats.ok()) return stats.status();
    largest_temp_bytes = std::max(largest_temp_bytes, stats->temp_bytes);
    code_bytes += stats->generated_code_bytes;
    if (takes_pool) {
      least_pool_alias_bytes =
          least_pool_alias_bytes == 0
              ? stats->alias_bytes
              : std::min(least_pool_alias_bytes, stats->alias_bytes);
    }
    ++num_programs;
    return absl::OkStatus();
  }
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_LAUNCH_MEMORY_H_
