#include "attention/pjrt/pjrt_error.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"

namespace tidewheel {
namespace {

// These two return nothing, unlike all other slots.
template <typename Fields>
void CallVoid(const pjrt_abi::Api& api, pjrt_abi::Block<Fields>& args) {
  const auto function =
      pjrt_abi::FindFunction<pjrt_abi::VoidFunction>(api, Fields::kSlot);
  TIDEWHEEL_CHECK(function != nullptr);
  function(&args);
}

void Destroy(const pjrt_abi::Api& api, pjrt_abi::Error* error) {
  pjrt_abi::Block<pjrt_abi::ErrorDestroy> args;
  args->error = error;
  CallVoid(api, args);
}

absl::StatusCode CodeOf(const pjrt_abi::Api& api,
                        const pjrt_abi::Error* error) {
  pjrt_abi::Block<pjrt_abi::ErrorGetCode> args;
  args->error = error;
  pjrt_abi::Error* second =
      pjrt_abi::FindFunction(api, pjrt_abi::ErrorGetCode::kSlot)(&args);
  if (second != nullptr) {
    Destroy(api, second);
    return absl::StatusCode::kUnknown;
  }
  // An error whose code is 0 is an error all the same.
  if (args->code < 1 || args->code > 16) return absl::StatusCode::kUnknown;
  return static_cast<absl::StatusCode>(args->code);
}

}  // namespace

absl::Status TakePjrtError(const pjrt_abi::Api& api, pjrt_abi::Error* error,
                           absl::string_view what) {
  if (error == nullptr) return absl::OkStatus();
  pjrt_abi::Block<pjrt_abi::ErrorMessage> args;
  args->error = error;
  CallVoid(api, args);
  absl::string_view text = "(no text)";
  if (args->message != nullptr && args->message_size > 0) {
    text = absl::string_view(args->message, args->message_size);
  }
  const absl::Status status(CodeOf(api, error), absl::StrCat(what, ": ", text));
  Destroy(api, error);
  return status;
}

}  // namespace tidewheel
