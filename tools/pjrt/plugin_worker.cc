#include "tools/pjrt/plugin_worker.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "attention/pjrt/libtpu_environment.h"
#include "attention/pjrt/pjrt_client.h"
#include "attention/pjrt/pjrt_plugin.h"
#include "attention/pjrt/pjrt_topology.h"
#include "nlohmann/json.hpp"
#include "tools/pjrt/channel.h"
#include "tools/pjrt/plugin_functions.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxProgramBytes = int64_t{1} << 30;

Json ToJson(const absl::Status& status) {
  return {{"error",
           {{"code", absl::StatusCodeToString(status.code())},
            {"message", std::string(status.message())}}}};
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json VersionText(const std::optional<PjrtPlugin::Version>& version) {
  if (!version.has_value()) return nullptr;
  return absl::StrJoin(*version, ".");
}

Json Describe(const PjrtPlugin& plugin) {
  Json json = {
      {"path", plugin.path()},
      {"pjrt_version",
       absl::StrCat(plugin.major_version(), ".", plugin.minor_version())},
      {"stablehlo_version", VersionText(plugin.stablehlo_current_version())},
      {"stablehlo_minimum", VersionText(plugin.stablehlo_minimum_version())},
      {"xla_version", OrNull(plugin.xla_version())}};
  json["attributes"] = Json::object();
  for (const PjrtNamedValue& attribute : plugin.attributes()) {
    std::visit(
        [&](const auto& value) { json["attributes"][attribute.name] = value; },
        attribute.value);
  }
  json["num_functions"] = PluginFunctions().size();
  json["missing_functions"] = Json::array();
  for (const PluginFunction& function : PluginFunctions()) {
    if (plugin.Has(function.slot)) continue;
    json["missing_functions"].push_back(
        {{"name", function.slot.name},
         {"use", std::string(PluginFunctionUseName(function.use))}});
  }
  return json;
}

Json DescribeMemory(const PjrtDevice& device) {
  const auto stats = device.MemoryStats();
  if (!stats.ok()) return ToJson(stats.status());
  if (!stats->has_value()) return nullptr;
  const PjrtDeviceMemoryStats& memory = **stats;
  return {
      {"bytes_in_use", memory.bytes_in_use},
      {"peak_bytes_in_use", OrNull(memory.peak_bytes_in_use)},
      {"bytes_limit", OrNull(memory.bytes_limit)},
      {"bytes_reserved", OrNull(memory.bytes_reserved)},
      {"largest_free_block_bytes", OrNull(memory.largest_free_block_bytes)}};
}

Json DescribeClient(const std::shared_ptr<PjrtPlugin>& plugin,
                    int64_t timeout_ms) {
  const auto client =
      PjrtClient::Create(plugin, {.create_timeout_ms = timeout_ms});
  if (!client.ok()) return ToJson(client.status());
  Json json = {{"platform", (*client)->platform_name()},
               {"version", (*client)->platform_version()},
               {"devices", Json::array()}};
  for (const PjrtDevice& device : (*client)->devices()) {
    json["devices"].push_back({{"id", device.id()},
                               {"kind", device.kind()},
                               {"description", device.debug_string()},
                               {"memory_kinds", device.memory_kinds()},
                               {"default_memory", device.default_memory_kind()},
                               {"memory", DescribeMemory(device)}});
  }
  return json;
}

Json DescribeTopologies(const std::shared_ptr<PjrtPlugin>& plugin) {
  Json json = {{"chips", Json::array()}};
  for (const TpuGeneration generation : AllTpuGenerations()) {
    const auto topology =
        PjrtTopology::Create(plugin, TpuCompileTarget(generation));
    if (!topology.ok()) continue;
    json["chips"].push_back(
        {{"chip", std::string(TpuGenerationName(generation))},
         {"device_kind", (*topology)->device_kind()},
         {"devices", (*topology)->num_devices()}});
  }
  return json;
}

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

absl::StatusOr<Json> CompileFor(const std::shared_ptr<PjrtPlugin>& plugin,
                                absl::string_view chip,
                                absl::string_view program) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const TpuGeneration generation,
                             ParseTpuGeneration(chip));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::shared_ptr<PjrtTopology> topology,
      PjrtTopology::Create(plugin, TpuCompileTarget(generation)));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const std::unique_ptr<PjrtCompiledProgram> compiled,
      topology->Compile(program));
  TIDEWHEEL_ASSIGN_OR_RETURN(const PjrtCompiledMemoryStats stats,
                             compiled->MemoryStats());
  return Json{{"argument_bytes", stats.argument_bytes},
              {"output_bytes", stats.output_bytes},
              {"alias_bytes", stats.alias_bytes},
              {"temp_bytes", stats.temp_bytes},
              {"generated_code_bytes", stats.generated_code_bytes}};
}

Json Compile(const std::shared_ptr<PjrtPlugin>& plugin, absl::string_view chip,
             absl::string_view program) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const absl::StatusOr<Json> result = CompileFor(plugin, chip, program);
  Json json = result.ok() ? *result : ToJson(result.status());
  json["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  json["peak_resident_bytes"] = PeakResidentBytes();
  return json;
}

class Worker {
 public:
  explicit Worker(Channel& channel) : channel_(channel) {}

  // Errors: Unavailable when the other side has ended.
  absl::Status Load(const std::string& path) {
    absl::StatusOr<std::shared_ptr<PjrtPlugin>> plugin = PjrtPlugin::Load(path);
    if (!plugin.ok()) {
      TIDEWHEEL_RETURN_IF_ERROR(Answer(ToJson(plugin.status())));
      return plugin.status();
    }
    plugin_ = *std::move(plugin);
    return Answer({{"plugin", Describe(*plugin_)}});
  }

  // As Load; never returns OK.
  absl::Status Serve() {
    while (true) {
      TIDEWHEEL_ASSIGN_OR_RETURN(const std::string line,
                                 channel_.ReadLine(Channel::kForever));
      const Json request =
          Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!request.is_object()) {
        return absl::InvalidArgumentError("a request is no JSON object");
      }
      const std::string name = request.value("request", "");
      if (name == "client") {
        TIDEWHEEL_RETURN_IF_ERROR(Answer(DescribeClient(
            plugin_, request.value("timeout_ms", int64_t{120'000}))));
      } else if (name == "topologies") {
        TIDEWHEEL_RETURN_IF_ERROR(Answer(DescribeTopologies(plugin_)));
      } else if (name == "compile") {
        TIDEWHEEL_RETURN_IF_ERROR(ServeCompile(request));
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown request '", name, "'"));
      }
    }
  }

 private:
  absl::Status ServeCompile(const Json& request) {
    const int64_t size = request.value("program_bytes", int64_t{-1});
    if (size < 0 || size > kMaxProgramBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "program_bytes ", size, " is not in [0, ", kMaxProgramBytes, "]"));
    }
    TIDEWHEEL_ASSIGN_OR_RETURN(
        const std::string program,
        channel_.ReadBytes(static_cast<size_t>(size), Channel::kForever));
    return Answer(Compile(plugin_, request.value("chip", ""), program));
  }

  absl::Status Answer(const Json& json) {
    return channel_.Send(
        absl::StrCat(json.dump(-1, ' ', false, Json::error_handler_t::replace),
                     "\n"),
        Channel::kForever);
  }

  Channel& channel_;
  std::shared_ptr<PjrtPlugin> plugin_;
};

}  // namespace

int RunPluginWorker(const PluginWorkerOptions& options) {
  // A compile can go on for minutes after the one who asked is gone.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.without_devices) SetLibtpuCompileEnvironment();
  Channel channel(STDIN_FILENO);
  Worker worker(channel);
  absl::Status status = worker.Load(options.plugin);
  if (status.ok()) {
    status = worker.Serve();
    if (absl::IsUnavailable(status)) return 0;
  }
  std::fprintf(stderr, "tidewheel %s, which tidewheel runs itself: %s\n",
               kPluginWorkerCommand, std::string(status.message()).c_str());
  return 1;
}

CLI::App* AddPluginWorkerCommand(CLI::App& parent) {
  CLI::App* command = parent.add_subcommand(
      kPluginWorkerCommand, "Loads a plugin for another tidewheel process");
  command->group("");  // not listed
  auto options = std::make_shared<PluginWorkerOptions>();
  command->add_option("plugin", options->plugin, "Path of the plugin")
      ->required();
  command->add_flag(kPluginWorkerWithoutDevices, options->without_devices,
                    "Only compile: do not look for devices");
  command->callback([options] {
    const int exit_code = RunPluginWorker(*options);
    // Without the destructors of the plugin, which may wait for its threads.
    std::fflush(nullptr);
    _exit(exit_code);
  });
  return command;
}

}  // namespace tidewheel
