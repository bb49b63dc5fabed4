// PluginProcess: a plugin in a child process (PluginWorker), seen from here.
//
// Lifecycle:
//   1. Start: the child has loaded the plugin.
//   2. Ask, any number of times. After an error the child is gone.
//   3. The destructor ends the child.
//
// Thread-safety: one call at a time; several objects may be used at once.

#ifndef TIDEWHEEL_TOOLS_PJRT_PLUGIN_PROCESS_H_
#define TIDEWHEEL_TOOLS_PJRT_PLUGIN_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tools/pjrt/child_process.h"

namespace tidewheel {

class PluginProcess {
 public:
  struct Options {
    std::string plugin;      // a path
    std::string executable;  // of tidewheel; empty: this program
    // For a host without a TPU; see SetLibtpuCompileEnvironment.
    bool without_devices = false;
    int64_t load_timeout_ms = 60'000;
  };

  // Errors: those of PjrtPlugin::Load, from the child; DeadlineExceeded if the
  // plugin takes longer; Aborted, with its last words, if the child died;
  // those of ChildProcess::Start.
  static absl::StatusOr<std::unique_ptr<PluginProcess>> Start(
      const Options& options);

  // What plugin_worker.h says of "plugin".
  const nlohmann::ordered_json& plugin() const { return plugin_; }

  // The worker's answer to a request with the bytes that belong to it. An
  // error that the plugin returned is an answer: see ErrorOf.
  //
  // Errors: DeadlineExceeded; Aborted, with its last words, if the child died.
  absl::StatusOr<nlohmann::ordered_json> Ask(
      const nlohmann::ordered_json& request, absl::string_view bytes,
      int64_t timeout_ms);

 private:
  explicit PluginProcess(std::unique_ptr<ChildProcess> child)
      : child_(std::move(child)) {}

  absl::StatusOr<nlohmann::ordered_json> ReadAnswer(Channel::Deadline deadline);
  // Ends the child and explains why there is no answer.
  absl::Status Lost(const absl::Status& why);

  std::unique_ptr<ChildProcess> child_;
  nlohmann::ordered_json plugin_;
};

// What the plugin said instead of an answer; OK for any other answer.
absl::Status ErrorOf(const nlohmann::ordered_json& answer);

// Whether this host may have a TPU: it has the device files of one. Then the
// environment of a compile would hide the chips.
bool HostHasTpuFiles();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_PLUGIN_PROCESS_H_
