// CsvTokenizer: records and fields of a CSV text.
//
// It knows quoting (RFC 4180: a quoted field may hold commas, line ends and
// doubled quotes), the line ends LF, CRLF and CR, a last line without an end,
// and blank lines, which it skips. Spaces and tabs around a field are not part
// of it. It is not a validator of columns: csv_trace.h gives them meaning.
//
//   CsvTokenizer csv(text);
//   while (true) {
//     absl::StatusOr<bool> more = csv.Next();
//     if (!more.ok() || !*more) break;
//     Use(csv.line(), csv.fields());
//   }
//
// Allocates when a record has more fields than any before it, and for fields
// with doubled quotes. The text must outlive the tokenizer.

#ifndef TIDEWHEEL_TOOLS_TRACES_CSV_TOKENIZER_H_
#define TIDEWHEEL_TOOLS_TRACES_CSV_TOKENIZER_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

class CsvTokenizer {
 public:
  // Above this a record is refused: a header of a trace has about ten.
  static constexpr size_t kMaxFields = 1024;

  explicit CsvTokenizer(absl::string_view text) : text_(text) {}

  // True if there was another record; then fields() and line() are its own.
  // Errors: InvalidArgument for a quote that is never closed, text after a
  // closing quote, or more than kMaxFields fields; line() says where.
  absl::StatusOr<bool> Next();

  // The fields of the record. Valid until the next call of Next().
  std::span<const absl::string_view> fields() const { return fields_; }

  // The line that the record starts on, from 1.
  int64_t line() const { return line_; }

 private:
  void SkipBlankLines();
  void SkipLineEnd();
  absl::Status ReadField();
  absl::Status ReadQuotedField();
  bool AtFieldEnd() const;

  absl::string_view text_;
  size_t at_ = 0;          // next byte to read
  int64_t next_line_ = 1;  // line of text_[at_]
  int64_t line_ = 0;
  std::vector<absl::string_view> fields_;
  std::deque<std::string> unescaped_;  // storage of fields with doubled quotes
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_TRACES_CSV_TOKENIZER_H_
