#include "tools/traces/csv_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "allocator/status_macros.h"
#include "tools/traces/trace_error.h"

namespace tidewheel {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsLineEnd(char c) { return c == '\n' || c == '\r'; }

absl::string_view StripBlanks(absl::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

bool CsvTokenizer::AtFieldEnd() const {
  return at_ == text_.size() || text_[at_] == ',' || IsLineEnd(text_[at_]);
}

void CsvTokenizer::SkipLineEnd() {
  if (at_ == text_.size()) return;
  const bool crlf =
      text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
  at_ += crlf ? 2 : 1;
  ++next_line_;
}

void CsvTokenizer::SkipBlankLines() {
  while (true) {
    size_t end = at_;
    while (end < text_.size() && IsBlank(text_[end])) ++end;
    if (end < text_.size() && !IsLineEnd(text_[end])) return;
    at_ = end;
    if (at_ == text_.size()) return;
    SkipLineEnd();
  }
}

absl::StatusOr<bool> CsvTokenizer::Next() {
  SkipBlankLines();
  fields_.clear();
  if (!unescaped_.empty()) unescaped_.clear();
  line_ = next_line_;
  if (at_ == text_.size()) return false;
  while (true) {
    if (fields_.size() == kMaxFields) {
      return absl::InvalidArgumentError(
          absl::StrCat("record has more than ", kMaxFields,
                       " fields; is this a CSV file of one record a line?"));
    }
    TIDEWHEEL_RETURN_IF_ERROR(ReadField());
    if (at_ == text_.size() || text_[at_] != ',') break;
    ++at_;
  }
  SkipLineEnd();
  return true;
}

absl::Status CsvTokenizer::ReadField() {
  const size_t begin = at_;
  while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  if (at_ < text_.size() && text_[at_] == '"') return ReadQuotedField();
  while (!AtFieldEnd()) ++at_;
  fields_.push_back(StripBlanks(text_.substr(begin, at_ - begin)));
  return absl::OkStatus();
}

absl::Status CsvTokenizer::ReadQuotedField() {
  const size_t begin = ++at_;
  bool doubled = false;
  while (true) {
    if (at_ == text_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("quote before ", Excerpt(text_.substr(begin)),
                       " is never closed; close it or remove it"));
    }
    const char c = text_[at_];
    if (c == '"') {
      if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') break;
      doubled = true;
      at_ += 2;
    } else if (IsLineEnd(c)) {
      SkipLineEnd();
    } else {
      ++at_;
    }
  }
  absl::string_view field = text_.substr(begin, at_ - begin);
  if (doubled) {
    unescaped_.push_back(absl::StrReplaceAll(field, {{"\"\"", "\""}}));
    field = unescaped_.back();
  }
  fields_.push_back(StripBlanks(field));
  ++at_;
  while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
  if (AtFieldEnd()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "text after the closing quote of ", Excerpt(field),
      "; double a quote that belongs to a field, or remove the text"));
}

}  // namespace tidewheel
