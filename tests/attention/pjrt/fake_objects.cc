#include "tests/attention/pjrt/fake_objects.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

namespace tidewheel::fake {
namespace {

// Every line here speaks of the C API.
using namespace pjrt_abi;  // NOLINT(google-build-using-namespace)

std::mutex live_mutex;

std::set<const void*>& LiveHandles() {
  static auto* const live = new std::set<const void*>;
  return *live;
}

// ---- Errors and events ----

void DestroyError(void* block) {
  Error* const error = static_cast<Block<ErrorDestroy>*>(block)->fields.error;
  Destroy(error, State()->live_errors, "PJRT_Error_Destroy");
}

void MessageOfError(void* block) {
  ErrorMessage& args = static_cast<Block<ErrorMessage>*>(block)->fields;
  CheckLive(args.error, "PJRT_Error_Message");
  SetText(args.error->text, &args.message, &args.message_size);
}

Error* CodeOfError(void* block) {
  TIDEWHEEL_FAKE_OPEN(ErrorGetCode, args);
  args->code = args->error->code;
  return nullptr;
}

Error* DestroyEvent(void* block) {
  TIDEWHEEL_FAKE_OPEN(EventDestroy, args);
  Destroy(args->event, State()->live_events, "PJRT_Event_Destroy");
  return nullptr;
}

Error* ResultOf(const Event* event) {
  return event->fails ? Fail(State()->failure_code, "device lost") : nullptr;
}

Error* IsEventReady(void* block) {
  TIDEWHEEL_FAKE_OPEN(EventIsReady, args);
  CheckLive(args->event, "PJRT_Event_IsReady");
  args->is_ready = !State()->hold_events;
  return nullptr;
}

Error* ErrorOfEvent(void* block) {
  TIDEWHEEL_FAKE_OPEN(EventError, args);
  CheckLive(args->event, "PJRT_Event_Error");
  if (State()->hold_events) Violation("PJRT_Event_Error on a pending event");
  return ResultOf(args->event);
}

Error* AwaitEvent(void* block) {
  TIDEWHEEL_FAKE_OPEN(EventAwait, args);
  CheckLive(args->event, "PJRT_Event_Await");
  while (State()->hold_events) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ResultOf(args->event);
}

}  // namespace

FakePlugin* State() {
  static FakePlugin* const state = new FakePlugin;
  return state;
}

void Register(const void* handle, std::atomic<int>& count) {
  const std::lock_guard<std::mutex> lock(live_mutex);
  LiveHandles().insert(handle);
  ++count;
}

void CheckLive(const void* handle, const char* what) {
  const std::lock_guard<std::mutex> lock(live_mutex);
  if (LiveHandles().contains(handle)) return;
  std::fprintf(stderr, "fake plugin: %s of a handle that is not alive\n", what);
  std::abort();
}

void Unregister(const void* handle, std::atomic<int>& count, const char* what) {
  CheckLive(handle, what);
  const std::lock_guard<std::mutex> lock(live_mutex);
  LiveHandles().erase(handle);
  --count;
}

void Violation(const std::string& text) {
  const std::lock_guard<std::mutex> lock(live_mutex);
  State()->violations.push_back(text);
}

Error* Fail(int code, const std::string& text) {
  return Track(new Error{code, text}, State()->live_errors);
}

Event* NewEvent(bool fails) {
  return Track(new Event{fails}, State()->live_events);
}

size_t BytesOf(const FakeArray& array) {
  size_t bytes = static_cast<size_t>(SizeOfElement(array.type));
  for (const int64_t dim : array.dims) bytes *= static_cast<size_t>(dim);
  return bytes;
}

void SetText(const std::string& text, const char** target, size_t* size) {
  *target = text.data();
  *size = text.size();
}

void SetErrorSlots() {
  SetVoidSlot(ErrorDestroy::kSlot, DestroyError);
  SetVoidSlot(ErrorMessage::kSlot, MessageOfError);
  SetSlot(ErrorGetCode::kSlot, CodeOfError);
  SetSlot(EventDestroy::kSlot, DestroyEvent);
  SetSlot(EventIsReady::kSlot, IsEventReady);
  SetSlot(EventError::kSlot, ErrorOfEvent);
  SetSlot(EventAwait::kSlot, AwaitEvent);
}

}  // namespace tidewheel::fake
