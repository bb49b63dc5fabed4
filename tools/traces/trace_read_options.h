// What a caller may choose when a trace is read.
//
// The rule for lengths of zero, the same in every format: a row with 0 prompt
// or 0 output tokens is no request that could run, so it is an error that
// names file, line and column, unless `zero_lengths` is kSkip: then the row is
// left out, and a note counts what was left out. One exception that the format
// itself defines: in BurstGPT 0 response tokens mark a request that failed, so
// those rows are left out and counted under either choice.

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_READ_OPTIONS_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_READ_OPTIONS_H_

#include <cstdint>

#include "tools/traces/trace_format.h"

namespace tidewheel {

enum class ZeroLengths { kRefuse, kSkip };

// Rows that stand before an earlier arrival. kSort keeps the file's order
// among rows of one time, and a note counts the rows that moved.
enum class UnsortedRows { kSort, kRefuse };

struct TraceReadOptions {
  TraceFormat format = TraceFormat::kDetect;
  ZeroLengths zero_lengths = ZeroLengths::kRefuse;
  UnsortedRows unsorted_rows = UnsortedRows::kSort;
  // Spreads the requests of one timestamp evenly over the gap to the next
  // timestamp, in file order (the last timestamp takes the gap before it). For
  // traces whose clock ticks slowly: Mooncake's conversation trace has 12,031
  // requests on 1,180 ticks of 3 s.
  bool spread_ticks = false;
  // Keeps the first so many requests in order of arrival; 0 keeps all. The
  // whole file is read and checked all the same.
  int64_t max_requests = 0;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_READ_OPTIONS_H_
