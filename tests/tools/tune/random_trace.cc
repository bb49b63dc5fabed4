#include "tests/tools/tune/random_trace.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tools/traces/content_ids.h"

namespace tidewheel {
namespace {

using Content = std::vector<ContentSegment>;

class TraceDrawer {
 public:
  TraceDrawer(uint64_t seed, int32_t page_size)
      : random_(seed), page_size_(page_size) {}

  Trace Draw() {
    trace_.name = "random";
    const int32_t requests = Below(25) + 5;
    // How often nothing is generated beyond the first token, in per cent: with
    // 100, no last page of a prompt of full pages is ever partial.
    single_token_percent_ = Below(3) * 50;
    whole_page_percent_ = Below(3) * 50;
    for (int32_t i = 0; i < requests; ++i) AddRequest();
    return std::move(trace_);
  }

 private:
  int32_t Below(int32_t end) {
    return static_cast<int32_t>(random_() % static_cast<uint64_t>(end));
  }

  void AddRequest() {
    // The first tokens of an earlier sequence, output included, or nothing.
    Content content;
    if (!known_.empty() && Below(5) > 0) {
      const Content& earlier = known_[static_cast<size_t>(
          Below(static_cast<int32_t>(known_.size())))];
      int32_t keep = Below(Length(earlier) + 1);
      if (Below(3) > 0) keep = Length(earlier);
      content = First(earlier, keep);
    }
    int32_t more = Below(3 * page_size_);
    if (Below(2) == 0) more = 0;
    if (Length(content) + more == 0) more = 1;
    if (Below(100) < whole_page_percent_) {
      more += (page_size_ - (Length(content) + more) % page_size_) % page_size_;
    }
    if (more > 0) {
      // One of few blocks, so that prompts also meet without a common history.
      content.push_back(
          {ContentId(ContentSpace::kBlock, static_cast<uint64_t>(Below(3))),
           Below(2), more});
    }
    const int32_t output =
        Below(100) < single_token_percent_ ? 1 : 1 + Below(2 * page_size_);
    Push(content, output);
  }

  void Push(const Content& content, int32_t output) {
    const uint64_t index = trace_.requests.size();
    TraceRequest request;
    request.arrival_us = static_cast<int64_t>(index) * 1'000'000;
    request.prompt_tokens = Length(content);
    request.output_tokens = output;
    request.output_content_id = ContentId(ContentSpace::kOutput, index);
    request.first_segment = static_cast<uint32_t>(trace_.segments.size());
    request.num_segments = static_cast<uint32_t>(content.size());
    trace_.segments.insert(trace_.segments.end(), content.begin(),
                           content.end());
    trace_.requests.push_back(request);
    known_.push_back(content);
    known_.back().push_back({request.output_content_id, 0, output});
  }

  static int32_t Length(const Content& content) {
    int32_t length = 0;
    for (const ContentSegment& segment : content) length += segment.length;
    return length;
  }

  static Content First(const Content& content, int32_t tokens) {
    Content first;
    for (const ContentSegment& segment : content) {
      const int32_t length = std::min(segment.length, tokens);
      if (length == 0) break;
      first.push_back({segment.content_id, segment.offset, length});
      tokens -= length;
    }
    return first;
  }

  std::mt19937_64 random_;
  int32_t page_size_;
  int32_t single_token_percent_ = 0;
  int32_t whole_page_percent_ = 0;
  Trace trace_;
  std::vector<Content> known_;  // of each request, with what it generated
};

}  // namespace

Trace RandomReuseTrace(uint64_t seed, int32_t page_size) {
  return TraceDrawer(seed, page_size).Draw();
}

}  // namespace tidewheel
