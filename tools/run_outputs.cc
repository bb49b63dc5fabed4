#include "tools/run_outputs.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/report/number_text.h"
#include "tools/report/request_csv.h"
#include "tools/report/result_json.h"
#include "tools/report/run_report.h"
#include "tools/report/step_csv.h"

namespace tidewheel {
namespace {

absl::Status OpenIfNamed(const std::string& path,
                         std::optional<OutputFile>& file) {
  if (path.empty()) return absl::OkStatus();
  TIDEWHEEL_ASSIGN_OR_RETURN(file, OutputFile::Open(path));
  return absl::OkStatus();
}

int64_t CountOf(const Trace& trace) {
  return static_cast<int64_t>(trace.requests.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunOutputs>> RunOutputs::Open(
    const SimulateOptions& options, const Trace& trace) {
  auto outputs = absl::WrapUnique(new RunOutputs());
  outputs->timeline_requests_ = options.timeline_requests;
  if (!options.timeline_file.empty() &&
      options.timeline_requests.CountOf(CountOf(trace)) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--timeline-requests names none of the ", CountOf(trace),
                     " requests of ", trace.name,
                     "; they are numbered from 0 to ", CountOf(trace) - 1));
  }
  TIDEWHEEL_RETURN_IF_ERROR(OpenIfNamed(options.result_file, outputs->result_));
  TIDEWHEEL_RETURN_IF_ERROR(
      OpenIfNamed(options.request_file, outputs->requests_));
  TIDEWHEEL_RETURN_IF_ERROR(OpenIfNamed(options.step_file, outputs->steps_));
  TIDEWHEEL_RETURN_IF_ERROR(
      OpenIfNamed(options.timeline_file, outputs->timeline_file_));
  TIDEWHEEL_RETURN_IF_ERROR(OpenIfNamed(options.report_file, outputs->report_));
  return outputs;
}

void RunOutputs::Observe(const Trace& trace, const Scheduler& scheduler,
                         SimulationOptions& simulation) {
  if (steps_.has_value()) WriteStepCsvHeader(*steps_);
  if (timeline_file_.has_value()) {
    timeline_.emplace(trace, timeline_requests_, scheduler, *timeline_file_);
    simulation.on_request = [this](const RequestEvent& event) {
      timeline_->OnRequest(event);
    };
  }
  if (timeline_.has_value() || report_.has_value()) {
    simulation.on_idle = [this](const IdleRecord& idle) {
      if (timeline_.has_value()) timeline_->OnIdle(idle);
      if (report_.has_value()) series_.OnIdle(idle);
    };
  }
  if (steps_.has_value() || timeline_.has_value() || report_.has_value()) {
    simulation.on_step = [this](const StepRecord& step) {
      if (steps_.has_value()) WriteStepCsvLine(step, *steps_);
      if (timeline_.has_value()) timeline_->OnStep(step);
      if (report_.has_value()) series_.OnStep(step);
    };
  }
}

std::string RunOutputs::Notes(const Trace& trace) const {
  if (!timeline_file_.has_value()) return "";
  const int64_t shown = timeline_requests_.CountOf(CountOf(trace));
  if (shown == CountOf(trace)) return "";
  return absl::StrCat("The timeline shows ", WithThousands(shown), " of ",
                      WithThousands(CountOf(trace)),
                      " requests; --timeline-requests chooses others.\n");
}

absl::Status RunOutputs::Write(const SimulationRun& run, int64_t now_us) {
  if (result_.has_value()) result_->Write(ResultJson(run));
  if (requests_.has_value()) WriteRequestCsv(run.trace, run.result, *requests_);
  if (timeline_.has_value()) timeline_->Finish(now_us);
  if (report_.has_value()) report_->Write(RunReport(run, series_));
  for (std::optional<OutputFile>* file :
       {&result_, &requests_, &steps_, &timeline_file_, &report_}) {
    if (file->has_value()) TIDEWHEEL_RETURN_IF_ERROR((*file)->Close());
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
