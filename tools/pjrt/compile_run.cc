#include "tools/pjrt/compile_run.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

CompileOutcome OutcomeOfAnswer(const Json& answer) {
  CompileOutcome outcome;
  outcome.seconds = answer.value("seconds", 0.0);
  outcome.peak_resident_bytes = answer.value("peak_resident_bytes", int64_t{0});
  const absl::Status error = ErrorOf(answer);
  if (!error.ok()) {
    outcome.fate = CompileOutcome::Fate::kRefused;
    outcome.text = absl::StrCat(absl::StatusCodeToString(error.code()), ": ",
                                error.message());
    return outcome;
  }
  PjrtCompiledMemoryStats& memory = outcome.memory;
  memory.argument_bytes = answer.value("argument_bytes", int64_t{0});
  memory.output_bytes = answer.value("output_bytes", int64_t{0});
  memory.alias_bytes = answer.value("alias_bytes", int64_t{0});
  memory.temp_bytes = answer.value("temp_bytes", int64_t{0});
  memory.generated_code_bytes =
      answer.value("generated_code_bytes", int64_t{0});
  return outcome;
}

}  // namespace

// Shared by the threads of a run.
struct CompileRun::Progress {
  Progress(std::span<const CompileJob> all, const OnDone& told)
      : jobs(all), on_done(told), outcomes(all.size()) {}

  const std::span<const CompileJob> jobs;
  const OnDone& on_done;
  std::mutex mutex;
  size_t next_job = 0;
  size_t num_told = 0;
  std::vector<std::optional<CompileOutcome>> outcomes;
  absl::Status failure;

  // The next job's index, or none if there is none or one failed.
  std::optional<size_t> Take() {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!failure.ok() || next_job == jobs.size()) return std::nullopt;
    return next_job++;
  }

  void Done(size_t index, CompileOutcome outcome) {
    const std::lock_guard<std::mutex> lock(mutex);
    outcomes[index] = std::move(outcome);
    for (; num_told < jobs.size() && outcomes[num_told].has_value();
         ++num_told) {
      on_done(jobs[num_told], *outcomes[num_told]);
    }
  }

  void Fail(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    failure.Update(status);
  }
};

PluginProcess::Options CompileRun::ChildOptions(const Options& options) {
  return {.plugin = options.plugin,
          .executable = options.executable,
          .without_devices = true,
          .load_timeout_ms = options.timeout_s * 1000};
}

absl::StatusOr<std::unique_ptr<CompileRun>> CompileRun::Start(
    const Options& options) {
  TIDEWHEEL_ASSIGN_OR_RETURN(std::unique_ptr<PluginProcess> first,
                             PluginProcess::Start(ChildOptions(options)));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      const Json topologies,
      first->Ask({{"request", "topologies"}}, "", options.timeout_s * 1000));
  const auto chips = topologies.find("chips");
  if (chips == topologies.end() || chips->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plugin '", options.plugin,
                     "' compiles for no TPU; give the path of libtpu.so"));
  }
  return std::unique_ptr<CompileRun>(new CompileRun(options, std::move(first)));
}

absl::Status CompileRun::Run(std::span<const CompileJob> jobs,
                             const OnDone& on_done) {
  Progress progress(jobs, on_done);
  const size_t num_children = std::min(
      jobs.size(), static_cast<size_t>(std::max(1, options_.children)));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_children; ++i) {
    threads.emplace_back(
        [this, &progress, process = std::move(first_)]() mutable {
          Work(std::move(process), progress);
        });
  }
  for (std::thread& thread : threads) thread.join();
  return progress.failure;
}

void CompileRun::Work(std::unique_ptr<PluginProcess> process,
                      Progress& progress) const {
  while (const std::optional<size_t> index = progress.Take()) {
    absl::StatusOr<CompileOutcome> outcome =
        Compile(progress.jobs[*index], process);
    if (!outcome.ok()) return progress.Fail(outcome.status());
    progress.Done(*index, *std::move(outcome));
  }
}

absl::StatusOr<CompileOutcome> CompileRun::Compile(
    const CompileJob& job, std::unique_ptr<PluginProcess>& process) const {
  using Clock = std::chrono::steady_clock;
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string program, job.read());
  if (process == nullptr) {
    TIDEWHEEL_ASSIGN_OR_RETURN(process,
                               PluginProcess::Start(ChildOptions(options_)));
  }
  const Json request = {
      {"request", "compile"},
      {"chip", std::string(TpuGenerationName(job.generation))},
      {"program_bytes", program.size()}};
  const Clock::time_point start = Clock::now();
  const absl::StatusOr<Json> answer =
      process->Ask(request, program, options_.timeout_s * 1000);
  if (answer.ok()) return OutcomeOfAnswer(*answer);
  process = nullptr;
  CompileOutcome outcome;
  outcome.fate = absl::IsDeadlineExceeded(answer.status())
                     ? CompileOutcome::Fate::kTimedOut
                     : CompileOutcome::Fate::kDied;
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  outcome.text =
      absl::StrCat("the compiler's process ", answer.status().message());
  return outcome;
}

}  // namespace tidewheel
