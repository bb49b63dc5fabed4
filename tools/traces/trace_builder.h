// TraceBuilder: rows of a trace file, in file order, to a Trace.
//
// It holds what all formats share: the rule for zero lengths, the limit on
// prompt plus output, order and origin of time, content ids, what to note. It
// knows neither CSV nor JSON; a format's reader hands it one row at a time.
//
//   1. TraceBuilder builder(file, "azure", options);
//   2. AddRow or AddRowOfBlocks for every row; errors name its line.
//   3. Finish(), once.
//
// Allocates as the trace grows. Finish is O(n log n) for rows out of order,
// else O(n).

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_BUILDER_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_BUILDER_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/traces/trace.h"
#include "tools/traces/trace_read_options.h"

namespace tidewheel {

struct TraceRow {
  int64_t line = 0;     // in the file, from 1
  int64_t time_us = 0;  // from any origin
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
};

class TraceBuilder {
 public:
  // `file` is what error texts and Trace::name call the trace.
  TraceBuilder(absl::string_view file, TraceFormat format,
               const TraceReadOptions& options);

  const std::string& file() const { return trace_.name; }

  // Adds a request whose prompt has content that no other request has.
  // Errors: InvalidArgument, naming the line, for a length of zero, more than
  // 2^31 - 1 tokens in all, or a row out of order, where options refuse it.
  absl::Status AddRow(const TraceRow& row);

  // Adds a request whose prompt is these blocks, all of `block_tokens` but the
  // last, which may be partial. Errors: as AddRow.
  // REQUIRES: blocks.size() == ceil(row.prompt_tokens / block_tokens).
  absl::Status AddRowOfBlocks(const TraceRow& row,
                              std::span<const uint64_t> block_content_ids,
                              int32_t block_tokens);

  // Counts a row that marks a failed request, for the notes.
  void SkipFailedRow(int64_t line);

  // Counts a header line that stands among the rows.
  void SkipRepeatedHeader(int64_t line);

  // The trace: rows by time (file order within one time), the first arrival at
  // 0, options applied.
  // Errors: InvalidArgument if no request is left.
  absl::StatusOr<Trace> Finish() &&;

 private:
  struct Skipped {
    int64_t count = 0;
    int64_t first_line = 0;
    void Add(int64_t line);
  };

  // Whether the row becomes a request. Errors: as AddRow.
  absl::StatusOr<bool> Admit(const TraceRow& row);
  void PushRequest(const TraceRow& row, uint32_t num_segments);
  void SortByTime();
  void SpreadTicks();
  void KeepFirst(size_t count);
  void AddNotes();
  void Note(const Skipped& skipped, absl::string_view what);

  TraceReadOptions options_;
  Trace trace_;
  int64_t latest_us_ = 0;
  Skipped failed_;
  Skipped zero_lengths_;
  Skipped repeated_headers_;
  Skipped out_of_order_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_BUILDER_H_
