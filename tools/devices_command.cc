#include "tools/devices_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "tools/byte_size.h"
#include "tools/pjrt/plugin_process.h"
#include "tools/pjrt/plugin_search.h"
#include "tools/pjrt/wrapped_text.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLabelColumns = 12;

// "label       text", wrapped behind the label.
void PrintLine(absl::string_view label, absl::string_view text,
               std::FILE* out) {
  const std::string wrapped =
      WrapText(text, {.first_column = kLabelColumns, .indent = kLabelColumns});
  std::fprintf(out, "%-*s%s\n", kLabelColumns, std::string(label).c_str(),
               wrapped.c_str());
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// One sentence for a fault; the code is for programs.
std::string ErrorText(const Json& answer) {
  const absl::Status status = ErrorOf(answer);
  return absl::StrCat(status.message(), " (",
                      absl::StatusCodeToString(status.code()), ")");
}

std::string MissingText(const Json& plugin) {
  const Json& missing = plugin["missing_functions"];
  if (missing.empty()) {
    return absl::StrCat("all ", plugin["num_functions"].get<int64_t>(),
                        " that tidewheel calls");
  }
  std::vector<std::string> names;
  for (const Json& function : missing) {
    names.push_back(absl::StrCat(TextOf(function["name"]), " (",
                                 TextOf(function["use"]), ")"));
  }
  return absl::StrCat("lacks ", names.size(), " of ",
                      plugin["num_functions"].get<int64_t>(),
                      " that tidewheel calls: ", absl::StrJoin(names, ", "));
}

bool LacksFunctionsToRun(const Json& plugin) {
  for (const Json& function : plugin["missing_functions"]) {
    if (function["use"] == "run") return true;
  }
  return false;
}

void PrintPlugin(const Json& plugin, std::FILE* out) {
  PrintLine(
      "plugin",
      absl::StrCat(TextOf(plugin["path"]), " (", TextOf(plugin["origin"]), ")"),
      out);
  PrintLine("PJRT", TextOf(plugin["pjrt_version"]), out);
  if (plugin["stablehlo_version"].is_string()) {
    std::string versions = TextOf(plugin["stablehlo_version"]);
    if (plugin["stablehlo_minimum"].is_string()) {
      absl::StrAppend(&versions, ", reads ",
                      TextOf(plugin["stablehlo_minimum"]), " and newer");
    }
    PrintLine("StableHLO", versions, out);
  }
  for (const auto& [name, value] : plugin["attributes"].items()) {
    if (absl::StartsWith(name, "stablehlo_")) continue;
    PrintLine("attribute", absl::StrCat(name, " = ", TextOf(value)), out);
  }
  PrintLine("functions", MissingText(plugin), out);
}

std::string MemoryText(const Json& memory) {
  if (memory.is_null()) return "the plugin keeps no memory statistics";
  if (memory.contains("error")) return ErrorText(memory);
  std::string text = absl::StrCat(
      FormatByteSize(memory["bytes_in_use"].get<int64_t>()), " in use");
  if (memory["bytes_limit"].is_number()) {
    absl::StrAppend(&text, " of ",
                    FormatByteSize(memory["bytes_limit"].get<int64_t>()));
  }
  return text;
}

void PrintClient(const Json& client, std::FILE* out) {
  if (client.contains("error")) {
    PrintLine("devices", absl::StrCat("none: ", ErrorText(client)), out);
    return;
  }
  const std::string version = absl::StrReplaceAll(
      absl::StripAsciiWhitespace(TextOf(client["version"])), {{"\n", ", "}});
  const std::string platform = TextOf(client["platform"]);
  PrintLine(
      "platform",
      version == platform ? platform : absl::StrCat(platform, ", ", version),
      out);
  for (const Json& device : client["devices"]) {
    std::vector<std::string> kinds;
    for (const Json& kind : device["memory_kinds"]) {
      kinds.push_back(TextOf(kind));
      if (kind == device["default_memory"]) kinds.back() += " (default)";
    }
    PrintLine(absl::StrCat("device ", device["id"].get<int>()),
              absl::StrCat(TextOf(device["kind"]), " \"",
                           TextOf(device["description"]), "\""),
              out);
    PrintLine(
        "",
        absl::StrCat("memories ",
                     kinds.empty() ? "not named" : absl::StrJoin(kinds, ", "),
                     "; ", MemoryText(device["memory"])),
        out);
  }
}

void PrintTopologies(const Json& topologies, std::FILE* out) {
  if (topologies.contains("error")) {
    PrintLine("compiles", ErrorText(topologies), out);
    return;
  }
  std::vector<std::string> chips;
  for (const Json& chip : topologies["chips"]) {
    chips.push_back(absl::StrCat(TextOf(chip["chip"]), " (",
                                 TextOf(chip["device_kind"]), ")"));
  }
  PrintLine("compiles",
            chips.empty()
                ? "only for the devices that it drives"
                : absl::StrCat("ahead for ", absl::StrJoin(chips, ", "),
                               "; no TPU is needed: tidewheel check "
                               "--tpu-compile"),
            out);
}

// The answer, or the fault as an object like the worker's errors.
Json AskOrError(PluginProcess& process, const Json& request,
                int64_t timeout_ms) {
  absl::StatusOr<Json> answer = process.Ask(request, "", timeout_ms);
  if (answer.ok()) return *std::move(answer);
  return {{"error",
           {{"code", absl::StatusCodeToString(answer.status().code())},
            {"message", absl::StrCat("the plugin's process ",
                                     answer.status().message())}}}};
}

// A fault of the child, not of what was given to it.
bool IsHangOrDeath(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

absl::StatusOr<Json> Examine(const DevicesOptions& options,
                             const FoundPlugin& found) {
  const int64_t timeout_ms = options.timeout_s * 1000;
  absl::StatusOr<std::unique_ptr<PluginProcess>> process =
      PluginProcess::Start({.plugin = found.path,
                            .executable = options.executable,
                            .without_devices = !HostHasTpuFiles(),
                            .load_timeout_ms = timeout_ms});
  if (!process.ok()) return process.status();
  Json report = {{"plugin", (*process)->plugin()}};
  report["plugin"]["origin"] = found.origin;
  // Before the client, which may hang: what it compiles for is then known.
  report["compiles_for"] =
      AskOrError(**process, {{"request", "topologies"}}, timeout_ms);
  // The watchdog inside comes first and says more.
  constexpr int64_t kMarginMs = 5000;
  report["client"] =
      AskOrError(**process, {{"request", "client"}, {"timeout_ms", timeout_ms}},
                 timeout_ms + kMarginMs);
  return report;
}

}  // namespace

int RunDevices(const DevicesOptions& options, std::FILE* out, std::FILE* err) {
  const absl::StatusOr<FoundPlugin> found =
      FindPjrtPlugin(options.plugin, "--plugin");
  absl::StatusOr<Json> report =
      found.ok() ? Examine(options, *found) : found.status();
  if (!report.ok()) {
    std::fprintf(
        err, "tidewheel devices: %s%s\n",
        absl::IsAborted(report.status())
            ? absl::StrCat("loading '", found->path, "': the process ").c_str()
            : "",
        std::string(report.status().message()).c_str());
    return IsHangOrDeath(report.status()) ? 1 : kExitBadInput;
  }
  if (options.json) {
    std::fprintf(
        out, "%s\n",
        report->dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    PrintPlugin((*report)["plugin"], out);
    PrintClient((*report)["client"], out);
    PrintTopologies((*report)["compiles_for"], out);
  }
  return (*report)["client"].contains("error") ||
                 LacksFunctionsToRun((*report)["plugin"])
             ? 1
             : 0;
}

CLI::App* AddDevicesCommand(CLI::App& parent, CommandContext& context) {
  CLI::App* command = parent.add_subcommand(
      "devices", "Show what a PJRT plugin (libtpu.so, ...) offers here");
  auto options = std::make_shared<DevicesOptions>();
  command->add_option("--plugin", options->plugin,
                      "Path of the plugin (default: TPU_LIBRARY_PATH, then the "
                      "usual places of libtpu.so)");
  command
      ->add_option("--timeout", options->timeout_s,
                   "Seconds that the plugin has for each answer")
      ->check(CLI::Range(1, 86'000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON instead of text");
  command->callback([options, &context] {
    context.exit_code = RunDevices(*options, context.out, context.err);
  });
  return command;
}

}  // namespace tidewheel
