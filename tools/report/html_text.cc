#include "tools/report/html_text.h"

#include <cstdint>

namespace tidewheel {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the character that begins at `at`, or 0 where none does: the
// well-formed sequences of the Unicode Standard, table 3-7.
size_t CharacterBytes(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto is_tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(at);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return is_tail(at + 1) ? 2 : 0;
  const uint8_t second = byte(at + 1);
  if (first < 0xF0) {
    const bool is_overlong = first == 0xE0 && second < 0xA0;
    const bool is_surrogate = first == 0xED && second >= 0xA0;
    if (is_overlong || is_surrogate) return 0;
    return is_tail(at + 1) && is_tail(at + 2) ? 3 : 0;
  }
  const bool is_overlong = first == 0xF0 && second < 0x90;
  const bool is_too_large = first > 0xF4 || (first == 0xF4 && second >= 0x90);
  if (is_overlong || is_too_large) return 0;
  return is_tail(at + 1) && is_tail(at + 2) && is_tail(at + 3) ? 4 : 0;
}

// U+FFFE and U+FFFF are no characters of XML either.
bool IsCharacterOfXml(absl::string_view character) {
  if (character.size() == 1) {
    const auto byte = static_cast<uint8_t>(character[0]);
    return byte >= 0x20 || byte == '\t' || byte == '\n';
  }
  return character != "\xEF\xBF\xBE" && character != "\xEF\xBF\xBF";
}

}  // namespace

std::string HtmlText(absl::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    const absl::string_view character = text.substr(at, bytes);
    at += bytes > 0 ? bytes : 1;
    if (bytes == 0 || !IsCharacterOfXml(character)) {
      escaped.append(kReplacement.data(), kReplacement.size());
    } else if (character == "&") {
      escaped.append("&amp;");
    } else if (character == "<") {
      escaped.append("&lt;");
    } else if (character == ">") {
      escaped.append("&gt;");
    } else if (character == "\"") {
      escaped.append("&quot;");
    } else if (character == "'") {
      escaped.append("&#39;");
    } else {
      escaped.append(character.data(), character.size());
    }
  }
  return escaped;
}

}  // namespace tidewheel
