// `tidewheel devices`: what a PJRT plugin offers here: its versions, the
// devices that it drives, their memory, the chips that it compiles for, and
// which of the functions that tidewheel calls it lacks.
//
// The plugin runs in a child process, so one that hangs or aborts is reported
// like any other fault. Where the host has no TPU's device files, libtpu is
// told so, since it would wait for a cloud's metadata server otherwise.

#ifndef TIDEWHEEL_TOOLS_DEVICES_COMMAND_H_
#define TIDEWHEEL_TOOLS_DEVICES_COMMAND_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "tools/command_context.h"

namespace CLI {
class App;
}

namespace tidewheel {

struct DevicesOptions {
  std::string plugin = {};  // empty: searched for (plugin_search.h)
  bool json = false;
  int64_t timeout_s = 60;       // of each question to the plugin
  std::string executable = {};  // of tidewheel; empty: this program
};

// Returns 0 if the plugin drives a device and has every function that batches
// need; 1 if not, or if it hung or died; kExitBadInput if there is no plugin or
// the file is none.
//
// JSON: plugin (as plugin_worker.h says, and origin, how its path was found);
// client and compiles_for as the worker's answers to "client" and
// "topologies", or {error: {code, message}}.
int RunDevices(const DevicesOptions& options, std::FILE* out, std::FILE* err);

// Adds the subcommand to `parent`, which owns it. Parsing its arguments runs
// it. REQUIRES: context outlives parent.
CLI::App* AddDevicesCommand(CLI::App& parent, CommandContext& context);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_DEVICES_COMMAND_H_
