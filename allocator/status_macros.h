// Early return of an absl::Status, which Debian's Abseil lacks.

#ifndef TIDEWHEEL_ALLOCATOR_STATUS_MACROS_H_
#define TIDEWHEEL_ALLOCATOR_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status of `expression` from the enclosing function unless it is
// OK.
#define TIDEWHEEL_RETURN_IF_ERROR(expression)            \
  do {                                                   \
    absl::Status tidewheel_status = (expression);        \
    if (!tidewheel_status.ok()) return tidewheel_status; \
  } while (false)

#define TIDEWHEEL_STATUS_CONCAT_INNER(a, b) a##b
#define TIDEWHEEL_STATUS_CONCAT(a, b) TIDEWHEEL_STATUS_CONCAT_INNER(a, b)

// `target` (a declaration or an lvalue) becomes the value of `expression`, an
// absl::StatusOr; its status is returned instead where it has no value.
#define TIDEWHEEL_ASSIGN_OR_RETURN(target, expression) \
  TIDEWHEEL_ASSIGN_OR_RETURN_INNER(                    \
      TIDEWHEEL_STATUS_CONCAT(tidewheel_or_, __LINE__), target, expression)

#define TIDEWHEEL_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                        \
  if (!result.ok()) return std::move(result).status();               \
  target = *std::move(result)

#endif  // TIDEWHEEL_ALLOCATOR_STATUS_MACROS_H_
