// CompileRun: compiles programs for TPUs that are not there, in child
// processes, so that a compiler which aborts or hangs costs one program.
//
// Lifecycle:
//   1. Start: the first child has loaded the plugin.
//   2. Run: each program goes to a child that is free. A child that dies or
//      takes too long is replaced; what was done before is kept.
//
// Thread-safety: one call at a time. Run has a thread for each child.

#ifndef TIDEWHEEL_TOOLS_PJRT_COMPILE_RUN_H_
#define TIDEWHEEL_TOOLS_PJRT_COMPILE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/pjrt/pjrt_compiled_program.h"
#include "nlohmann/json.hpp"
#include "tools/pjrt/compile_job.h"
#include "tools/pjrt/plugin_process.h"

namespace tidewheel {

struct CompileOutcome {
  enum class Fate {
    kCompiled,
    kRefused,   // the compiler returned an error
    kTimedOut,  // and its process was stopped
    kDied       // its process ended
  };
  Fate fate = Fate::kCompiled;
  PjrtCompiledMemoryStats memory;   // of a compiled one
  double seconds = 0;               // the compiler's; of what ended, ours
  int64_t peak_resident_bytes = 0;  // of the child until then
  // The compiler's words, or how the process ended and its last words.
  std::string text;
};

class CompileRun {
 public:
  struct Options {
    std::string plugin;       // a path
    std::string executable;   // of tidewheel; empty: this program
    int64_t timeout_s = 300;  // of one program, and of loading the plugin
    int children = 1;         // at a time
  };

  // Called for each job in the order of the jobs, one at a time.
  using OnDone = std::function<void(const CompileJob&, const CompileOutcome&)>;

  // Errors: those of PluginProcess::Start and Ask; InvalidArgument for a plugin
  // that compiles for no TPU.
  static absl::StatusOr<std::unique_ptr<CompileRun>> Start(
      const Options& options);

  // What plugin_worker.h says of "plugin".
  const nlohmann::ordered_json& plugin() const { return plugin_; }

  // Errors: a program that can not be read; those of PluginProcess::Start for a
  // child that replaces another. Jobs that were done before have been told.
  absl::Status Run(std::span<const CompileJob> jobs, const OnDone& on_done);

 private:
  struct Progress;

  CompileRun(Options options, std::unique_ptr<PluginProcess> first)
      : options_(std::move(options)),
        plugin_(first->plugin()),
        first_(std::move(first)) {}

  static PluginProcess::Options ChildOptions(const Options& options);
  // Takes jobs until there are none or one failed.
  void Work(std::unique_ptr<PluginProcess> process, Progress& progress) const;
  absl::StatusOr<CompileOutcome> Compile(
      const CompileJob& job, std::unique_ptr<PluginProcess>& process) const;

  const Options options_;
  const nlohmann::ordered_json plugin_;
  std::unique_ptr<PluginProcess> first_;  // until Run
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_PJRT_COMPILE_RUN_H_
