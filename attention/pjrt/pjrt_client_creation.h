// Makes a client under a watchdog: a plugin that waits for a device which
// never comes must not take the caller with it.
//
// Thread-safety: pure function.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_CLIENT_CREATION_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_CLIENT_CREATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_named_value.h"
#include "attention/pjrt/pjrt_plugin.h"

namespace tidewheel {

// Calls PJRT_Client_Create on a new thread. After `timeout_ms` the thread is
// left behind; it holds the plugin and the options, and destroys a client
// that comes too late.
//
// Errors: DeadlineExceeded; ResourceExhausted if no thread can be started;
// the plugin's.
absl::StatusOr<pjrt_abi::Client*> CreateClientHandle(
    std::shared_ptr<const PjrtPlugin> plugin,
    std::vector<PjrtNamedValue> named_values, int64_t timeout_ms);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_CLIENT_CREATION_H_
