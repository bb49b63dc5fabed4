// HugePageAllocator: memory for arrays that are read at random.
//
// An allocator for std::vector. What it gives begins at a cache line, so that a
// page's tokens lie in as few lines as they can, and large arrays begin at a
// huge page and ask the kernel for them: with a million KV pages, a lookup
// otherwise spends more time on address translation than on reading. Where the
// kernel gives none, nothing is lost.
//
// It never returns memory to anything but operator delete, and allocates only
// when the vector does.
//
// Thread-safety: it has no state.

#ifndef TIDEWHEEL_ALLOCATOR_HUGE_PAGE_ALLOCATOR_H_
#define TIDEWHEEL_ALLOCATOR_HUGE_PAGE_ALLOCATOR_H_

#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <new>

namespace tidewheel {

template <typename T>
class HugePageAllocator {
 public:
  using value_type = T;

  HugePageAllocator() = default;
  // Implicit, as the standard asks of allocators.
  template <typename U>
  // NOLINTNEXTLINE(google-explicit-constructor)
  HugePageAllocator(const HugePageAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    const size_t bytes = count * sizeof(T);
    void* const memory = ::operator new(bytes, Alignment(bytes));
#ifdef MADV_HUGEPAGE
    if (bytes >= kHugePageBytes) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    ::operator delete(memory, Alignment(count * sizeof(T)));
  }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) {
    return true;
  }

 private:
  static constexpr size_t kCacheLineBytes = 64;
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  static std::align_val_t Alignment(size_t bytes) {
    return std::align_val_t(bytes >= kHugePageBytes ? kHugePageBytes
                                                    : kCacheLineBytes);
  }
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_HUGE_PAGE_ALLOCATOR_H_
