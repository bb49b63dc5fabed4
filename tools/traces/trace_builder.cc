#include "tools/traces/trace_builder.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"
#include "tools/traces/content_ids.h"
#include "tools/traces/trace_error.h"

namespace tidewheel {
namespace {

constexpr int64_t kMaxTokens = std::numeric_limits<int32_t>::max();
// TraceRequest counts segments in 32 bits, and requests in 31.
constexpr size_t kMaxSegments = std::numeric_limits<uint32_t>::max();
constexpr size_t kMaxRequests = std::numeric_limits<int32_t>::max();

}  // namespace

void TraceBuilder::Skipped::Add(int64_t line) {
  if (count++ == 0) first_line = line;
}

TraceBuilder::TraceBuilder(absl::string_view file, TraceFormat format,
                           const TraceReadOptions& options)
    : options_(options) {
  trace_.name = std::string(file);
  trace_.format = std::string(TraceFormatName(format));
}

absl::StatusOr<bool> TraceBuilder::Admit(const TraceRow& row) {
  if (row.prompt_tokens == 0 || row.output_tokens == 0) {
    if (options_.zero_lengths == ZeroLengths::kSkip) {
      zero_lengths_.Add(row.line);
      return false;
    }
    return LineError(
        file(), row.line,
        absl::StrCat(row.prompt_tokens == 0 ? "prompt" : "output",
                     " length is 0, and a request has at least 1 token of "
                     "each; remove the row, or have zero lengths skipped"));
  }
  const int64_t total = int64_t{row.prompt_tokens} + row.output_tokens;
  if (total > kMaxTokens) {
    return LineError(
        file(), row.line,
        absl::StrCat("prompt and output lengths ", row.prompt_tokens, " + ",
                     row.output_tokens, " exceed ", kMaxTokens,
                     " together; correct or remove the row"));
  }
  if (trace_.requests.size() == kMaxRequests) {
    return LineError(
        file(), row.line,
        absl::StrCat("more than ", kMaxRequests, " requests; split the file"));
  }
  if (!trace_.requests.empty() && row.time_us < latest_us_) {
    if (options_.unsorted_rows == UnsortedRows::kRefuse) {
      return LineError(
          file(), row.line,
          absl::StrCat("row arrives ", latest_us_ - row.time_us,
                       " us before an earlier row; sort the file by time, or "
                       "have rows sorted as they are read"));
    }
    out_of_order_.Add(row.line);
  }
  latest_us_ =
      trace_.requests.empty() ? row.time_us : std::max(latest_us_, row.time_us);
  return true;
}

void TraceBuilder::PushRequest(const TraceRow& row, uint32_t num_segments) {
  TraceRequest& request = trace_.requests.emplace_back();
  request.arrival_us = row.time_us;
  request.prompt_tokens = row.prompt_tokens;
  request.output_tokens = row.output_tokens;
  request.output_content_id =
      ContentId(ContentSpace::kOutput, trace_.requests.size() - 1);
  request.first_segment =
      static_cast<uint32_t>(trace_.segments.size() - num_segments);
  request.num_segments = num_segments;
}

absl::Status TraceBuilder::AddRow(const TraceRow& row) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool admitted, Admit(row));
  if (!admitted) return absl::OkStatus();
  trace_.segments.push_back(
      {ContentId(ContentSpace::kPrompt, trace_.requests.size()), 0,
       row.prompt_tokens});
  PushRequest(row, 1);
  return absl::OkStatus();
}

absl::Status TraceBuilder::AddRowOfBlocks(
    const TraceRow& row, std::span<const uint64_t> block_content_ids,
    int32_t block_tokens) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const bool admitted, Admit(row));
  if (!admitted) return absl::OkStatus();
  if (trace_.segments.size() + block_content_ids.size() > kMaxSegments) {
    return LineError(file(), row.line,
                     absl::StrCat("more than ", kMaxSegments,
                                  " blocks in all prompts; split the file"));
  }
  int32_t left = row.prompt_tokens;
  for (const uint64_t content_id : block_content_ids) {
    const int32_t length = std::min(left, block_tokens);
    TIDEWHEEL_CHECK_GT(length, 0);
    trace_.segments.push_back({content_id, 0, length});
    left -= length;
  }
  TIDEWHEEL_CHECK_EQ(left, 0);
  PushRequest(row, static_cast<uint32_t>(block_content_ids.size()));
  return absl::OkStatus();
}

void TraceBuilder::SkipFailedRow(int64_t line) { failed_.Add(line); }

void TraceBuilder::SkipRepeatedHeader(int64_t line) {
  repeated_headers_.Add(line);
}

void TraceBuilder::SortByTime() {
  if (out_of_order_.count == 0) return;
  std::stable_sort(trace_.requests.begin(), trace_.requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) {
                     return a.arrival_us < b.arrival_us;
                   });
}

void TraceBuilder::SpreadTicks() {
  std::vector<TraceRequest>& requests = trace_.requests;
  int64_t gap_us = 0;
  size_t end = 0;
  for (size_t begin = 0; begin < requests.size(); begin = end) {
    const int64_t tick_us = requests[begin].arrival_us;
    end = begin + 1;
    while (end < requests.size() && requests[end].arrival_us == tick_us) ++end;
    if (end < requests.size()) gap_us = requests[end].arrival_us - tick_us;
    // k * gap_us / count without an overflow: count^2 fits, gap * count may
    // not.
    const auto count = static_cast<int64_t>(end - begin);
    for (int64_t k = 0; k < count; ++k) {
      requests[begin + static_cast<size_t>(k)].arrival_us =
          tick_us + gap_us / count * k + gap_us % count * k / count;
    }
  }
  if (gap_us == 0) {
    trace_.notes.push_back(
        "all requests have one timestamp, so there is no gap to spread them "
        "over");
  }
}

void TraceBuilder::KeepFirst(size_t count) {
  if (count >= trace_.requests.size()) return;
  trace_.notes.push_back(absl::StrCat("kept the first ", count, " of ",
                                      trace_.requests.size(), " requests"));
  trace_.requests.resize(count);
  std::vector<ContentSegment> kept;
  for (TraceRequest& request : trace_.requests) {
    const std::span<const ContentSegment> segments =
        trace_.segments_of(request);
    request.first_segment = static_cast<uint32_t>(kept.size());
    kept.insert(kept.end(), segments.begin(), segments.end());
  }
  trace_.segments = std::move(kept);
}

void TraceBuilder::Note(const Skipped& skipped, absl::string_view what) {
  if (skipped.count == 0) return;
  trace_.notes.push_back(
      absl::StrCat(skipped.count, skipped.count == 1 ? " row " : " rows ", what,
                   ", the first on line ", skipped.first_line));
}

void TraceBuilder::AddNotes() {
  Note(failed_, "left out: 0 output tokens mark a failed request");
  Note(zero_lengths_, "left out: a length of 0");
  Note(repeated_headers_, "left out: the header again");
  Note(out_of_order_, "moved: out of order in time");
}

absl::StatusOr<Trace> TraceBuilder::Finish() && {
  if (trace_.requests.empty()) {
    const int64_t left_out = failed_.count + zero_lengths_.count;
    return absl::InvalidArgumentError(absl::StrCat(
        file(), ": no request to replay (", left_out,
        " rows left out for a length of 0); give a file with at least one "
        "request"));
  }
  AddNotes();
  SortByTime();
  const int64_t origin_us = trace_.requests.front().arrival_us;
  for (TraceRequest& request : trace_.requests) {
    request.arrival_us -= origin_us;
  }
  if (options_.spread_ticks) SpreadTicks();
  if (options_.max_requests > 0) {
    KeepFirst(static_cast<size_t>(options_.max_requests));
  }
  return std::move(trace_);
}

}  // namespace tidewheel
