#include "tools/tune/tune_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/flag_values.h"
#include "tools/tune/space_file.h"

namespace tidewheel {
namespace {

constexpr int32_t kMostThreads = 1024;
constexpr int32_t kMostReplications = 100;

constexpr const char* kOwnFlags[] = {
    "--goodput",         "--percentile",
    "--space",           "--minimize",
    "--threads",         "--replications",
    "--output",          "--policy",
    "--admission",       "--watermark",
    "--no-prefix-cache", "--no-chunked-prefill",
    "--max-concurrency", "--declared-max-new-tokens"};

// The flag of each knob; the pool has two.
struct KnobFlag {
  Knob knob;
  const char* flag;
};
constexpr KnobFlag kKnobFlags[] = {
    {Knob::kChips, "--chips"},
    {Knob::kPageSize, "--page-size"},
    {Knob::kTotalNumPages, "--num-pages"},
    {Knob::kTotalNumPages, "--hbm-utilization"},
    {Knob::kMaxNumSeqs, "--max-num-seqs"},
    {Knob::kMaxNumBatchedTokens, "--max-num-batched-tokens"},
    {Knob::kAdmission, "--admission"},
    {Knob::kWatermarkPages, "--watermark"},
    {Knob::kPolicy, "--policy"},
};

// Whether `space` gives the knob values.
bool HasValues(const SearchSpace& space, Knob knob) {
  switch (knob) {
    case Knob::kChips:
      return !space.chips.empty();
    case Knob::kPageSize:
      return !space.page_size.empty();
    case Knob::kTotalNumPages:
      return !space.total_num_pages.empty() || !space.hbm_utilization.empty();
    case Knob::kMaxNumSeqs:
      return !space.max_num_seqs.empty();
    case Knob::kMaxNumBatchedTokens:
      return !space.max_num_batched_tokens.empty();
    case Knob::kAdmission:
      return !space.admission.empty();
    case Knob::kWatermarkPages:
      return !space.watermark_pages.empty() || !space.watermark.empty();
    case Knob::kPolicy:
      return !space.policy.empty();
  }
  TIDEWHEEL_CHECK(false);
}

absl::Status CheckRanges(const TuneFlags& flags) {
  if (flags.goodput.empty()) {
    return absl::InvalidArgumentError(
        "no promise to keep; give --goodput, as in --goodput ttft:500 tpot:50, "
        "or give --curve for the hit ratio of every pool size");
  }
  // Written so that NaN fails.
  if (!(flags.percentile > 0 && flags.percentile < 100)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--percentile ", flags.percentile,
        " is outside (0, 100); give the share of requests that keep every "
        "bound, as 99"));
  }
  if (flags.threads.has_value() &&
      (*flags.threads < 1 || *flags.threads > kMostThreads)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--threads ", *flags.threads, " is outside [1, ",
                     kMostThreads, "]; leave it out for all cores"));
  }
  if (flags.replications < 2 || flags.replications > kMostReplications) {
    return absl::InvalidArgumentError(
        absl::StrCat("--replications ", flags.replications, " is outside [2, ",
                     kMostReplications, "]; one run has no interval"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TuneObjective> ResolveObjective(const TuneFlags& flags,
                                               const WorkloadChoice& workload) {
  if (flags.minimize == "pages") return TuneObjective::kFewestPages;
  if (flags.minimize == "chips") return TuneObjective::kFewestChips;
  if (!flags.minimize.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--minimize \"", flags.minimize,
                     "\" is unknown; choose pages or "
                     "chips, or leave it out for the highest rate"));
  }
  if (workload.request_rate.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--request-rate ", *workload.request_rate,
        " is given, but the highest rate is what is looked for; add "
        "--minimize pages or chips, or leave the rate out"));
  }
  return TuneObjective::kHighestRate;
}

absl::Status CheckRate(const WorkloadChoice& workload) {
  if (!workload.request_rate.has_value()) return absl::OkStatus();
  const double rate = *workload.request_rate;
  constexpr double kMost = 1e9;
  if (rate > 0 && rate <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--request-rate ", rate, " is outside (0, ", kMost,
                   "]; a promise needs a finite rate"));
}

}  // namespace

void AddTuneFlags(CLI::App& command, TuneFlags& flags, SimulateFlags& shared) {
  constexpr const char* kGroup = "Search";
  const auto group = [](CLI::Option* option) { option->group(kGroup); };
  group(command.add_option("--goodput", flags.goodput,
                           "The promise, ms: ttft:500 tpot:50 e2el:2000"));
  group(command
            .add_option("--percentile", flags.percentile,
                        "Of the requests that keep every bound, at least")
            ->capture_default_str());
  group(command.add_option("--minimize", flags.minimize,
                           "pages or chips at a given rate (default: the "
                           "highest rate on the given chips)"));
  group(command.add_option("--space", flags.space_file,
                           "JSON file of the values to try (default: a space "
                           "made from model, chip and traffic)"));
  group(command
            .add_option("--replications", flags.replications,
                        "Runs with different seeds, of generated workloads")
            ->capture_default_str());
  group(command.add_option("--threads", flags.threads,
                           "Simulations at once (default: all cores)"));
  group(command.add_option("--output", flags.config_file,
                           "Write the recommended configuration, for "
                           "simulate --config"));
  group(command
            .add_option("--policy", shared.policy,
                        "fcfs or priority, for all candidates")
            ->capture_default_str());
  group(command.add_option("--admission", shared.admission,
                           "optimistic or reserve, for all candidates"));
  group(command.add_option("--watermark", shared.serving.watermark,
                           "Fraction of pages that optimistic admission "
                           "leaves, for all candidates"));
  group(command.add_flag("--no-prefix-cache", shared.no_prefix_cache,
                         "Share no pages"));
  group(command.add_flag("--no-chunked-prefill", shared.no_chunked_prefill,
                         "Run each prompt in one step, or refuse it"));
  group(command.add_option("--max-concurrency", shared.max_concurrency,
                           "Requests in flight; the next is sent when one "
                           "ends (default: no limit)"));
  group(command.add_option("--declared-max-new-tokens", shared.declared,
                           "What requests declare: N (at least), xF (times "
                           "the true length) or none (default: the true "
                           "length)"));
}

std::optional<std::string> GivenTuneFlag(const CLI::App& command) {
  for (const char* flag : kOwnFlags) {
    if (command.count(flag) > 0) return flag;
  }
  return std::nullopt;
}

absl::StatusOr<ResolvedTuneFlags> ResolveTuneFlags(
    const CLI::App& command, const TuneFlags& flags,
    const SimulateFlags& shared) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckRanges(flags));
  SimulateOptions simulate;
  TIDEWHEEL_RETURN_IF_ERROR(ResolveServer(shared, simulate));
  TIDEWHEEL_RETURN_IF_ERROR(ResolveWorkload(shared, simulate));
  ResolvedTuneFlags resolved;
  resolved.workload = simulate.workload;
  resolved.replications = flags.replications;
  TIDEWHEEL_RETURN_IF_ERROR(CheckRate(resolved.workload));
  TuneOptions& options = resolved.options;
  TIDEWHEEL_ASSIGN_OR_RETURN(options.objective,
                             ResolveObjective(flags, resolved.workload));
  options.request_rate = resolved.workload.request_rate;
  options.server.serving = simulate.serving;
  TIDEWHEEL_ASSIGN_OR_RETURN(options.server.promise.bounds,
                             ParseGoodput(flags.goodput));
  options.server.promise.percentile = flags.percentile;
  options.server.max_concurrency = shared.max_concurrency.value_or(0);
  if (!shared.declared.empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(options.server.declared,
                               ParseDeclaredTokens(shared.declared));
  }
  options.threads = flags.threads.value_or(
      static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency())));
  options.seed = resolved.workload.seed;
  for (const KnobFlag& knob : kKnobFlags) {
    if (command.count(knob.flag) > 0) resolved.pinned.push_back(knob.knob);
  }
  if (flags.space_file.empty()) return resolved;
  resolved.has_space = true;
  TIDEWHEEL_ASSIGN_OR_RETURN(options.space, ReadSpaceFile(flags.space_file));
  for (const KnobFlag& knob : kKnobFlags) {
    if (command.count(knob.flag) == 0) continue;
    if (!HasValues(options.space, knob.knob)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(knob.flag, " and ", flags.space_file, " both give ",
                     std::string(KnobName(knob.knob)), "; keep one"));
  }
  return resolved;
}

void LeaveAlone(const std::vector<Knob>& pinned, SearchSpace& space) {
  for (const Knob knob : pinned) {
    switch (knob) {
      case Knob::kChips:
        space.chips.clear();
        break;
      case Knob::kPageSize:
        space.page_size.clear();
        break;
      case Knob::kTotalNumPages:
        space.total_num_pages.clear();
        space.hbm_utilization.clear();
        space.pool_share.clear();
        break;
      case Knob::kMaxNumSeqs:
        space.max_num_seqs.clear();
        break;
      case Knob::kMaxNumBatchedTokens:
        space.max_num_batched_tokens.clear();
        break;
      case Knob::kAdmission:
        space.admission.clear();
        break;
      case Knob::kWatermarkPages:
        space.watermark_pages.clear();
        space.watermark.clear();
        break;
      case Knob::kPolicy:
        space.policy.clear();
        break;
    }
  }
}

}  // namespace tidewheel
