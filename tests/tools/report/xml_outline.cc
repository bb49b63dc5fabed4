#include "tests/tools/report/xml_outline.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

class Reader {
 public:
  Reader(absl::string_view document, std::vector<XmlElement>& elements)
      : document_(document), elements_(elements) {}

  absl::Status Read() {
    Skip("<!DOCTYPE html>");
    while (at_ < document_.size()) {
      if (document_[at_] == '<') {
        TIDEWHEEL_RETURN_IF_ERROR(ReadTag());
      } else {
        TIDEWHEEL_RETURN_IF_ERROR(ReadText());
      }
    }
    if (!open_.empty()) {
      return Error(
          absl::StrCat("<", elements_[open_.back()].name, "> is not closed"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view what) const {
    const int64_t line =
        1 + std::count(document_.begin(),
                       document_.begin() + static_cast<std::ptrdiff_t>(at_),
                       '\n');
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }
  char peek() const { return at_ < document_.size() ? document_[at_] : '\0'; }
  bool Skip(absl::string_view text) {
    if (document_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  void SkipSpace() {
    while (absl::ascii_isspace(static_cast<unsigned char>(peek()))) ++at_;
  }

  absl::StatusOr<std::string> Name() {
    const size_t begin = at_;
    while (absl::ascii_isalnum(static_cast<unsigned char>(peek())) ||
           peek() == '-' || peek() == ':') {
      ++at_;
    }
    if (at_ == begin) return Error("a name is missing");
    return std::string(document_.substr(begin, at_ - begin));
  }

  absl::StatusOr<char> Character() {
    if (peek() != '&') return document_[at_++];
    for (const auto& [entity, character] :
         {std::pair<absl::string_view, char>{"&amp;", '&'},
          {"&lt;", '<'},
          {"&gt;", '>'},
          {"&quot;", '"'},
          {"&#39;", '\''}}) {
      if (Skip(entity)) return character;
    }
    return Error("an & that begins no entity");
  }

  absl::Status ReadText() {
    std::string text;
    while (at_ < document_.size() && peek() != '<') {
      TIDEWHEEL_ASSIGN_OR_RETURN(const char character, Character());
      const unsigned char byte = static_cast<unsigned char>(character);
      if (byte < 0x20 && byte != '\n' && byte != '\t') {
        return Error("a control character");
      }
      text.push_back(character);
    }
    if (open_.empty() && !absl::StripAsciiWhitespace(text).empty()) {
      return Error("text outside of all elements");
    }
    for (const int element : open_) elements_[element].text += text;
    return absl::OkStatus();
  }

  absl::Status ReadTag() {
    if (Skip("</")) {
      TIDEWHEEL_ASSIGN_OR_RETURN(const std::string name, Name());
      if (!Skip(">")) return Error("an end tag that does not end");
      if (open_.empty() || elements_[open_.back()].name != name) {
        return Error(absl::StrCat("</", name, "> closes nothing"));
      }
      open_.pop_back();
      return absl::OkStatus();
    }
    Skip("<");
    XmlElement element;
    TIDEWHEEL_ASSIGN_OR_RETURN(element.name, Name());
    element.parent = open_.empty() ? -1 : open_.back();
    while (true) {
      SkipSpace();
      const bool is_empty = Skip("/>");
      if (is_empty || Skip(">")) {
        elements_.push_back(std::move(element));
        if (!is_empty) open_.push_back(static_cast<int>(elements_.size()) - 1);
        return absl::OkStatus();
      }
      TIDEWHEEL_RETURN_IF_ERROR(ReadAttribute(element));
    }
  }

  absl::Status ReadAttribute(XmlElement& element) {
    TIDEWHEEL_ASSIGN_OR_RETURN(const std::string name, Name());
    if (!Skip("=\"")) return Error(absl::StrCat(name, " has no quoted value"));
    std::string value;
    while (peek() != '"') {
      if (at_ >= document_.size() || peek() == '<') {
        return Error(absl::StrCat("the value of ", name, " does not end"));
      }
      TIDEWHEEL_ASSIGN_OR_RETURN(const char character, Character());
      value.push_back(character);
    }
    ++at_;
    if (!element.attributes.emplace(name, value).second) {
      return Error(absl::StrCat(name, " is there twice"));
    }
    return absl::OkStatus();
  }

  absl::string_view document_;
  std::vector<XmlElement>& elements_;
  std::vector<int> open_;
  size_t at_ = 0;
};

bool HasClass(const XmlElement& element, const std::string& css_class) {
  const auto found = element.attributes.find("class");
  if (found == element.attributes.end()) return false;
  const std::vector<std::string> classes = absl::StrSplit(found->second, ' ');
  return std::find(classes.begin(), classes.end(), css_class) != classes.end();
}

}  // namespace

absl::StatusOr<XmlOutline> XmlOutline::Read(absl::string_view document) {
  XmlOutline outline;
  TIDEWHEEL_RETURN_IF_ERROR(Reader(document, outline.elements_).Read());
  return outline;
}

bool XmlOutline::IsWithin(const XmlElement& element,
                          const std::string& id) const {
  for (int i = element.parent; i >= 0; i = elements_[i].parent) {
    const auto found = elements_[i].attributes.find("id");
    if (found != elements_[i].attributes.end() && found->second == id) {
      return true;
    }
  }
  return false;
}

std::vector<const XmlElement*> XmlOutline::Find(
    const std::string& name, const std::string& css_class,
    const std::string& within_id) const {
  std::vector<const XmlElement*> found;
  for (const XmlElement& element : elements_) {
    if (!name.empty() && element.name != name) continue;
    if (!css_class.empty() && !HasClass(element, css_class)) continue;
    if (!within_id.empty() && !IsWithin(element, within_id)) continue;
    found.push_back(&element);
  }
  return found;
}

}  // namespace tidewheel
