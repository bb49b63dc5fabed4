// The trace formats that the reader knows, and their names.

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_FORMAT_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_FORMAT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

enum class TraceFormat { kDetect, kAzure, kMooncake, kVidur, kBurstGpt };

// "detect", "azure", "mooncake", "vidur" or "burstgpt": what Trace::format
// holds, and what a flag takes.
absl::string_view TraceFormatName(TraceFormat format);

// The format of that name, in any case.
// Errors: InvalidArgument for another name; the text lists the names.
absl::StatusOr<TraceFormat> TraceFormatFromName(absl::string_view name);

// One line that tells how to recognise each format, for error texts.
std::string DescribeTraceFormats();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_FORMAT_H_
