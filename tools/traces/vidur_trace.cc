#include "tools/traces/vidur_trace.h"

namespace tidewheel {
namespace {

constexpr absl::string_view kTimeColumns[] = {"arrivedat", "time"};
constexpr absl::string_view kPromptColumns[] = {"numprefilltokens",
                                                "prompttokencount"};
constexpr absl::string_view kOutputColumns[] = {"numdecodetokens",
                                                "generatedtokencount"};

}  // namespace

const CsvTraceLayout& VidurTraceLayout() {
  static constexpr CsvTraceLayout kLayout = {
      .format = TraceFormat::kVidur,
      .time_columns = kTimeColumns,
      .prompt_columns = kPromptColumns,
      .output_columns = kOutputColumns,
      .time_kind = CsvTimeKind::kSeconds,
      .zero_output_is_failure = false,
  };
  return kLayout;
}

}  // namespace tidewheel
