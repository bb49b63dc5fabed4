#include "attention/pjrt/pjrt_client_creation.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "attention/pjrt/pjrt_c_api_client.h"

namespace tidewheel {
namespace {

// What the waiting caller and the creating thread share. Owned by both, so
// that either may go first.
struct Creation {
  std::shared_ptr<const PjrtPlugin> plugin;
  std::vector<PjrtNamedValue> named_values;

  std::mutex mutex;
  std::condition_variable finished;
  std::optional<absl::Status> status;  // set when the plugin has returned
  pjrt_abi::Client* client = nullptr;
  bool abandoned = false;  // the caller no longer waits
};

void DestroyClient(const PjrtPlugin& plugin, pjrt_abi::Client* client) {
  pjrt_abi::Block<pjrt_abi::ClientDestroy> args;
  args->client = client;
  plugin.Call(args).IgnoreError();
}

void RunCreation(const std::shared_ptr<Creation>& creation) {
  const PjrtNamedValueArray values(creation->named_values);
  pjrt_abi::Block<pjrt_abi::ClientCreate> args;
  args->create_options = values.data();
  args->num_options = values.size();
  absl::Status status = creation->plugin->Call(args);
  const std::lock_guard<std::mutex> lock(creation->mutex);
  if (creation->abandoned) {
    if (status.ok()) DestroyClient(*creation->plugin, args->client);
    return;
  }
  creation->client = args->client;
  creation->status = std::move(status);
  creation->finished.notify_one();
}

}  // namespace

absl::StatusOr<pjrt_abi::Client*> CreateClientHandle(
    std::shared_ptr<const PjrtPlugin> plugin,
    std::vector<PjrtNamedValue> named_values, int64_t timeout_ms) {
  const auto creation = std::make_shared<Creation>();
  creation->plugin = std::move(plugin);
  creation->named_values = std::move(named_values);
  std::thread thread;
  try {
    thread = std::thread(RunCreation, creation);
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread for PJRT_Client_Create: ", error.what(),
                     "; raise the limit of threads"));
  }
  std::unique_lock<std::mutex> lock(creation->mutex);
  const bool finished = creation->finished.wait_for(
      lock, std::chrono::milliseconds(timeout_ms),
      [&creation] { return creation->status.has_value(); });
  if (!finished) {
    creation->abandoned = true;
    thread.detach();
    return absl::DeadlineExceededError(absl::StrCat(
        "PJRT_Client_Create of '", creation->plugin->path(),
        "' has not returned after ", timeout_ms,
        " ms and is left behind on its thread; check that the device is there "
        "and that no other process holds it, or raise create_timeout_ms"));
  }
  lock.unlock();
  thread.join();
  if (!creation->status->ok()) return *std::move(creation->status);
  return creation->client;
}

}  // namespace tidewheel
