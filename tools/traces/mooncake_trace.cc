#include "tools/traces/mooncake_trace.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/status_macros.h"
#include "simdjson.h"
#include "tools/traces/content_ids.h"
#include "tools/traces/number_field.h"
#include "tools/traces/trace_error.h"

namespace tidewheel {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

enum Key : size_t { kTimestamp, kInputLength, kOutputLength, kHashIds };
constexpr std::array<absl::string_view, 4> kKeys = {
    "timestamp", "input_length", "output_length", "hash_ids"};

// Ids below this are contents of their own number. Traces count ids from 0,
// but a hash may be any 64-bit number: larger ones get the contents from here
// on, in order of appearance.
constexpr uint64_t kFirstRenumbered = uint64_t{1} << 61;

absl::Status NotA(absl::string_view key, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is not ", wanted, "; correct or remove the line"));
}

absl::StatusOr<int32_t> TokenCount(const element& value,
                                   absl::string_view key) {
  int64_t count = 0;
  if (value.type() == element_type::UINT64) {
    // simdjson's type for what int64 can not hold.
    return ParseTokenCount(simdjson::minify(value), key);
  }
  if (value.type() != element_type::INT64 || value.get(count) != 0) {
    return NotA(key, "a whole number");
  }
  return CheckTokenCount(count, key);
}

absl::StatusOr<int64_t> TimeFromMs(const element& value,
                                   absl::string_view key) {
  double ms = 0;
  if (!value.is_number() || value.get(ms) != 0) return NotA(key, "a number");
  return CheckTime(ms, 1e3, key);
}

class MooncakeReader {
 public:
  explicit MooncakeReader(TraceBuilder& builder) : builder_(builder) {}

  absl::Status ReadLine(absl::string_view text, int64_t line);

 private:
  // Fills values_ by key. Errors: InvalidArgument without a place.
  absl::Status ParseObject(absl::string_view text);
  absl::StatusOr<TraceRow> ParseRow();
  absl::Status ParseHashIds(int32_t prompt_tokens);
  uint64_t BlockContent(uint64_t hash_id);

  TraceBuilder& builder_;
  simdjson::dom::parser parser_;
  std::array<element, kKeys.size()> values_;
  std::vector<uint64_t> contents_;
  absl::flat_hash_map<uint64_t, uint64_t> renumbered_;
};

uint64_t MooncakeReader::BlockContent(uint64_t hash_id) {
  if (hash_id >= kFirstRenumbered) {
    hash_id =
        renumbered_.try_emplace(hash_id, kFirstRenumbered + renumbered_.size())
            .first->second;
  }
  return ContentId(ContentSpace::kBlock, hash_id);
}

absl::Status MooncakeReader::ParseObject(absl::string_view text) {
  element root;
  if (const auto error = parser_.parse(text.data(), text.size()).get(root)) {
    return absl::InvalidArgumentError(
        absl::StrCat("line is not valid JSON: ", simdjson::error_message(error),
                     " in ", Excerpt(text), "; correct or remove the line"));
  }
  simdjson::dom::object object;
  if (root.get(object) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("line is not a JSON object but ", Excerpt(text),
                     "; a trace has one object a line"));
  }
  std::array<bool, kKeys.size()> seen = {};
  for (const simdjson::dom::key_value_pair field : object) {
    const absl::string_view name(field.key.data(), field.key.size());
    for (size_t key = 0; key < kKeys.size(); ++key) {
      if (name != kKeys[key]) continue;
      if (seen[key]) {
        return absl::InvalidArgumentError(absl::StrCat(
            "key ", name, " is there twice; correct or remove the line"));
      }
      seen[key] = true;
      values_[key] = field.value;
    }
  }
  for (size_t key = 0; key < kKeys.size(); ++key) {
    if (seen[key]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "key ", kKeys[key], " is absent; a line of a Mooncake trace has ",
        absl::StrJoin(kKeys, ", ")));
  }
  return absl::OkStatus();
}

absl::Status MooncakeReader::ParseHashIds(int32_t prompt_tokens) {
  simdjson::dom::array ids;
  if (values_[kHashIds].get(ids) != 0) return NotA("hash_ids", "a list");
  contents_.clear();
  for (const element id : ids) {
    uint64_t hash_id = 0;
    if (id.get(hash_id) != 0) {
      return NotA("an entry of hash_ids", "a whole number from 0 to 2^64 - 1");
    }
    contents_.push_back(BlockContent(hash_id));
  }
  const int64_t needed = (int64_t{prompt_tokens} + kMooncakeBlockTokens - 1) /
                         kMooncakeBlockTokens;
  if (static_cast<int64_t>(contents_.size()) == needed) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "hash_ids has ", contents_.size(), " entries but input_length ",
      prompt_tokens, " needs ", needed, ", one for each ", kMooncakeBlockTokens,
      " tokens; correct or remove the line"));
}

absl::StatusOr<TraceRow> MooncakeReader::ParseRow() {
  TraceRow row;
  TIDEWHEEL_ASSIGN_OR_RETURN(
      row.time_us, TimeFromMs(values_[kTimestamp], kKeys[kTimestamp]));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      row.prompt_tokens,
      TokenCount(values_[kInputLength], kKeys[kInputLength]));
  TIDEWHEEL_ASSIGN_OR_RETURN(
      row.output_tokens,
      TokenCount(values_[kOutputLength], kKeys[kOutputLength]));
  TIDEWHEEL_RETURN_IF_ERROR(ParseHashIds(row.prompt_tokens));
  return row;
}

absl::Status MooncakeReader::ReadLine(absl::string_view text, int64_t line) {
  if (absl::Status status = ParseObject(text); !status.ok()) {
    return LineError(builder_.file(), line, status.message());
  }
  absl::StatusOr<TraceRow> row = ParseRow();
  if (!row.ok()) {
    return LineError(builder_.file(), line, row.status().message());
  }
  row->line = line;
  return builder_.AddRowOfBlocks(*row, contents_, kMooncakeBlockTokens);
}

}  // namespace

absl::Status ReadMooncakeLines(absl::string_view text, TraceBuilder& builder) {
  MooncakeReader reader(builder);
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const absl::string_view content =
        absl::StripAsciiWhitespace(text.substr(0, end));
    text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
    if (content.empty()) continue;
    TIDEWHEEL_RETURN_IF_ERROR(reader.ReadLine(content, line));
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
