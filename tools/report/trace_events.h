// TraceEvents: writes a file in the Trace Event Format, which Perfetto and
// Chromium's tracing page read.
//
// Lifecycle: create, write events in any order, Finish. Events go to the file
// as they come and nothing is kept. Times are microseconds. A process is a
// group of tracks, a thread one track of it.
//
// Single-threaded.

#ifndef TIDEWHEEL_TOOLS_REPORT_TRACE_EVENTS_H_
#define TIDEWHEEL_TOOLS_REPORT_TRACE_EVENTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "tools/output_file.h"

namespace tidewheel {

// What a viewer shows of an event besides its name.
class TraceArgs {
 public:
  TraceArgs& Add(absl::string_view name, int64_t value);
  TraceArgs& Add(absl::string_view name, double value);
  TraceArgs& Add(absl::string_view name, absl::string_view value);

  // A JSON object.
  std::string json() const { return "{" + members_ + "}"; }

 private:
  TraceArgs& AddJson(absl::string_view name, absl::string_view json);

  std::string members_;
};

class TraceEvents {
 public:
  struct Track {
    int32_t process = 0;
    int32_t thread = 0;
  };
  struct Span {
    int64_t start_us = 0;
    int64_t end_us = 0;
  };

  // `about` is for whoever opens the file in an editor. `file` outlives this.
  TraceEvents(const TraceArgs& about, OutputFile& file);

  void NameProcess(int32_t process, absl::string_view name);
  // Tracks are shown in the order of their threads.
  void NameThread(Track track, absl::string_view name);
  void Slice(Track track, Span span, absl::string_view category,
             absl::string_view name, const TraceArgs& args);
  void Instant(Track track, int64_t at_us, absl::string_view name,
               const TraceArgs& args);
  // A counter track for each of the values, which hold until the next.
  void Counter(int32_t process, int64_t at_us, absl::string_view name,
               const TraceArgs& values);
  // Nothing may be written after it.
  void Finish();

 private:
  void Write(absl::string_view event);

  OutputFile& file_;
  bool is_first_ = true;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_TRACE_EVENTS_H_
