// Trace: requests to replay, as read from a file or drawn by a workload.
//
// A request says when it arrives, how many tokens its prompt has and how many
// it generates. What its prompt *contains* is a list of segments: `length`
// tokens of the content `content_id`. Two prompts share a prefix exactly as
// far as their segments agree, whatever page size the simulation uses; that is
// how a trace's block ids keep their meaning when pages are smaller or larger
// than the trace's blocks. Tokens are made from segments when a request is
// submitted (see token_content.h), never stored for the whole trace.
//
// Invariants: arrival times are sorted and not negative; the lengths of a
// request's segments add up to its prompt_tokens; prompt_tokens and
// output_tokens are positive.

#ifndef TIDEWHEEL_TOOLS_TRACES_TRACE_H_
#define TIDEWHEEL_TOOLS_TRACES_TRACE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tidewheel {

// `length` tokens: token j is a function of content_id and offset + j.
struct ContentSegment {
  uint64_t content_id = 0;
  int32_t offset = 0;  // tokens into the content
  int32_t length = 0;  // tokens
};

struct TraceRequest {
  int64_t arrival_us = 0;  // since the first arrival of the trace
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  // The tokens that the request generates have this content, so that a later
  // turn of a session can hold them in its prompt.
  uint64_t output_content_id = 0;
  // Index of the request whose end this one waits for (a session's previous
  // turn), or -1. Then arrival_us counts from that end: the think time.
  int32_t after_request = -1;
  uint32_t first_segment = 0;  // into Trace::segments
  uint32_t num_segments = 0;
};

struct Trace {
  std::string name;    // file name without folder, or the workload's name
  std::string format;  // "azure", "mooncake", "vidur", "burstgpt", "built-in"
  std::vector<TraceRequest> requests;
  std::vector<ContentSegment> segments;
  // What a reader changed or left out, one sentence each, for the user to see.
  std::vector<std::string> notes;

  std::span<const ContentSegment> segments_of(const TraceRequest& r) const {
    return std::span(segments).subspan(r.first_segment, r.num_segments);
  }
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_TRACE_H_
