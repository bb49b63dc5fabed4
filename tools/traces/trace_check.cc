#include "tools/traces/trace_check.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/traces/content_ids.h"

namespace tidewheel {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();

absl::Status Broken(size_t request, absl::string_view what) {
  return absl::InternalError(absl::StrCat("request ", request, ": ", what));
}

// Tokens that each output content has so far, by content id.
using Outputs = absl::flat_hash_map<uint64_t, int32_t>;

absl::Status CheckSegments(const Trace& trace, size_t index,
                           const Outputs& outputs) {
  const TraceRequest& request = trace.requests[index];
  const size_t end = size_t{request.first_segment} + request.num_segments;
  if (end > trace.segments.size()) {
    return Broken(index, absl::StrCat("segments end at ", end, " of ",
                                      trace.segments.size()));
  }
  int64_t tokens = 0;
  for (const ContentSegment& segment : trace.segments_of(request)) {
    if (segment.length <= 0 || segment.offset < 0) {
      return Broken(index, absl::StrCat("segment of ", segment.length,
                                        " tokens at ", segment.offset));
    }
    tokens += segment.length;
    if (SpaceOf(segment.content_id) != ContentSpace::kOutput) continue;
    const auto output = outputs.find(segment.content_id);
    if (output == outputs.end() ||
        int64_t{segment.offset} + segment.length > output->second) {
      return Broken(index, "prompt holds output that is not generated before");
    }
  }
  if (tokens == request.prompt_tokens) return absl::OkStatus();
  return Broken(index, absl::StrCat("segments add up to ", tokens, " of ",
                                    request.prompt_tokens, " tokens"));
}

absl::Status CheckArrival(const TraceRequest& request, size_t index,
                          int64_t latest_us) {
  if (request.after_request < -1 ||
      request.after_request >= static_cast<int64_t>(index)) {
    return Broken(index,
                  absl::StrCat("waits for request ", request.after_request));
  }
  const int64_t earliest_us = request.after_request == -1 ? latest_us : 0;
  if (request.arrival_us >= earliest_us) return absl::OkStatus();
  return Broken(index, absl::StrCat("arrives at ", request.arrival_us,
                                    " us, before ", earliest_us, " us"));
}

}  // namespace

absl::Status CheckTrace(const Trace& trace) {
  Outputs outputs;
  int64_t latest_us = 0;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    if (request.prompt_tokens <= 0 || request.output_tokens <= 0 ||
        int64_t{request.prompt_tokens} + request.output_tokens > kMaxTokens) {
      return Broken(i, absl::StrCat("lengths ", request.prompt_tokens, " + ",
                                    request.output_tokens));
    }
    if (i == 0 && (request.arrival_us != 0 || request.after_request != -1)) {
      return Broken(i, "is the first but does not arrive at 0");
    }
    TIDEWHEEL_RETURN_IF_ERROR(CheckArrival(request, i, latest_us));
    if (request.after_request == -1) latest_us = request.arrival_us;
    TIDEWHEEL_RETURN_IF_ERROR(CheckSegments(trace, i, outputs));
    const uint64_t content = request.output_content_id;
    if (SpaceOf(content) != ContentSpace::kOutput ||
        !outputs.try_emplace(content, request.output_tokens).second) {
      return Broken(i, "output content is not its own");
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
