#include "tools/tpu_compile_command.h"

#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/command_context.h"
#include "tools/pjrt/compile_kernels.h"
#include "tools/pjrt/compile_report.h"
#include "tools/pjrt/compile_run.h"
#include "tools/pjrt/compile_shapes.h"
#include "tools/pjrt/plugin_search.h"

namespace tidewheel {
namespace {

void Append(std::vector<CompileJob> more, std::vector<CompileJob>& jobs) {
  jobs.insert(jobs.end(), std::make_move_iterator(more.begin()),
              std::make_move_iterator(more.end()));
}

absl::StatusOr<std::vector<CompileJob>> CollectJobs(
    const TpuCompileOptions& options) {
  const TpuCompileFlags& flags = options.flags;
  std::vector<CompileJob> jobs;
  if (options.configuration.has_value()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        std::vector<CompileJob> more,
        JobsOfConfiguration(*options.configuration,
                            flags.all_buckets ? ServerPrograms::kAll
                                              : ServerPrograms::kLargest));
    Append(std::move(more), jobs);
  }
  if (!flags.shapes.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        std::vector<CompileJob> more,
        ReadCompileShapes(flags.shapes,
                          options.chip.value_or(TpuGeneration::kV6e)));
    Append(std::move(more), jobs);
  }
  if (!flags.kernels.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(std::vector<CompileJob> more,
                               JobsOfKernels(flags.kernels, options.chip));
    Append(std::move(more), jobs);
  }
  return jobs;
}

// An empty path is mostly an unset variable of a script, and would have nothing
// compiled and nothing wrong.
std::string RefuseEmpty(const std::string& path) {
  return path.empty() ? "the path is empty; name a file or folder that is there"
                      : "";
}

// Says what failed; returns the exit code.
int Fail(const absl::Status& status, std::FILE* err) {
  const bool died = absl::IsAborted(status);
  std::fprintf(err, "tidewheel check --tpu-compile: %s%s\n",
               died ? "the compiler's process " : "",
               std::string(status.message()).c_str());
  return died || absl::IsDeadlineExceeded(status) ? 1 : kExitBadInput;
}

}  // namespace

void AddTpuCompileFlags(CLI::App& command, CLI::Option_group& what,
                        TpuCompileFlags& flags) {
  CLI::Option* const compile =
      command.add_flag("--tpu-compile", flags.tpu_compile,
                       "Compile with libtpu, without a TPU: the programs of "
                       "--model, --shapes or --kernels");
  what.add_option("--shapes", flags.shapes,
                  "JSON list of shapes to compile programs for")
      ->check(RefuseEmpty)
      ->needs(compile);
  what.add_option("--kernels", flags.kernels,
                  "Folder of exported kernels to compile, alone or with "
                  "--model or --shapes (those of --chip, if it is given)")
      ->check(RefuseEmpty)
      ->needs(compile);
  command
      .add_option("--libtpu", flags.libtpu,
                  "Path of libtpu.so (default: TPU_LIBRARY_PATH, then the "
                  "usual places)")
      ->needs(compile);
  command
      .add_flag("--all-buckets", flags.all_buckets,
                "Compile for every bucket of tokens, not the largest ones")
      ->needs(compile);
  command
      .add_option("--timeout", flags.timeout_s,
                  "Seconds that a compile may take")
      ->check(CLI::Range(1, 86'000))
      ->capture_default_str()
      ->needs(compile);
  command
      .add_option("--jobs", flags.jobs,
                  "Compilers at a time; each may take 0.7 GiB")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->needs(compile);
}

int RunTpuCompile(const TpuCompileOptions& options, std::FILE* out,
                  std::FILE* err) {
  const absl::StatusOr<std::vector<CompileJob>> jobs = CollectJobs(options);
  if (!jobs.ok()) return Fail(jobs.status(), err);
  const absl::StatusOr<FoundPlugin> plugin =
      FindPjrtPlugin(options.flags.libtpu, "--libtpu");
  if (!plugin.ok()) return Fail(plugin.status(), err);
  const absl::StatusOr<std::unique_ptr<CompileRun>> run =
      CompileRun::Start({.plugin = plugin->path,
                         .executable = options.executable,
                         .timeout_s = options.flags.timeout_s,
                         .children = options.flags.jobs});
  if (!run.ok()) return Fail(run.status(), err);
  CompileReport report(options.json, out);
  report.Begin((*run)->plugin());
  const absl::Status status = (*run)->Run(
      *jobs, [&report](const CompileJob& job, const CompileOutcome& outcome) {
        report.Add(job, outcome);
      });
  report.End();
  return status.ok() ? report.exit_code() : Fail(status, err);
}

}  // namespace tidewheel
