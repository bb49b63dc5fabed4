#include "tools/report/trace_events.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tidewheel {
namespace {

// Names of traces may hold any bytes of a path.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string On(TraceEvents::Track track) {
  return absl::StrCat("\"pid\":", track.process, ",\"tid\":", track.thread);
}

}  // namespace

TraceArgs& TraceArgs::AddJson(absl::string_view name, absl::string_view json) {
  absl::StrAppend(&members_, members_.empty() ? "" : ",", Quoted(name), ":",
                  json);
  return *this;
}

TraceArgs& TraceArgs::Add(absl::string_view name, int64_t value) {
  return AddJson(name, absl::StrCat(value));
}

TraceArgs& TraceArgs::Add(absl::string_view name, double value) {
  return AddJson(name, absl::StrFormat("%.4f", value));
}

TraceArgs& TraceArgs::Add(absl::string_view name, absl::string_view value) {
  return AddJson(name, Quoted(value));
}

TraceEvents::TraceEvents(const TraceArgs& about, OutputFile& file)
    : file_(file) {
  file_.Write(absl::StrCat("{\"displayTimeUnit\":\"ms\",\n\"otherData\":",
                           about.json(), ",\n\"traceEvents\":["));
}

void TraceEvents::Write(absl::string_view event) {
  file_.Write(absl::StrCat(is_first_ ? "\n" : ",\n", event));
  is_first_ = false;
}

void TraceEvents::NameProcess(int32_t process, absl::string_view name) {
  Write(absl::StrCat("{\"ph\":\"M\",\"name\":\"process_name\",",
                     On({process, 0}), ",\"args\":{\"name\":", Quoted(name),
                     "}}"));
}

void TraceEvents::NameThread(Track track, absl::string_view name) {
  Write(absl::StrCat("{\"ph\":\"M\",\"name\":\"thread_name\",", On(track),
                     ",\"args\":{\"name\":", Quoted(name), "}}"));
  Write(absl::StrCat("{\"ph\":\"M\",\"name\":\"thread_sort_index\",", On(track),
                     ",\"args\":{\"sort_index\":", track.thread, "}}"));
}

void TraceEvents::Slice(Track track, Span span, absl::string_view category,
                        absl::string_view name, const TraceArgs& args) {
  Write(absl::StrCat("{\"ph\":\"X\",\"name\":", Quoted(name),
                     ",\"cat\":", Quoted(category), ",", On(track), ",\"ts\":",
                     span.start_us, ",\"dur\":", span.end_us - span.start_us,
                     ",\"args\":", args.json(), "}"));
}

void TraceEvents::Instant(Track track, int64_t at_us, absl::string_view name,
                          const TraceArgs& args) {
  Write(absl::StrCat("{\"ph\":\"i\",\"s\":\"t\",\"name\":", Quoted(name), ",",
                     On(track), ",\"ts\":", at_us, ",\"args\":", args.json(),
                     "}"));
}

void TraceEvents::Counter(int32_t process, int64_t at_us,
                          absl::string_view name, const TraceArgs& values) {
  Write(absl::StrCat("{\"ph\":\"C\",\"name\":", Quoted(name), ",",
                     On({process, 0}), ",\"ts\":", at_us,
                     ",\"args\":", values.json(), "}"));
}

void TraceEvents::Finish() { file_.Write("\n]}\n"); }

}  // namespace tidewheel
