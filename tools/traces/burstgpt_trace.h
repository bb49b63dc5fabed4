// The BurstGPT traces: Timestamp,Model,Request tokens,Response tokens,
// Total tokens,Log Type, in newer files with Session ID and Elapsed time.
// Times are seconds; 0 response tokens mark a request that failed. Source:
// github.com/HPMLL/BurstGPT and its issue 11.

#ifndef TIDEWHEEL_TOOLS_TRACES_BURSTGPT_TRACE_H_
#define TIDEWHEEL_TOOLS_TRACES_BURSTGPT_TRACE_H_

#include "tools/traces/csv_trace.h"

namespace tidewheel {

const CsvTraceLayout& BurstGptTraceLayout();

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_BURSTGPT_TRACE_H_
