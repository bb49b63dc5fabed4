// A simulation's requests as CSV, one line each in the trace's order.
//
// The columns arrived_at, num_prefill_tokens and num_decode_tokens (the true
// output length) are those of a Vidur trace, so the file replays as one:
// `tidewheel simulate --trace FILE`. Times are seconds with all six digits, so
// a replay sees the same microseconds. Which prompts shared prefixes is lost.

#ifndef TIDEWHEEL_TOOLS_REPORT_REQUEST_CSV_H_
#define TIDEWHEEL_TOOLS_REPORT_REQUEST_CSV_H_

#include "tools/output_file.h"
#include "tools/simulation_result.h"
#include "tools/traces/trace.h"

namespace tidewheel {

void WriteRequestCsv(const Trace& trace, const SimulationResult& result,
                     OutputFile& file);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_REQUEST_CSV_H_
