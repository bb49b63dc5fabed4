#include "tools/tune/page_paths.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "tools/arrival_queue.h"
#include "tools/tune/content_trie.h"

namespace tidewheel {
namespace {

// Cuts content into pages, and pages into the longest pieces of one content.
class PageCutter {
 public:
  PageCutter(int32_t page_size, ContentTrie& trie, std::vector<int32_t>& pages)
      : page_size_(page_size), trie_(trie), pages_(pages) {}

  void Begin() {
    node_ = ContentTrie::kRoot;
    piece_.length = 0;
    room_ = page_size_;
  }

  void Append(ContentSegment segment) {
    while (segment.length > 0) {
      const int32_t length = std::min(segment.length, room_);
      const bool goes_on = piece_.length > 0 &&
                           piece_.content_id == segment.content_id &&
                           piece_.offset + piece_.length == segment.offset;
      if (goes_on) {
        piece_.length += length;
      } else {
        EndPiece();
        piece_ = {segment.content_id, segment.offset, length};
      }
      segment.offset += length;
      segment.length -= length;
      room_ -= length;
      if (room_ > 0) continue;
      EndPiece();
      pages_.push_back(node_);
      room_ = page_size_;
    }
  }

 private:
  void EndPiece() {
    if (piece_.length == 0) return;
    node_ = trie_.Step(node_, piece_);
    piece_.length = 0;
  }

  int32_t page_size_;
  ContentTrie& trie_;
  std::vector<int32_t>& pages_;
  int32_t node_ = ContentTrie::kRoot;
  int32_t room_ = 0;  // tokens that the page still takes
  ContentSegment piece_;
};

int64_t ComputedTokens(const TraceRequest& request) {
  return int64_t{request.prompt_tokens} + request.output_tokens - 1;
}

absl::Status CheckPages(const Trace& trace, int32_t page_size) {
  if (page_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "page_size ", page_size, " is below 1; give at least 1 token"));
  }
  int64_t pages = 0;
  for (const TraceRequest& request : trace.requests) {
    pages += ComputedTokens(request) / page_size;
  }
  if (pages <= kMaxPages) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("page_size ", page_size, " cuts the trace into ", pages,
                   " pages, more than the ", kMaxPages,
                   " that are kept books of; give a page_size of at least ",
                   page_size * ((pages + kMaxPages - 1) / kMaxPages),
                   ", or fewer requests"));
}

// Indices in the order described in the header.
std::vector<int32_t> SendingOrder(const Trace& trace) {
  std::vector<int32_t> order;
  order.reserve(trace.requests.size());
  ArrivalQueue arrivals(trace);
  while (!arrivals.empty()) {
    const ArrivalQueue::Arrival next = arrivals.next();
    arrivals.Pop();
    arrivals.OnEnd(next.request, next.time_us);
    order.push_back(next.request);
  }
  return order;
}

PagePaths::Request Measure(const TraceRequest& request, int32_t index,
                           int32_t page_size) {
  const int64_t computed = ComputedTokens(request);
  PagePaths::Request path;
  path.num_full = static_cast<int32_t>(computed / page_size);
  path.num_taken = static_cast<int32_t>((computed + page_size - 1) / page_size);
  path.num_looked_up = (request.prompt_tokens - 1) / page_size;
  path.prompt_tokens = request.prompt_tokens;
  path.index = index;
  path.ends_with_prompt_page =
      request.output_tokens == 1 && request.prompt_tokens % page_size == 0;
  return path;
}

}  // namespace

absl::StatusOr<PagePaths> BuildPagePaths(const Trace& trace,
                                         const PagePathOptions& options) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckPages(trace, options.page_size));
  PagePaths paths;
  paths.page_size = options.page_size;
  paths.requests.reserve(trace.requests.size());
  size_t pages = 0;
  for (const TraceRequest& request : trace.requests) {
    pages += static_cast<size_t>(ComputedTokens(request) / options.page_size);
  }
  paths.pages.reserve(pages);
  ContentTrie trie(pages);
  PageCutter cutter(options.page_size, trie, paths.pages);
  for (const int32_t index : SendingOrder(trace)) {
    const TraceRequest& request = trace.requests[static_cast<size_t>(index)];
    const int64_t total =
        int64_t{request.prompt_tokens} + request.output_tokens;
    if (options.max_model_len.has_value() && total > *options.max_model_len) {
      ++paths.excluded_requests;
      paths.excluded_prompt_tokens += request.prompt_tokens;
      continue;
    }
    PagePaths::Request path = Measure(request, index, options.page_size);
    path.first = paths.pages.size();
    cutter.Begin();
    for (const ContentSegment& segment : trace.segments_of(request)) {
      cutter.Append(segment);
    }
    cutter.Append({request.output_content_id, 0, request.output_tokens - 1});
    paths.requests.push_back(path);
  }
  paths.num_ids = trie.num_nodes();
  return paths;
}

}  // namespace tidewheel
