#include "tools/tune/stack_pass.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "tools/tune/release_stack.h"

namespace tidewheel {
namespace {

// Counts, by pool size, the pages that are found from that size on.
class HitCounts {
 public:
  explicit HitCounts(size_t most_pages) : changes_(most_pages + 2) {}

  // One hit at each of [from, from + count) usable pages.
  void Add(int64_t from, int64_t count) {
    if (count <= 0) return;
    ++changes_[static_cast<size_t>(from)];
    --changes_[static_cast<size_t>(from + count)];
  }

  std::vector<int64_t> Sum() && {
    for (size_t i = 1; i < changes_.size(); ++i) changes_[i] += changes_[i - 1];
    return std::move(changes_);
  }

 private:
  std::vector<int64_t> changes_;
};

void Count(const PagePaths& paths, const PagePaths::Request& request,
           HitQueries& queries) {
  queries.page_size = paths.page_size;
  ++queries.requests;
  queries.prompt_tokens += request.prompt_tokens;
  queries.prompt_pages += request.prompt_tokens / paths.page_size;
}

// The exact pass.
//
// A page at position p of the stack lies in every pool of at least p pages, but
// for this: a request whose last page is partial takes one page more than it
// leaves in the cache, and the oldest page of a full pool goes for it. What lay
// at position p when the last such request ended is thus gone from a pool of p
// pages too. Positions grow when something below them is taken up; those past
// the deepest page that was taken up since, past moved_through_, are still what
// they were, and need one page more.
class ExactPass {
 public:
  ExactPass(const PagePaths& paths, size_t num_requests)
      : paths_(paths),
        stack_(static_cast<size_t>(paths.num_ids), num_requests),
        counts_(static_cast<size_t>(paths.num_ids) + 1) {}

  void Run(const PagePaths::Request& request);

  std::vector<int64_t> Sum() && { return std::move(counts_).Sum(); }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  void CountHits(const ReleaseStack::Run& run, int32_t end);
  void MoveBoundary(const PagePaths::Request& request, int64_t deepest);

  const PagePaths& paths_;
  ReleaseStack stack_;
  HitCounts counts_;
  int64_t moved_through_ = kNone;
};

void ExactPass::CountHits(const ReleaseStack::Run& run, int32_t end) {
  const int64_t count = std::min(run.end, end) - run.first;
  if (count <= 0) return;
  const int64_t moved =
      moved_through_ < run.position
          ? 0
          : std::min(count, moved_through_ - run.position + 1);
  counts_.Add(run.position, moved);
  counts_.Add(run.position + moved + 1, count - moved);
}

void ExactPass::MoveBoundary(const PagePaths::Request& request,
                             int64_t deepest) {
  if (request.has_partial_page()) {
    moved_through_ = 0;
  } else if (deepest != kNone && request.ends_with_prompt_page) {
    // Its last page was in the cache and was computed all the same, for a
    // token to sample. The page that it took for that goes back when the two
    // are found to be twins, after the oldest page has gone for it; a pool in
    // which the twin was the oldest has lost nothing.
    moved_through_ = deepest;
  } else {
    moved_through_ = std::max(moved_through_, deepest);
  }
}

void ExactPass::Run(const PagePaths::Request& request) {
  const std::span<const int32_t> pages = paths_.pages_of(request);
  const ReleaseStack::Found found = stack_.Pin(pages);
  for (const ReleaseStack::Run& run : found.runs) {
    CountHits(run, request.num_looked_up);
  }
  int64_t deepest = 0;
  if (found.first_new < request.num_full) {
    deepest = kNone;
  } else if (!found.runs.empty()) {
    const ReleaseStack::Run& last = found.runs.back();
    deepest = last.position + (last.end - last.first) - 1;
  }
  MoveBoundary(request, deepest);
  stack_.Release(pages);
}

struct Event {
  int64_t time_us = 0;
  bool is_admission = false;  // what ends at a time makes room at that time
  size_t request = 0;         // into PagePaths::requests
};

std::vector<Event> EventsOf(const PagePaths& paths,
                            std::span<const Residency> residencies) {
  std::vector<Event> events;
  events.reserve(2 * paths.requests.size());
  for (size_t i = 0; i < paths.requests.size(); ++i) {
    const Residency& residency = residencies[paths.requests[i].index];
    if (residency.admitted_us < 0) continue;
    // A cost model may say that a step takes no time.
    const int64_t ended_us =
        std::max(residency.ended_us, residency.admitted_us + 1);
    events.push_back({residency.admitted_us, true, i});
    events.push_back({ended_us, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.time_us, a.is_admission, a.request) <
           std::tie(b.time_us, b.is_admission, b.request);
  });
  return events;
}

}  // namespace

HitCurve ComputeHitCurve(const PagePaths& paths, int32_t most_pages) {
  ExactPass pass(paths, paths.requests.size());
  HitQueries queries;
  int32_t longest = 0;
  for (const PagePaths::Request& request : paths.requests) {
    if (request.num_taken > most_pages) continue;
    longest = std::max(longest, request.num_taken);
    Count(paths, request, queries);
    pass.Run(request);
  }
  return HitCurve(queries, longest, std::move(pass).Sum());
}

TimedHitCurve ComputeTimedHitCurve(const PagePaths& paths,
                                   std::span<const Residency> residencies) {
  ReleaseStack stack(static_cast<size_t>(paths.num_ids), paths.requests.size());
  HitCounts counts(static_cast<size_t>(paths.num_ids) + paths.requests.size());
  HitQueries queries;
  int32_t longest = 0;
  int64_t partial_pages = 0;
  int64_t most_held = 0;
  for (const Event& event : EventsOf(paths, residencies)) {
    const PagePaths::Request& request = paths.requests[event.request];
    const std::span<const int32_t> pages = paths.pages_of(request);
    if (!event.is_admission) {
      stack.Release(pages);
      partial_pages -= request.has_partial_page() ? 1 : 0;
      continue;
    }
    longest = std::max(longest, request.num_taken);
    Count(paths, request, queries);
    const int32_t end =
        std::min(request.num_looked_up, residencies[request.index].found_pages);
    const ReleaseStack::Found found = stack.Pin(pages);
    // What is held is there in every pool in which its holder runs.
    counts.Add(1, std::min(found.num_pinned, end));
    for (const ReleaseStack::Run& run : found.runs) {
      counts.Add(run.position + partial_pages,
                 std::min(run.end, end) - run.first);
    }
    partial_pages += request.has_partial_page() ? 1 : 0;
    most_held = std::max(most_held, stack.num_pinned() + partial_pages);
  }
  return {HitCurve(queries, longest, std::move(counts).Sum()), most_held + 1};
}

}  // namespace tidewheel
