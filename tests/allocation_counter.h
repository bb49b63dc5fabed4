// AllocationCounter: how many times this thread has asked for memory.
//
// A test binary that lists allocation_counter.cc among its sources has every
// form of operator new replaced with one that counts. It does not see malloc
// called by C code, and counts the calling thread only. The thread sanitizer
// brings operators of its own that can not be replaced; nothing is counted
// there, and kCountsAllocations says so.
//
// Lifecycle:
//   1. Warm up: let the code under test take what Create may take.
//   2. Put the calls in a block that begins with an ExpectNoAllocation; the
//      end of the block fails the test if anything was allocated.
//
//     {
//       ExpectNoAllocation scope("TryExtend");
//       allocator->TryExtend(row, 17);
//     }
//
// Thread-safety: counters are per thread. Counting allocates nothing.

#ifndef TIDEWHEEL_TESTS_ALLOCATION_COUNTER_H_
#define TIDEWHEEL_TESTS_ALLOCATION_COUNTER_H_

#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define TIDEWHEEL_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIDEWHEEL_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef TIDEWHEEL_COUNTS_ALLOCATIONS
#define TIDEWHEEL_COUNTS_ALLOCATIONS 1
#endif

namespace tidewheel {

inline constexpr bool kCountsAllocations = TIDEWHEEL_COUNTS_ALLOCATIONS != 0;

// Calls of operator new by this thread so far.
int64_t NumAllocations();

class ExpectNoAllocation {
 public:
  // `what` names the calls in the failure's text; it outlives the scope.
  explicit ExpectNoAllocation(const char* what)
      : what_(what), before_(NumAllocations()) {}
  ~ExpectNoAllocation();

  ExpectNoAllocation(const ExpectNoAllocation&) = delete;
  ExpectNoAllocation& operator=(const ExpectNoAllocation&) = delete;

 private:
  const char* what_;
  int64_t before_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ALLOCATION_COUNTER_H_
