// VmemBudget: bytes of a TPU core's vector memory, never zero or negative.
//
// A budget is what is left for a kernel after others have reserved their part.
// Computed in plain integers it can reach zero or wrap, and a zero has been
// read as "no limit" and a negative number as a huge one; this type has no such
// value. "No limit" is an absent std::optional<VmemBudget>: the compiler's
// default applies.
//
// Thread-safety: a value.

#ifndef TIDEWHEEL_ATTENTION_VMEM_BUDGET_H_
#define TIDEWHEEL_ATTENTION_VMEM_BUDGET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class VmemBudget {
 public:
  // Errors: InvalidArgument where `bytes` is not positive.
  static absl::StatusOr<VmemBudget> Create(int64_t bytes);

  // What is left after `reservation_bytes` for `purpose` ("weights prefetch").
  // Errors: InvalidArgument where the reservation is negative;
  // ResourceExhausted, with the arithmetic, where nothing would be left.
  absl::StatusOr<VmemBudget> Minus(int64_t reservation_bytes,
                                   absl::string_view purpose) const;

  int64_t bytes() const { return bytes_; }

  friend bool operator==(VmemBudget, VmemBudget) = default;

 private:
  explicit VmemBudget(int64_t bytes) : bytes_(bytes) {}

  int64_t bytes_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_VMEM_BUDGET_H_
