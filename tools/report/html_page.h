// HtmlPage: a report as one file that needs no other and no network.
//
// It is HTML5 and well-formed XML at once. All text that is passed is text,
// never markup: a name of a file or a trace can not become an element.
//
// Lifecycle: create, add from top to bottom, take the text.
//
// Single-threaded.

#ifndef TIDEWHEEL_TOOLS_REPORT_HTML_PAGE_H_
#define TIDEWHEEL_TOOLS_REPORT_HTML_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/report/chart.h"
#include "tools/report/svg_bar.h"
#include "tools/report/svg_rows.h"

namespace tidewheel {

struct HtmlCell {
  // Implicit, so that a row is a list of texts.
  // NOLINTBEGIN(google-explicit-constructor)
  HtmlCell(absl::string_view cell_text) : text(cell_text) {}
  HtmlCell(const char* cell_text) : text(cell_text) {}
  HtmlCell(std::string cell_text) : text(std::move(cell_text)) {}
  // NOLINTEND(google-explicit-constructor)
  // Right-aligned, never broken.
  static HtmlCell Number(std::string text) {
    HtmlCell cell(std::move(text));
    cell.is_number = true;
    return cell;
  }

  std::string text;
  bool is_number = false;
};

struct HtmlTable {
  std::string caption;            // may be empty
  std::vector<HtmlCell> columns;  // headings; may be empty
  std::vector<std::vector<HtmlCell>> rows;
  int chosen_row = -1;  // shown in bold
};

// A figure large enough to be read first.
struct HtmlCard {
  std::string value;
  std::string label;  // with its unit
};

class HtmlPage {
 public:
  HtmlPage(absl::string_view title, absl::string_view subtitle);

  void AddHeading(absl::string_view text);
  void AddText(absl::string_view text);
  // A box of a line each; nothing if there are none.
  void AddWarning(const std::vector<std::string>& lines);
  void AddList(const std::vector<std::string>& lines);
  void AddCode(absl::string_view text);
  void AddCards(const std::vector<HtmlCard>& cards);

  // What is added between these stands side by side where there is room.
  void BeginGrid();
  void EndGrid();
  // A chart without points says so instead.
  void AddChart(const Chart& chart);
  void AddRows(const RowChart& chart);
  // One of its charts' width, or all of it outside a grid. `id` as Chart's.
  void AddBar(const std::string& id, const std::string& title,
              const std::string& description,
              const std::vector<BarPart>& parts);
  // Label and value a line.
  void AddPairs(absl::string_view title,
                const std::vector<std::pair<std::string, std::string>>& pairs);
  void AddTable(const HtmlTable& table);

  std::string text() &&;

 private:
  void BeginFigure(absl::string_view id, absl::string_view title,
                   absl::string_view description);

  std::string text_;
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_TOOLS_REPORT_HTML_PAGE_H_
