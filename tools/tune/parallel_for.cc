#include "tools/tune/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "allocator/check.h"

namespace tidewheel {

absl::Status ParallelFor(int64_t count, int32_t threads,
                         const std::function<absl::Status(int64_t)>& body) {
  TIDEWHEEL_CHECK_GT(threads, 0);
  std::vector<absl::Status> statuses(static_cast<size_t>(count));
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    while (!failed) {
      const int64_t i = next++;
      if (i >= count) return;
      absl::Status status = body(i);
      if (!status.ok()) failed = true;
      statuses[static_cast<size_t>(i)] = std::move(status);
    }
  };
  std::vector<std::thread> others;
  const int64_t used = std::min<int64_t>(threads, count);
  for (int64_t t = 1; t < used; ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  for (absl::Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
