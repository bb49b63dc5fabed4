#include "attention/pjrt/pjrt_signature.h"

#include "absl/strings/str_cat.h"

namespace tidewheel {

absl::Status CheckSignature(const PjrtSignature& signature) {
  if (signature.arguments.size() > PjrtSignature::kMaxArrays) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a program of ", signature.arguments.size(), " arguments exceeds ",
        PjrtSignature::kMaxArrays, "; join arrays of one type into one"));
  }
  for (size_t i = 0; i < signature.arguments.size(); ++i) {
    if (signature.arguments[i].shape == PjrtShape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("argument ", i,
                       " of the signature has no shape; state the element "
                       "type and dimensions that the program declares"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
