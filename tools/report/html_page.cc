#include "tools/report/html_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/report/chart_legend.h"
#include "tools/report/html_text.h"
#include "tools/report/page_style.h"
#include "tools/report/svg_chart.h"

namespace tidewheel {
namespace {

constexpr const char* kNothing =
    "<p class=\"empty\">There is no value to show.</p>";

std::string CellText(absl::string_view element, const HtmlCell& cell) {
  return absl::StrCat("<", element, cell.is_number ? " class=\"number\"" : "",
                      ">", HtmlText(cell.text), "</", element, ">");
}

}  // namespace

HtmlPage::HtmlPage(absl::string_view title, absl::string_view subtitle) {
  absl::StrAppend(
      &text_,
      "<!DOCTYPE html>\n<html lang=\"en\" "
      "xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n"
      // Else a browser asks the server, or looks beside the file, for one.
      "<link rel=\"icon\" href=\"data:,\"/>\n<title>",
      HtmlText(title), "</title>\n<style>", PageStyle(),
      "</style>\n</head>\n<body>\n", SvgPatterns(), "<main>\n<h1>",
      HtmlText(title), "</h1>\n<p class=\"soft\">", HtmlText(subtitle),
      "</p>\n");
}

void HtmlPage::AddHeading(absl::string_view text) {
  absl::StrAppend(&text_, "<h2>", HtmlText(text), "</h2>\n");
}

void HtmlPage::AddText(absl::string_view text) {
  absl::StrAppend(&text_, "<p>", HtmlText(text), "</p>\n");
}

void HtmlPage::AddWarning(const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  absl::StrAppend(&text_, "<div class=\"warning\" role=\"note\">");
  for (const std::string& line : lines) AddText(line);
  absl::StrAppend(&text_, "</div>\n");
}

void HtmlPage::AddList(const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  absl::StrAppend(&text_, "<ul class=\"notes\">\n");
  for (const std::string& line : lines) {
    absl::StrAppend(&text_, "<li>", HtmlText(line), "</li>\n");
  }
  absl::StrAppend(&text_, "</ul>\n");
}

void HtmlPage::AddCode(absl::string_view text) {
  absl::StrAppend(&text_, "<pre>", HtmlText(text), "</pre>\n");
}

void HtmlPage::AddCards(const std::vector<HtmlCard>& cards) {
  absl::StrAppend(&text_, "<div class=\"cards\">\n");
  for (const HtmlCard& card : cards) {
    absl::StrAppend(&text_, "<div class=\"card\"><b>", HtmlText(card.value),
                    "</b><span>", HtmlText(card.label), "</span></div>\n");
  }
  absl::StrAppend(&text_, "</div>\n");
}

void HtmlPage::BeginGrid() {
  absl::StrAppend(&text_, "<div class=\"grid\">\n");
}

void HtmlPage::EndGrid() { absl::StrAppend(&text_, "</div>\n"); }

void HtmlPage::BeginFigure(absl::string_view id, absl::string_view title,
                           absl::string_view description) {
  absl::StrAppend(&text_, "<figure id=\"", HtmlText(id),
                  "\" class=\"chart\"><figcaption><h3>", HtmlText(title),
                  "</h3><p>", HtmlText(description), "</p></figcaption>\n");
}

void HtmlPage::AddChart(const Chart& chart) {
  BeginFigure(chart.id, chart.title, chart.description);
  absl::StrAppend(&text_,
                  chart.has_points()
                      ? absl::StrCat(ChartLegend(chart), SvgChart(chart))
                      : kNothing,
                  "</figure>\n");
}

void HtmlPage::AddRows(const RowChart& chart) {
  BeginFigure(chart.id, chart.title, chart.description);
  absl::StrAppend(&text_, chart.rows.empty() ? kNothing : SvgRows(chart),
                  "</figure>\n");
}

void HtmlPage::AddBar(const std::string& id, const std::string& title,
                      const std::string& description,
                      const std::vector<BarPart>& parts) {
  BeginFigure(id, title, description);
  absl::StrAppend(&text_, SvgBar(id, title, parts), "</figure>\n");
}

void HtmlPage::AddPairs(
    absl::string_view title,
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  absl::StrAppend(&text_, "<div class=\"box\"><table><caption>",
                  HtmlText(title), "</caption>\n");
  for (const auto& [label, value] : pairs) {
    absl::StrAppend(&text_, "<tr><th scope=\"row\">", HtmlText(label),
                    "</th><td class=\"number\">", HtmlText(value),
                    "</td></tr>\n");
  }
  absl::StrAppend(&text_, "</table></div>\n");
}

void HtmlPage::AddTable(const HtmlTable& table) {
  absl::StrAppend(&text_, "<div class=\"scroll\" tabindex=\"0\">",
                  "<table class=\"cells\">");
  if (!table.caption.empty()) {
    absl::StrAppend(&text_, "<caption>", HtmlText(table.caption), "</caption>");
  }
  if (!table.columns.empty()) {
    absl::StrAppend(&text_, "<thead><tr>");
    for (const HtmlCell& cell : table.columns) {
      absl::StrAppend(&text_, CellText("th", cell));
    }
    absl::StrAppend(&text_, "</tr></thead>\n");
  }
  absl::StrAppend(&text_, "<tbody>\n");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const bool is_chosen = static_cast<int>(i) == table.chosen_row;
    absl::StrAppend(&text_, is_chosen ? "<tr class=\"chosen\">" : "<tr>");
    for (const HtmlCell& cell : table.rows[i]) {
      absl::StrAppend(&text_, CellText("td", cell));
    }
    absl::StrAppend(&text_, "</tr>\n");
  }
  absl::StrAppend(&text_, "</tbody></table></div>\n");
}

std::string HtmlPage::text() && {
  absl::StrAppend(&text_, "</main>\n<div id=\"tip\" role=\"status\"></div>\n",
                  "<script>", PageScript(), "</script>\n</body>\n</html>\n");
  return std::move(text_);
}

}  // namespace tidewheel
