// PluginWorker: the child process in which a PJRT plugin is loaded, so that a
// plugin which hangs or aborts takes nothing else with it.
//
// It is the tidewheel command itself, run with a subcommand that help does not
// list. PluginProcess is the other side.
//
// Lifecycle of the talk, one JSON object a line over standard input, which is
// a socket:
//   1. The worker loads the plugin and says {"plugin": {...}}: path,
//      pjrt_version, stablehlo_version, stablehlo_minimum, xla_version,
//      attributes, num_functions, missing_functions (a list of name, use).
//   2. {"request": "client", "timeout_ms": N}: {"platform", "version",
//      "devices": [...]}.
//      {"request": "topologies"}: {"chips": [...]}, those it compiles for.
//      {"request": "compile", "chip": "v5e", "program_bytes": N} and N bytes of
//      StableHLO: the sizes of PjrtCompiledMemoryStats, seconds, and
//      peak_resident_bytes of the worker so far.
//      Any answer may be {"error": {"code": "NOT_FOUND", "message": "..."}}.
//   3. The worker ends when its input is closed.

#ifndef TIDEWHEEL_TOOLS_PJRT_PLUGIN_WORKER_H_
#define TIDEWHEEL_TOOLS_PJRT_PLUGIN_WORKER_H_

#include <string>

namespace CLI {
class App;
}

namespace tidewheel {

inline constexpr char kPluginWorkerCommand[] = "pjrt-worker";
inline constexpr char kPluginWorkerWithoutDevices[] = "--without-devices";

struct PluginWorkerOptions {
  std::string plugin;
  // SetLibtpuCompileEnvironment first.
  bool without_devices = false;
};

// Returns the exit code: 0, or 1 if the plugin can not be loaded or the talk
// broke off.
int RunPluginWorker(const PluginWorkerOptions& options);

// Adds the subcommand to `parent`, which owns it. Running it ends the process.
CLI::App* AddPluginWorkerCommand(CLI::App& parent);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_PLUGIN_WORKER_H_
