#include "tools/report/request_csv.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

absl::string_view Outcome(const RequestRecord& record) {
  switch (record.state) {
    case RequestRecord::State::kNotSent:
      return "not_sent";
    case RequestRecord::State::kUnfinished:
      return "unfinished";
    case RequestRecord::State::kRefused:
      return "refused";
    case RequestRecord::State::kEnded:
      return record.is_complete() ? "completed" : "ended";
  }
  return "unknown";
}

absl::string_view Reason(const RequestRecord& record) {
  switch (record.state) {
    case RequestRecord::State::kRefused:
      return RefusalName(record.refusal);
    case RequestRecord::State::kEnded:
      return FinishReasonName(record.finish_reason);
    default:
      return "";
  }
}

}  // namespace

void WriteRequestCsv(const Trace& trace, const SimulationResult& result,
                     OutputFile& file) {
  file.Write(
      "request,arrived_at,num_prefill_tokens,num_decode_tokens,sent_at,"
      "admitted_at,first_token_at,ended_at,generated_tokens,cached_tokens,"
      "preemptions,outcome,reason\n");
  for (size_t i = 0; i < result.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    const RequestRecord& record = result.requests[i];
    file.Write(absl::StrCat(
        i, ",", SecondsText(record.arrival_us), ",", request.prompt_tokens, ",",
        request.output_tokens, ",", SecondsText(record.sent_us), ",",
        SecondsText(record.admitted_us), ",",
        SecondsText(record.first_token_us), ",", SecondsText(record.ended_us),
        ",", record.generated_tokens, ",", record.cached_tokens, ",",
        record.preemptions, ",", Outcome(record), ",", Reason(record), "\n"));
  }
}

}  // namespace tidewheel
