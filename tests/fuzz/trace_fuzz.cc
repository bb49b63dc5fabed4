// libFuzzer target: any bytes are a trace that keeps its invariants, or an
// error that says so. The first two bytes choose the options.
//
//   build/fuzz/tests/fuzz/trace_fuzz -max_total_time=300 corpus/

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "tools/traces/trace_check.h"
#include "tools/traces/trace_reader.h"

namespace {

void Require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

tidewheel::TraceReadOptions OptionsOf(uint8_t first, uint8_t second) {
  tidewheel::TraceReadOptions options;
  options.format = static_cast<tidewheel::TraceFormat>(first % 5);
  options.zero_lengths = (second & 1) != 0 ? tidewheel::ZeroLengths::kSkip
                                           : tidewheel::ZeroLengths::kRefuse;
  options.unsorted_rows = (second & 2) != 0 ? tidewheel::UnsortedRows::kRefuse
                                            : tidewheel::UnsortedRows::kSort;
  options.spread_ticks = (second & 4) != 0;
  options.max_requests = second >> 4;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const tidewheel::TraceReadOptions options = OptionsOf(data[0], data[1]);
  const absl::string_view text(reinterpret_cast<const char*>(data) + 2,
                               size - 2);
  const absl::StatusOr<tidewheel::Trace> trace =
      tidewheel::ParseTrace("fuzz.trace", text, options);
  if (!trace.ok()) {
    const std::string message(trace.status().message());
    Require(trace.status().code() == absl::StatusCode::kInvalidArgument &&
                absl::StartsWith(message, "fuzz.trace:") &&
                message.size() < 2000,
            "bad error: " + message);
    return 0;
  }
  Require(!trace->requests.empty(), "a trace without requests");
  Require(
      options.max_requests == 0 ||
          static_cast<int64_t>(trace->requests.size()) <= options.max_requests,
      "more requests than asked for");
  Require(options.format == tidewheel::TraceFormat::kDetect ||
              trace->format == tidewheel::TraceFormatName(options.format),
          "another format than the one forced: " + trace->format);
  const absl::Status status = tidewheel::CheckTrace(*trace);
  Require(status.ok(), status.ToString());
  return 0;
}
