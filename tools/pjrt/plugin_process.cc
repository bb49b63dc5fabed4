#include "tools/pjrt/plugin_process.h"

#include <glob.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/pjrt/plugin_worker.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

Channel::Deadline After(int64_t milliseconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::milliseconds(milliseconds);
}

absl::StatusCode CodeOfName(absl::string_view name) {
  for (int code = 1;
       code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    const auto value = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(value) == name) return value;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

absl::Status ErrorOf(const Json& answer) {
  const auto error = answer.find("error");
  if (error == answer.end() || !error->is_object()) return absl::OkStatus();
  return {CodeOfName(error->value("code", "")), error->value("message", "")};
}

absl::StatusOr<std::unique_ptr<PluginProcess>> PluginProcess::Start(
    const Options& options) {
  ChildProcess::Options child;
  child.executable =
      options.executable.empty() ? ThisExecutable() : options.executable;
  child.arguments = {kPluginWorkerCommand};
  if (options.without_devices) {
    child.arguments.push_back(kPluginWorkerWithoutDevices);
  }
  child.arguments.push_back("--");
  child.arguments.push_back(options.plugin);
  TIDEWHEEL_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> running,
                             ChildProcess::Start(child));
  std::unique_ptr<PluginProcess> process(new PluginProcess(std::move(running)));
  const absl::StatusOr<Json> answer =
      process->ReadAnswer(After(options.load_timeout_ms));
  if (absl::IsDeadlineExceeded(answer.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        "plugin '", options.plugin, "' was not loaded within ",
        options.load_timeout_ms, " ms; its process ", process->child_->End()));
  }
  TIDEWHEEL_RETURN_IF_ERROR(answer.status());
  TIDEWHEEL_RETURN_IF_ERROR(ErrorOf(*answer));
  process->plugin_ = answer->value("plugin", Json::object());
  return process;
}

absl::StatusOr<Json> PluginProcess::Ask(const Json& request,
                                        absl::string_view bytes,
                                        int64_t timeout_ms) {
  const Channel::Deadline deadline = After(timeout_ms);
  const std::string line = absl::StrCat(request.dump(), "\n");
  absl::Status sent = child_->channel().Send(line, deadline);
  if (sent.ok()) sent = child_->channel().Send(bytes, deadline);
  if (!sent.ok()) return Lost(sent);
  return ReadAnswer(deadline);
}

absl::StatusOr<Json> PluginProcess::ReadAnswer(Channel::Deadline deadline) {
  const absl::StatusOr<std::string> line = child_->channel().ReadLine(deadline);
  if (!line.ok()) return Lost(line.status());
  Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    return Lost(absl::InternalError("the answer is no JSON object"));
  }
  return answer;
}

absl::Status PluginProcess::Lost(const absl::Status& why) {
  const std::string end = child_->End();
  if (absl::IsDeadlineExceeded(why)) {
    return absl::DeadlineExceededError(
        absl::StrCat("gave no answer in time and ", end));
  }
  return absl::AbortedError(end);
}

bool HostHasTpuFiles() {
  for (const char* const pattern : {"/dev/accel[0-9]*", "/dev/vfio/[0-9]*"}) {
    glob_t matches = {};
    const bool found = glob(pattern, 0, nullptr, &matches) == 0;
    globfree(&matches);
    if (found) return true;
  }
  return false;
}

}  // namespace tidewheel
