#include "tools/json_place.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tidewheel {
namespace {

constexpr size_t kMaxQuotedBytes = 40;

// The line and column, from 1, of a byte.
std::string LineAndColumn(absl::string_view json, size_t byte) {
  const absl::string_view before = json.substr(0, std::min(byte, json.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == absl::string_view::npos
                            ? before.size()
                            : before.size() - newline - 1;
  return absl::StrCat("line ", line, ", column ", column + 1);
}

// Text of a file in a message: short and printable.
std::string Quoted(absl::string_view text) {
  std::string quoted;
  for (const char c : text.substr(0, kMaxQuotedBytes)) {
    quoted += absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : '?';
  }
  if (text.size() > kMaxQuotedBytes) quoted += "...";
  return quoted;
}

// Walks the text, keeps the path to where it is, and stops at the first thing
// that simdjson would not take.
class Locator : public nlohmann::json_sax<nlohmann::json> {
 public:
  Locator(absl::string_view json, size_t max_depth)
      : json_(json), max_depth_(max_depth) {}

  const std::string& found() const { return found_; }

  bool null() override { return Next(); }
  bool boolean(bool) override { return Next(); }
  bool number_integer(number_integer_t) override { return Next(); }
  bool number_unsigned(number_unsigned_t) override { return Next(); }
  bool number_float(number_float_t, const string_t& text) override {
    if (text.find_first_of(".eE") == std::string::npos) {
      return Stop(absl::StrCat(Path(), ": ", Quoted(text),
                               " is beyond every integer type"));
    }
    return Next();
  }
  bool string(string_t&) override { return Next(); }
  bool binary(binary_t&) override { return Next(); }
  bool key(string_t& name) override {
    levels_.back().key = Quoted(name);
    return true;
  }
  bool start_object(std::size_t) override { return Enter(true); }
  bool start_array(std::size_t) override { return Enter(false); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string text = error.what();
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'"
    if (error.id >= 400) {
      return Stop(absl::StrCat(Path(), ": a number is beyond every type"));
    }
    const size_t last = byte == 0 ? 0 : byte - 1;
    return Stop(
        absl::StrCat(LineAndColumn(json_, last), ": ",
                     last >= json_.size()
                         ? std::string("the text ends too early")
                         : absl::StrCat("unexpected '",
                                        Quoted(json_.substr(last, 1)), "'")));
  }

 private:
  struct Level {
    bool is_object = false;
    int64_t index = 0;
    std::string key;
  };

  bool Stop(std::string found) {
    found_ = std::move(found);
    return false;
  }
  bool Next() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool Enter(bool is_object) {
    if (levels_.size() >= max_depth_) {
      return Stop(
          absl::StrCat("more than ", max_depth_, " levels deep at ", Path()));
    }
    levels_.push_back({.is_object = is_object, .index = 0, .key = ""});
    return true;
  }
  bool Leave() {
    levels_.pop_back();
    return Next();
  }
  // "arrays.kv_lens.values[1]", the first levels of it.
  std::string Path() const {
    std::string path;
    for (size_t i = 0; i < levels_.size(); ++i) {
      if (i == 8) return absl::StrCat(path, "...");
      const Level& level = levels_[i];
      if (level.is_object) {
        absl::StrAppend(&path, path.empty() ? "" : ".", level.key);
      } else {
        absl::StrAppend(&path, "[", level.index, "]");
      }
    }
    return path.empty() ? "the top" : path;
  }

  const absl::string_view json_;
  const size_t max_depth_;
  std::vector<Level> levels_;
  std::string found_;
};

}  // namespace

std::string LocateJsonError(absl::string_view json, size_t max_depth,
                            absl::string_view reason) {
  Locator locator(json, max_depth);
  nlohmann::json::sax_parse(json.begin(), json.end(), &locator);
  return locator.found().empty() ? std::string(reason) : locator.found();
}

}  // namespace tidewheel
