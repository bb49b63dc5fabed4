#include "tools/traces/burstgpt_trace.h"

namespace tidewheel {
namespace {

constexpr absl::string_view kTimeColumns[] = {"timestamp"};
constexpr absl::string_view kPromptColumns[] = {"requesttokens"};
constexpr absl::string_view kOutputColumns[] = {"responsetokens"};

}  // namespace

const CsvTraceLayout& BurstGptTraceLayout() {
  static constexpr CsvTraceLayout kLayout = {
      .format = TraceFormat::kBurstGpt,
      .time_columns = kTimeColumns,
      .prompt_columns = kPromptColumns,
      .output_columns = kOutputColumns,
      .time_kind = CsvTimeKind::kSeconds,
      .zero_output_is_failure = true,
  };
  return kLayout;
}

}  // namespace tidewheel
