// CSV traces: which columns a format has, and the reading that all share.
//
// A format is a CsvTraceLayout: names for the columns of arrival time, prompt
// length and output length. Names match whatever their case, spaces,
// underscores and hyphens; columns stand in any order, among others that are
// ignored. A line that repeats the header is skipped.

#ifndef TIDEWHEEL_TOOLS_TRACES_CSV_TRACE_H_
#define TIDEWHEEL_TOOLS_TRACES_CSV_TRACE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/traces/csv_tokenizer.h"
#include "tools/traces/trace_builder.h"
#include "tools/traces/trace_format.h"

namespace tidewheel {

enum class CsvTimeKind { kDateTime, kSeconds };

// Column names are in the normal form of NormalColumnName; of several, a file
// has one.
struct CsvTraceLayout {
  TraceFormat format = TraceFormat::kDetect;
  std::span<const absl::string_view> time_columns;
  std::span<const absl::string_view> prompt_columns;
  std::span<const absl::string_view> output_columns;
  CsvTimeKind time_kind = CsvTimeKind::kSeconds;
  // 0 output tokens mark a request that failed, by the format's definition.
  bool zero_output_is_failure = false;
};

// Lower case, without spaces, underscores and hyphens.
std::string NormalColumnName(absl::string_view name);

// The header of a CSV trace: its first record.
class CsvTraceHeader {
 public:
  explicit CsvTraceHeader(std::span<const absl::string_view> fields);

  // Whether each of the layout's three columns is there, once or more.
  bool Matches(const CsvTraceLayout& layout) const;

  // The index of the one column that has one of `names`.
  // Errors: InvalidArgument if there is none, or more than one.
  absl::StatusOr<size_t> Find(std::span<const absl::string_view> names,
                              absl::string_view meaning) const;

  // Whether a record repeats this header.
  bool IsRepeatedBy(std::span<const absl::string_view> fields) const;

  size_t size() const { return names_.size(); }
  const std::string& name(size_t column) const { return names_[column]; }

  // The columns as the file names them, for error texts.
  std::string Describe() const;

 private:
  std::vector<std::string> names_;   // as in the file
  std::vector<std::string> normal_;  // in normal form
};

// Adds all records that follow the header to `builder`.
// Errors: InvalidArgument, naming file, line, column, value and remedy.
absl::Status ReadCsvRows(const CsvTraceLayout& layout,
                         const CsvTraceHeader& header, CsvTokenizer& csv,
                         TraceBuilder& builder);

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_CSV_TRACE_H_
