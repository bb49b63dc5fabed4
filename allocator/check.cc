#include "allocator/check.h"

#include <cstdio>
#include <cstdlib>

namespace tidewheel::internal {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}

void CheckFailed(const char* file, int line, const char* condition,
                 long long left, long long right) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s (%lld vs. %lld)\n", file, line,
               condition, left, right);
  std::abort();
}

}  // namespace tidewheel::internal
