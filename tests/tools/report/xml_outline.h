// XmlOutline: the elements of a document, for tests that look into pages.
//
// A strict reader of the XML that pages are written in: tags that match,
// attributes in double quotes and once each, no other entities than XML's own
// five and numbers. Anything else is an error with its place, so that reading a
// page is the test that it is well-formed.

#ifndef TIDEWHEEL_TESTS_TOOLS_REPORT_XML_OUTLINE_H_
#define TIDEWHEEL_TESTS_TOOLS_REPORT_XML_OUTLINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tidewheel {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;  // with entities resolved
  std::string text;  // its own and that of all within it, likewise
  int parent = -1;   // index; -1: none
};

class XmlOutline {
 public:
  // Errors: InvalidArgument with the line and what is wrong there.
  static absl::StatusOr<XmlOutline> Read(absl::string_view document);

  const std::vector<XmlElement>& elements() const { return elements_; }

  // Elements of that name; or only those of a class, or within the element of
  // an id. Empty: any.
  std::vector<const XmlElement*> Find(const std::string& name,
                                      const std::string& css_class = "",
                                      const std::string& within_id = "") const;

 private:
  bool IsWithin(const XmlElement& element, const std::string& id) const;

  std::vector<XmlElement> elements_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TESTS_TOOLS_REPORT_XML_OUTLINE_H_
