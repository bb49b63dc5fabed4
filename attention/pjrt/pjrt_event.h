// PjrtEvent: something that a device will have done: a launch, a transfer.
//
// It is not a future: it carries no value, only whether the work succeeded.
//
// Lifecycle:
//   1. A launch or a transfer returns it.
//   2. Await or Poll it, as often as wished.
//   3. It is destroyed, once; before or after the work is done. The work goes
//      on, and memory that it writes must stay until it is done.
// It keeps what it depends on (the client) alive.
//
// Move-only. A moved-from or default event is empty; its methods give
// FailedPrecondition.
//
// Thread-safety: const methods may be called concurrently.

#ifndef TIDEWHEEL_ATTENTION_PJRT_PJRT_EVENT_H_
#define TIDEWHEEL_ATTENTION_PJRT_PJRT_EVENT_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_c_api.h"
#include "attention/pjrt/pjrt_plugin.h"

namespace tidewheel {

class PjrtEvent {
 public:
  PjrtEvent() = default;
  // Takes over `handle` and keeps `owner` alive.
  //
  // REQUIRES: `handle` is not null and belongs to `plugin`.
  PjrtEvent(const PjrtPlugin* plugin, std::shared_ptr<const void> owner,
            pjrt_abi::Event* handle);
  ~PjrtEvent();

  PjrtEvent(PjrtEvent&& other) noexcept;
  PjrtEvent& operator=(PjrtEvent&& other) noexcept;

  bool empty() const { return handle_ == nullptr; }

  // Blocks until the work is done.
  //
  // Errors: the work's own.
  absl::Status Await() const;

  // Whether the work is done or has failed.
  //
  // Errors: the plugin's, of asking.
  absl::StatusOr<bool> IsReady() const;

  // Absent while the work goes on, then what Await would return. An event
  // that can not be asked has its error as the result.
  std::optional<absl::Status> Poll() const;

 private:
  void Reset();

  const PjrtPlugin* plugin_ = nullptr;
  std::shared_ptr<const void> owner_;
  pjrt_abi::Event* handle_ = nullptr;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PJRT_PJRT_EVENT_H_
