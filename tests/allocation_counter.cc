#include "tests/allocation_counter.h"

#include <cstdlib>
#include <new>

#include "gtest/gtest.h"

namespace tidewheel {
namespace {

thread_local int64_t num_allocations = 0;

#if TIDEWHEEL_COUNTS_ALLOCATIONS
void* Allocate(std::size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void* AllocateAligned(std::size_t bytes, std::size_t alignment) {
  ++num_allocations;
  // aligned_alloc takes whole multiples of the alignment only.
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}
#endif

}  // namespace

int64_t NumAllocations() { return num_allocations; }

ExpectNoAllocation::~ExpectNoAllocation() {
  const int64_t allocations = NumAllocations() - before_;
  EXPECT_EQ(allocations, 0) << what_ << " allocated memory";
}

}  // namespace tidewheel

#if TIDEWHEEL_COUNTS_ALLOCATIONS
// The throwing forms are enough: the library's nothrow and array forms call
// them.
void* operator new(std::size_t bytes) { return tidewheel::Allocate(bytes); }
void* operator new[](std::size_t bytes) { return tidewheel::Allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return tidewheel::AllocateAligned(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return tidewheel::AllocateAligned(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
#endif
