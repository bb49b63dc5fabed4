#include "attention/vmem_budget.h"

#include "absl/strings/str_cat.h"

namespace tidewheel {

absl::StatusOr<VmemBudget> VmemBudget::Create(int64_t bytes) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("VMEM budget of ", bytes,
                     " bytes must be at least 1; leave it out for "
                     "the compiler's default"));
  }
  return VmemBudget(bytes);
}

absl::StatusOr<VmemBudget> VmemBudget::Minus(int64_t reservation_bytes,
                                             absl::string_view purpose) const {
  if (reservation_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "VMEM reservation of ", reservation_bytes, " bytes for ", purpose,
        " must be at least 0; a reservation cannot give "
        "memory back"));
  }
  if (reservation_bytes >= bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "VMEM budget of ", bytes_, " bytes - ", reservation_bytes,
        " bytes for ", purpose, " = ", bytes_ - reservation_bytes,
        " bytes, and at least 1 must remain; reserve ",
        reservation_bytes - bytes_ + 1, " bytes less or raise the budget"));
  }
  return VmemBudget(bytes_ - reservation_bytes);
}

}  // namespace tidewheel
