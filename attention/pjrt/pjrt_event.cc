#include "attention/pjrt/pjrt_event.h"

#include <utility>

#include "allocator/check.h"

namespace tidewheel {
namespace {

absl::Status EmptyEvent() {
  return absl::FailedPreconditionError(
      "the event is empty: it was moved from, or never came from a launch or "
      "a transfer; keep the event that the call returned");
}

}  // namespace

PjrtEvent::PjrtEvent(const PjrtPlugin* plugin,
                     std::shared_ptr<const void> owner, pjrt_abi::Event* handle)
    : plugin_(plugin), owner_(std::move(owner)), handle_(handle) {
  TIDEWHEEL_CHECK(plugin != nullptr);
  TIDEWHEEL_CHECK(handle != nullptr);
}

PjrtEvent::~PjrtEvent() { Reset(); }

PjrtEvent::PjrtEvent(PjrtEvent&& other) noexcept
    : plugin_(other.plugin_),
      owner_(std::move(other.owner_)),
      handle_(std::exchange(other.handle_, nullptr)) {}

PjrtEvent& PjrtEvent::operator=(PjrtEvent&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  plugin_ = other.plugin_;
  owner_ = std::move(other.owner_);
  handle_ = std::exchange(other.handle_, nullptr);
  return *this;
}

void PjrtEvent::Reset() {
  if (handle_ == nullptr) return;
  pjrt_abi::Block<pjrt_abi::EventDestroy> args;
  args->event = std::exchange(handle_, nullptr);
  // What failed is in the event's status, not in that of its destruction.
  plugin_->Call(args).IgnoreError();
  owner_.reset();
}

absl::Status PjrtEvent::Await() const {
  if (empty()) return EmptyEvent();
  pjrt_abi::Block<pjrt_abi::EventAwait> args;
  args->event = handle_;
  return plugin_->Call(args);
}

absl::StatusOr<bool> PjrtEvent::IsReady() const {
  if (empty()) return EmptyEvent();
  pjrt_abi::Block<pjrt_abi::EventIsReady> args;
  args->event = handle_;
  const absl::Status status = plugin_->Call(args);
  if (!status.ok()) return status;
  return args->is_ready;
}

std::optional<absl::Status> PjrtEvent::Poll() const {
  const absl::StatusOr<bool> ready = IsReady();
  if (!ready.ok()) return ready.status();
  if (!*ready) return std::nullopt;
  // Asking a pending event for its error aborts the process; this one is not.
  pjrt_abi::Block<pjrt_abi::EventError> args;
  args->event = handle_;
  return plugin_->Call(args);
}

}  // namespace tidewheel
