// TIDEWHEEL_CHECK ends the process when the programmer, not the input, is at
// fault.
//
// It is on in release builds: a broken invariant in a page table corrupts
// somebody's answer silently, and a crash is the kinder outcome. What a
// caller, a file or a device can cause is an absl::Status instead and never
// comes here.

#ifndef TIDEWHEEL_ALLOCATOR_CHECK_H_
#define TIDEWHEEL_ALLOCATOR_CHECK_H_

namespace tidewheel::internal {

// Prints `condition` with its place to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line,
                              const char* condition);

// The same with the two values that were compared.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              long long left, long long right);

}  // namespace tidewheel::internal

#define TIDEWHEEL_CHECK(condition)                                        \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      ::tidewheel::internal::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                                     \
  } while (false)

#define TIDEWHEEL_CHECK_OP(left, op, right)                             \
  do {                                                                  \
    if (!((left)op(right))) [[unlikely]] {                              \
      ::tidewheel::internal::CheckFailed(                               \
          __FILE__, __LINE__, #left " " #op " " #right,                 \
          static_cast<long long>(left), static_cast<long long>(right)); \
    }                                                                   \
  } while (false)

#define TIDEWHEEL_CHECK_EQ(left, right) TIDEWHEEL_CHECK_OP(left, ==, right)
#define TIDEWHEEL_CHECK_NE(left, right) TIDEWHEEL_CHECK_OP(left, !=, right)
#define TIDEWHEEL_CHECK_LT(left, right) TIDEWHEEL_CHECK_OP(left, <, right)
#define TIDEWHEEL_CHECK_LE(left, right) TIDEWHEEL_CHECK_OP(left, <=, right)
#define TIDEWHEEL_CHECK_GT(left, right) TIDEWHEEL_CHECK_OP(left, >, right)
#define TIDEWHEEL_CHECK_GE(left, right) TIDEWHEEL_CHECK_OP(left, >=, right)

#endif  // TIDEWHEEL_ALLOCATOR_CHECK_H_
