#include "tools/traces/csv_trace.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "tools/traces/date_time.h"
#include "tools/traces/number_field.h"
#include "tools/traces/trace_error.h"

namespace tidewheel {
namespace {

constexpr size_t kMaxDescribedColumns = 12;

struct CsvColumns {
  size_t time = 0;
  size_t prompt = 0;
  size_t output = 0;
};

bool IsOneOf(absl::string_view name, std::span<const absl::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::StatusOr<CsvColumns> FindColumns(const CsvTraceLayout& layout,
                                       const CsvTraceHeader& header) {
  CsvColumns columns;
  TIDEWHEEL_ASSIGN_OR_RETURN(columns.time,
                             header.Find(layout.time_columns, "arrival time"));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      columns.prompt, header.Find(layout.prompt_columns, "prompt length"));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      columns.output, header.Find(layout.output_columns, "output length"));
  return columns;
}

// A record may lack trailing columns that nobody reads, and may end with
// commas; it may not have content that no column names, since then its fields
// have probably shifted.
absl::Status CheckFieldCount(const CsvTraceHeader& header,
                             const CsvColumns& columns,
                             std::span<const absl::string_view> fields) {
  for (const size_t column : {columns.time, columns.prompt, columns.output}) {
    if (column < fields.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("row has ", fields.size(), " fields, but ",
                     header.name(column), " is field ", column + 1,
                     " of the header; complete or remove the "
                     "row"));
  }
  for (size_t i = header.size(); i < fields.size(); ++i) {
    if (fields[i].empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "row has ", fields.size(), " fields, but the header has ",
        header.size(), "; quote fields that hold commas, or correct the row"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ParseTime(CsvTimeKind kind, absl::string_view text,
                                  absl::string_view column) {
  if (kind == CsvTimeKind::kSeconds) return ParseSecondsToUs(text, column);
  const std::optional<int64_t> time_us = ParseDateTime(text);
  if (time_us.has_value()) return *time_us;
  return absl::InvalidArgumentError(absl::StrCat(
      column, " ", Excerpt(text),
      " is not a date and time like 2023-11-16 18:15:46.6805900; correct or "
      "remove the row"));
}

absl::StatusOr<TraceRow> ParseRow(const CsvTraceLayout& layout,
                                  const CsvTraceHeader& header,
                                  const CsvColumns& columns,
                                  std::span<const absl::string_view> fields) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckFieldCount(header, columns, fields));
  TraceRow row;
  TIDEWHEEL_ASSIGN_OR_RETURN(row.time_us,
                             ParseTime(layout.time_kind, fields[columns.time],
                                       header.name(columns.time)));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      row.prompt_tokens,
      ParseTokenCount(fields[columns.prompt], header.name(columns.prompt)));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      row.output_tokens,
      ParseTokenCount(fields[columns.output], header.name(columns.output)));
  return row;
}

}  // namespace

std::string NormalColumnName(absl::string_view name) {
  std::string normal;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    normal.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  return normal;
}

CsvTraceHeader::CsvTraceHeader(std::span<const absl::string_view> fields) {
  for (const absl::string_view field : fields) {
    names_.emplace_back(field);
    normal_.push_back(NormalColumnName(field));
  }
}

bool CsvTraceHeader::Matches(const CsvTraceLayout& layout) const {
  for (const auto& names :
       {layout.time_columns, layout.prompt_columns, layout.output_columns}) {
    if (std::none_of(normal_.begin(), normal_.end(),
                     [&](const std::string& n) { return IsOneOf(n, names); })) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<size_t> CsvTraceHeader::Find(
    std::span<const absl::string_view> names, absl::string_view meaning) const {
  std::optional<size_t> found;
  for (size_t i = 0; i < normal_.size(); ++i) {
    if (!IsOneOf(normal_[i], names)) continue;
    if (found.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "columns ", *found + 1, " (", names_[*found], ") and ", i + 1, " (",
          names_[i], ") both hold the ", meaning, "; remove or rename one"));
    }
    found = i;
  }
  if (found.has_value()) return *found;
  return absl::InvalidArgumentError(
      absl::StrCat("no column holds the ", meaning, " (",
                   absl::StrJoin(names, " or "), "); found ", Describe()));
}

bool CsvTraceHeader::IsRepeatedBy(
    std::span<const absl::string_view> fields) const {
  if (fields.size() != names_.size()) return false;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (NormalColumnName(fields[i]) != normal_[i]) return false;
  }
  return true;
}

std::string CsvTraceHeader::Describe() const {
  std::vector<std::string> shown;
  for (const std::string& name : names_) {
    if (shown.size() == kMaxDescribedColumns) break;
    shown.push_back(Excerpt(name));
  }
  std::string text = absl::StrCat("columns ", absl::StrJoin(shown, ", "));
  if (shown.size() < names_.size()) {
    absl::StrAppend(&text, " and ", names_.size() - shown.size(), " more");
  }
  return text;
}

absl::Status ReadCsvRows(const CsvTraceLayout& layout,
                         const CsvTraceHeader& header, CsvTokenizer& csv,
                         TraceBuilder& builder) {
  const absl::StatusOr<CsvColumns> columns = FindColumns(layout, header);
  if (!columns.ok()) {
    return LineError(builder.file(), csv.line(), columns.status().message());
  }
  while (true) {
    const absl::StatusOr<bool> more = csv.Next();
    if (!more.ok()) {
      return LineError(builder.file(), csv.line(), more.status().message());
    }
    if (!*more) return absl::OkStatus();
    absl::StatusOr<TraceRow> row =
        ParseRow(layout, header, *columns, csv.fields());
    if (!row.ok()) {
      if (header.IsRepeatedBy(csv.fields())) {
        builder.SkipRepeatedHeader(csv.line());
        continue;
      }
      return LineError(builder.file(), csv.line(), row.status().message());
    }
    row->line = csv.line();
    if (layout.zero_output_is_failure && row->output_tokens == 0) {
      builder.SkipFailedRow(row->line);
      continue;
    }
    TIDEWHEEL_RETURN_IF_ERROR(builder.AddRow(*row));
  }
}

}  // namespace tidewheel
