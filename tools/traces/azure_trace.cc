#include "tools/traces/azure_trace.h"

namespace tidewheel {
namespace {

constexpr absl::string_view kTimeColumns[] = {"timestamp"};
constexpr absl::string_view kPromptColumns[] = {"contexttokens"};
constexpr absl::string_view kOutputColumns[] = {"generatedtokens"};

}  // namespace

const CsvTraceLayout& AzureTraceLayout() {
  static constexpr CsvTraceLayout kLayout = {
      .format = TraceFormat::kAzure,
      .time_columns = kTimeColumns,
      .prompt_columns = kPromptColumns,
      .output_columns = kOutputColumns,
      .time_kind = CsvTimeKind::kDateTime,
      .zero_output_is_failure = false,
  };
  return kLayout;
}

}  // namespace tidewheel
