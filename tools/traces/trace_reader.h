// Reading a trace file: which format it is, and the Trace that it holds.
//
// The format is told from the content, never from the file's name: a first
// byte '{' is Mooncake's JSON lines, else the header names the columns of one
// CSV format (DescribeTraceFormats lists them). A UTF-8 byte order mark, LF or
// CRLF (in CSV also CR), blank lines and a last line without an end are read.
//
// What can not be read is refused with file, line, value and remedy; nothing
// is guessed. The text calls the file by its name without folders, as Trace
// does. What was read but changed (rows sorted, failed requests left out) is
// in Trace::notes. The rule for lengths of zero is in trace_read_options.h.
//
// Every request has an output content of its own, and in formats without
// block ids a prompt content of its own; no id of one kind is one of another.

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_READER_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_READER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/traces/trace.h"
#include "tools/traces/trace_read_options.h"

namespace tidewheel {

// The trace in the file at `path`.
// Errors: NotFound if there is no such file; PermissionDenied or Unavailable
// if it can not be read; InvalidArgument for a folder, and as ParseTrace.
absl::StatusOr<Trace> ReadTrace(const std::string& path,
                                const TraceReadOptions& options);

// The trace in `bytes`, which error texts call `name`.
// Errors: InvalidArgument for content that is no trace, or that options
// refuse, and for max_requests < 0.
absl::StatusOr<Trace> ParseTrace(absl::string_view name,
                                 absl::string_view bytes,
                                 const TraceReadOptions& options);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_READER_H_
