#include "tools/traces/trace_reader.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "allocator/status_macros.h"
#include "tools/traces/azure_trace.h"
#include "tools/traces/burstgpt_trace.h"
#include "tools/traces/csv_tokenizer.h"
#include "tools/traces/csv_trace.h"
#include "tools/traces/mooncake_trace.h"
#include "tools/traces/trace_builder.h"
#include "tools/traces/trace_error.h"
#include "tools/traces/vidur_trace.h"

namespace tidewheel {
namespace {

std::vector<const CsvTraceLayout*> CsvLayouts() {
  return {&AzureTraceLayout(), &VidurTraceLayout(), &BurstGptTraceLayout()};
}

// The layout that options force, or the one that the header matches.
absl::StatusOr<const CsvTraceLayout*> ChooseLayout(const CsvTraceHeader& header,
                                                   TraceFormat forced) {
  std::vector<const CsvTraceLayout*> matches;
  std::vector<absl::string_view> names;
  for (const CsvTraceLayout* layout : CsvLayouts()) {
    if (layout->format == forced) return layout;
    if (!header.Matches(*layout)) continue;
    matches.push_back(layout);
    names.push_back(TraceFormatName(layout->format));
  }
  if (matches.size() == 1) return matches[0];
  if (matches.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("header is of no known format: found ", header.Describe(),
                     "; known are ", DescribeTraceFormats()));
  }
  return absl::InvalidArgumentError(absl::StrCat("header fits the formats ",
                                                 absl::StrJoin(names, ", "),
                                                 "; say which one to read"));
}

absl::StatusOr<Trace> ParseCsv(absl::string_view name, absl::string_view text,
                               const TraceReadOptions& options) {
  CsvTokenizer csv(text);
  const absl::StatusOr<bool> has_header = csv.Next();
  if (!has_header.ok()) {
    return LineError(name, csv.line(), has_header.status().message());
  }
  const CsvTraceHeader header(csv.fields());
  const absl::StatusOr<const CsvTraceLayout*> layout =
      ChooseLayout(header, options.format);
  if (!layout.ok()) {
    return LineError(name, csv.line(), layout.status().message());
  }
  TraceBuilder builder(name, (*layout)->format, options);
  TIDEWHEEL_RETURN_IF_ERROR(ReadCsvRows(**layout, header, csv, builder));
  return std::move(builder).Finish();
}

absl::StatusOr<Trace> ParseJsonLines(absl::string_view name,
                                     absl::string_view text,
                                     const TraceReadOptions& options) {
  TraceBuilder builder(name, TraceFormat::kMooncake, options);
  TIDEWHEEL_RETURN_IF_ERROR(ReadMooncakeLines(text, builder));
  return std::move(builder).Finish();
}

// What a file that is no text at all most likely is.
absl::Status CheckIsText(absl::string_view name, absl::string_view bytes) {
  absl::string_view kind;
  if (absl::StartsWith(bytes, "\xff\xfe") ||
      absl::StartsWith(bytes, "\xfe\xff")) {
    kind = "UTF-16 text; save it as UTF-8";
  } else if (absl::StartsWith(bytes, "\x1f\x8b")) {
    kind = "compressed by gzip; decompress it first";
  } else if (absl::StartsWith(bytes, "\x28\xb5\x2f\xfd")) {
    kind = "compressed by zstd; decompress it first";
  } else {
    return absl::OkStatus();
  }
  return LineError(name, 1, absl::StrCat("file is ", kind));
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

absl::Status FileError(const std::string& path, absl::string_view what,
                       int error) {
  const std::string text =
      absl::StrCat("can not ", what, " trace ", path, ": ",
                   std::generic_category().message(error),
                   "; give the path of a file that can be read");
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES) return absl::PermissionDeniedError(text);
  if (error == EISDIR) return absl::InvalidArgumentError(text);
  return absl::UnavailableError(text);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return FileError(path, "read", EISDIR);
  }
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return FileError(path, "open", errno);
  // A pipe has no size; a file's size saves the growing.
  constexpr size_t kReadBytes = size_t{1} << 20;
  const uintmax_t file_bytes = std::filesystem::file_size(path, ignored);
  std::string bytes;
  if (!ignored) bytes.reserve(file_bytes + kReadBytes);
  size_t size = 0;
  while (true) {
    bytes.resize(size + kReadBytes);
    const size_t read =
        std::fread(bytes.data() + size, 1, kReadBytes, file.get());
    size += read;
    if (read < kReadBytes) break;
  }
  if (std::ferror(file.get()) != 0) return FileError(path, "read", errno);
  bytes.resize(size);
  return bytes;
}

}  // namespace

absl::StatusOr<Trace> ParseTrace(absl::string_view name,
                                 absl::string_view bytes,
                                 const TraceReadOptions& options) {
  if (options.max_requests < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_requests ", options.max_requests,
                     " is negative; use 0 for all requests, or a number of "
                     "requests to keep"));
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckIsText(name, bytes));
  absl::ConsumePrefix(&bytes, "\xef\xbb\xbf");
  const absl::string_view content = absl::StripLeadingAsciiWhitespace(bytes);
  if (content.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": file is empty; known formats are ", DescribeTraceFormats()));
  }
  const bool is_json = options.format == TraceFormat::kDetect
                           ? content.front() == '{'
                           : options.format == TraceFormat::kMooncake;
  return is_json ? ParseJsonLines(name, bytes, options)
                 : ParseCsv(name, bytes, options);
}

absl::StatusOr<Trace> ReadTrace(const std::string& path,
                                const TraceReadOptions& options) {
  TIDEWHEEL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ParseTrace(std::filesystem::path(path).filename().string(), bytes,
                    options);
}

}  // namespace tidewheel
