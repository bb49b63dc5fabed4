// `tidewheel check --tpu-compile`: programs compiled by libtpu's own compiler
// for a TPU that is not there, beside what was predicted of them.
//
//   --model NAME ...     the programs that a server of a configuration needs
//   --shapes FILE.json   those of a list of shapes (pjrt/compile_shapes.h)
//   --kernels DIR        kernels that tools/export_tpu_kernel.py exported
//
// The compiler runs in child processes (pjrt/compile_run.h): one that aborts or
// hangs costs one shape.

#ifndef TIDEWHEEL_TOOLS_TPU_COMPILE_COMMAND_H_
#define TIDEWHEEL_TOOLS_TPU_COMPILE_COMMAND_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "tools/config_check.h"

namespace CLI {
class App;
class Option_group;
}  // namespace CLI

namespace tidewheel {

// As given.
struct TpuCompileFlags {
  bool tpu_compile = false;
  std::string libtpu;  // empty: searched for (pjrt/plugin_search.h)
  std::string shapes;
  std::string kernels;
  bool all_buckets = false;
  int64_t timeout_s = 300;
  int jobs = 1;
};

// `what` is the group of what can be checked; --kernels may be added to
// --model or --shapes.
void AddTpuCompileFlags(CLI::App& command, CLI::Option_group& what,
                        TpuCompileFlags& flags);

struct TpuCompileOptions {
  TpuCompileFlags flags;
  std::optional<ConfigurationShape> configuration = std::nullopt;  // of --model
  std::optional<TpuGeneration> chip =
      std::nullopt;  // absent: all kernels; v6e for shapes
  bool json = false;
  std::string executable = {};  // of tidewheel; empty: this program
};

// Returns 0 if all shapes compile and do as predicted; 1 if one does not, or
// the compiler hung or died; kExitBadInput if the input or the plugin can not
// be used. The JSON is CompileReport's.
int RunTpuCompile(const TpuCompileOptions& options, std::FILE* out,
                  std::FILE* err);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TPU_COMPILE_COMMAND_H_
