// Operations on an AllocatorWorld, as structs that print as the code that
// repeats them.
//
// A test or a fuzzer draws operations from bytes, performs them, and prints the
// list when a check fails; the printed lines can be pasted into a test as they
// are. Numbers need not be legal: the world reduces them.

#ifndef TIDEWHEEL_TESTS_ALLOCATOR_ALLOCATOR_OPERATIONS_H_
#define TIDEWHEEL_TESTS_ALLOCATOR_ALLOCATOR_OPERATIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "tests/allocator/allocator_world.h"

namespace tidewheel {

struct Submit {
  int32_t tenant, pattern, length;
  void Perform(AllocatorWorld& world) const;
};
struct Admit {
  int32_t which, chunk, promised_tokens, headroom_pages;
  void Perform(AllocatorWorld& world) const;
};
struct Cancel {
  int32_t which;
  void Perform(AllocatorWorld& world) const;
};
struct Extend {
  int32_t row, more, pattern;
  void Perform(AllocatorWorld& world) const;
};
struct Write {
  void Perform(AllocatorWorld& world) const;
};
struct Publish {
  int32_t row;
  void Perform(AllocatorWorld& world) const;
};
struct Truncate {
  int32_t row, new_len;
  void Perform(AllocatorWorld& world) const;
};
struct GiveBack {
  int32_t row, unwritten;
  void Perform(AllocatorWorld& world) const;
};
struct Fork {
  int32_t row, num_tokens, promised_tokens;
  void Perform(AllocatorWorld& world) const;
};
struct Release {
  int32_t row;
  void Perform(AllocatorWorld& world) const;
};
struct SwapRows {
  int32_t a, b;
  void Perform(AllocatorWorld& world) const;
};
struct Pin {
  int32_t tenant, pattern, length;
  void Perform(AllocatorWorld& world) const;
};
struct Unpin {
  int32_t handle;
  void Perform(AllocatorWorld& world) const;
};
struct Reset {
  int32_t forced;  // 0: refuse while in use
  void Perform(AllocatorWorld& world) const;
};
struct CompleteCopies {
  void Perform(AllocatorWorld& world) const;
};
struct ClearChanges {
  void Perform(AllocatorWorld& world) const;
};

using Operation = std::variant<Submit, Admit, Cancel, Extend, Write, Publish,
                               Truncate, GiveBack, Fork, Release, SwapRows, Pin,
                               Unpin, Reset, CompleteCopies, ClearChanges>;

// A C++ statement that performs the operation on `world`.
std::string ToString(const Operation& operation);
std::string ToString(const std::vector<Operation>& operations);

void Perform(const Operation& operation, AllocatorWorld& world);

// The first difference that these operations lead to in a new world, if any.
absl::Status Replay(const PageAllocator::Options& options,
                    const std::vector<Operation>& operations);

// The shortest list that a simple search finds that still leads to some
// difference, so that a failure can be read.
// REQUIRES: `operations` lead to one.
std::vector<Operation> Shrink(const PageAllocator::Options& options,
                              std::vector<Operation> operations);

// An operation made of the bytes that `next` gives, frequent ones first.
Operation DrawOperation(const std::function<uint8_t()>& next);

// Options of a small world made of such bytes.
PageAllocator::Options DrawOptions(const std::function<uint8_t()>& next);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_ALLOCATOR_ALLOCATOR_OPERATIONS_H_
