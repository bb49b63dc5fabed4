// Turns an error object of a plugin into an absl::Status.
//
// Thread-safety: pure function over one error, which one thread owns.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_ERROR_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "attention/pjrt/pjrt_c_api.h"

namespace tidewheel {

// The plugin's code with the text "<what>: <the plugin's text>"; OK for null.
// A code that absl does not have becomes Unknown. The error is destroyed.
//
// REQUIRES: the table has the three error slots.
absl::Status TakePjrtError(const pjrt_abi::Api& api, pjrt_abi::Error* error,
                           absl::string_view what);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_ERROR_H_
