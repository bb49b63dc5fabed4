#include "tools/tune/curve_flags.h"

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

constexpr int32_t kMostChecks = 1000;

// What describes a server, and changes nothing where no server is asked for.
constexpr const char* kServerFlags[] = {
    "--chip",          "--chips",
    "--kv-dtype",      "--hbm-utilization",
    "--max-num-seqs",  "--cost-model",
    "--no-smem-limit", "--max-num-batched-tokens"};

absl::Status CheckFlags(const CLI::App& command, const CurveFlags& flags) {
  if (!flags.curve) {
    return absl::InvalidArgumentError(
        "nothing to do; give --curve for the hit ratio of every pool size");
  }
  if (flags.verify < 0 || flags.verify > kMostChecks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--verify ", flags.verify, " is outside [0, ", kMostChecks,
                     "]; give the number of full simulations to run"));
  }
  if (command.count("--model") > 0 || flags.timed) return absl::OkStatus();
  for (const char* name : kServerFlags) {
    if (command.count(name) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " describes a server and has no effect here; name its "
                     "--model too, or leave the flag out"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddCurveFlags(CLI::App& command, CurveFlags& flags) {
  constexpr const char* kGroup = "Curve";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  group(command.add_flag("--curve", flags.curve,
                         "The prefix hit ratio of every pool size, from one "
                         "pass over the workload"));
  group(command.add_flag("--timed", flags.timed,
                         "Requests overlap as on the server: pages that "
                         "running ones hold take room (default: one at a "
                         "time)"));
  group(command
            .add_option("--sizes", flags.sizes,
                        "Pool sizes to show besides those chosen, in pages, "
                        "the null page included: 1000,2000")
            ->delimiter(','));
  group(command.add_option("--verify", flags.verify,
                           "Compare the curve with so many full simulations"));
  group(command.add_option("--save-curve", flags.curve_file,
                           "Write every step of the curve as CSV"));
  group(command.add_option("--save-result", flags.result_file,
                           "Write the figures as JSON"));
  group(command.add_option("--report", flags.report_file,
                           "Write figures and charts as one HTML page that "
                           "needs no network"));
  group(command.add_flag("--quiet", flags.quiet,
                         "Print the figures alone: no header, no progress"));
  AddWorkloadFlags(command, flags.shared);
  AddServerFlags(command, flags.shared);
}

absl::StatusOr<ResolvedCurveFlags> ResolveCurveFlags(const CLI::App& command,
                                                     const CurveFlags& flags) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckFlags(command, flags));
  SimulateOptions shared;
  TIDEWHEEL_RETURN_IF_ERROR(ResolveServer(flags.shared, shared));
  TIDEWHEEL_RETURN_IF_ERROR(ResolveWorkload(flags.shared, shared));
  ResolvedCurveFlags resolved;
  resolved.workload = shared.workload;
  CurveOptions& curve = resolved.curve;
  curve.serving = shared.serving;
  curve.has_server = command.count("--model") > 0 || flags.timed;
  curve.concurrency =
      flags.timed ? Concurrency::kAsTheyCome : Concurrency::kOneAtATime;
  curve.sizes = flags.sizes;
  curve.num_checks = flags.verify;
  return resolved;
}

}  // namespace tidewheel
