// The traces of the Vidur simulator: arrived_at,num_prefill_tokens,
// num_decode_tokens, or in older files Time (or arrived_at),PromptTokenCount,
// GeneratedTokenCount. Times are seconds. Source: github.com/microsoft/vidur
// and its pull request 29.

#ifndef TIDEWHEEL_TOOLS_TRACES_VIDUR_TRACE_H_
#define TIDEWHEEL_TOOLS_TRACES_VIDUR_TRACE_H_

#include "tools/traces/csv_trace.h"

namespace tidewheel {

const CsvTraceLayout& VidurTraceLayout();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_VIDUR_TRACE_H_
