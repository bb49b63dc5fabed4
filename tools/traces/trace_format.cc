#include "tools/traces/trace_format.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

constexpr TraceFormat kFormats[] = {TraceFormat::kDetect, TraceFormat::kAzure,
                                    TraceFormat::kMooncake, TraceFormat::kVidur,
                                    TraceFormat::kBurstGpt};

}  // namespace

absl::string_view TraceFormatName(TraceFormat format) {
  switch (format) {
    case TraceFormat::kDetect:
      return "detect";
    case TraceFormat::kAzure:
      return "azure";
    case TraceFormat::kMooncake:
      return "mooncake";
    case TraceFormat::kVidur:
      return "vidur";
    case TraceFormat::kBurstGpt:
      return "burstgpt";
  }
  return "unknown";
}

absl::StatusOr<TraceFormat> TraceFormatFromName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const TraceFormat format : kFormats) {
    if (lower == TraceFormatName(format)) return format;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown trace format '", name,
                   "'; use detect, azure, mooncake, vidur or burstgpt"));
}

std::string DescribeTraceFormats() {
  return "azure (CSV: TIMESTAMP, ContextTokens, GeneratedTokens), "
         "mooncake (JSON lines: timestamp, input_length, output_length, "
         "hash_ids), "
         "vidur (CSV: arrived_at, num_prefill_tokens, num_decode_tokens; or "
         "Time, PromptTokenCount, GeneratedTokenCount), "
         "burstgpt (CSV: Timestamp, Request tokens, Response tokens)";
}

}  // namespace tidewheel
