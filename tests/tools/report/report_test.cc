// Pages and charts, read as documents.

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tests/tools/report/sample_reports.h"
#include "tests/tools/report/xml_outline.h"
#include "tools/report/axis_scale.h"
#include "tools/report/html_text.h"
#include "tools/report/result_table.h"
#include "tools/report/run_series.h"
#include "tools/report/svg_chart.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// What a file or a trace may be called.
const char* const kHostileName =
    "a\"b'<script>alert(1)</script>&amp;\x01\xff</title><!-- ]]>";

XmlOutline Outline(const std::string& page) {
  absl::StatusOr<XmlOutline> outline = XmlOutline::Read(page);
  EXPECT_THAT(outline, IsOk());
  return outline.ok() ? *std::move(outline) : XmlOutline();
}

// Numbers that are none, and anything that a network would be asked for.
void ExpectSelfContained(const std::string& page) {
  size_t allowed = 0;
  for (const char* name :
       {"http://www.w3.org/2000/svg\"", "http://www.w3.org/1999/xhtml\""}) {
    for (size_t at = page.find(absl::StrCat("xmlns=\"", name));
         at != std::string::npos;
         at = page.find(absl::StrCat("xmlns=\"", name), at + 1)) {
      ++allowed;
    }
  }
  size_t found = 0;
  for (size_t at = page.find("://"); at != std::string::npos;
       at = page.find("://", at + 1)) {
    ++found;
  }
  EXPECT_EQ(found, allowed);
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  const XmlOutline outline = Outline(page);
  for (const XmlElement& element : outline.elements()) {
    if (element.name == "script" || element.name == "style") continue;
    EXPECT_EQ(element.attributes.count("src"), 0u);
    for (const auto& [name, value] : element.attributes) {
      if (name == "href") {
        EXPECT_EQ(value, "data:,");
      }
      for (const char* bad : {"nan", "inf"}) {
        if (name != "d" && name != "x" && name != "y" && name != "width") {
          continue;
        }
        EXPECT_THAT(value, Not(HasSubstr(bad))) << element.name;
      }
    }
  }
  for (const XmlElement* title : outline.Find("title")) {
    EXPECT_THAT(title->text,
                AllOf(Not(HasSubstr("nan")), Not(HasSubstr(": inf"))));
  }
}

std::vector<std::string> Pages(const std::string& name) {
  const CurveRun curve = MakeSampleCurve(name);
  return {MakeSampleRun(name).page, TunePage(MakeSampleResult(name), &curve),
          CurvePage(curve)};
}

TEST(ReportTest, PagesAreWellFormedAndAskForNothing) {
  for (const std::string& page : Pages("azure")) ExpectSelfContained(page);
}

TEST(ReportTest, ANameOfATraceIsNeverMarkup) {
  for (const std::string& page : Pages(kHostileName)) {
    ExpectSelfContained(page);
    const XmlOutline outline = Outline(page);
    EXPECT_EQ(outline.Find("script").size(), 1u);
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  }
}

TEST(ReportTest, EveryFigureHasAnIdOfItsOwnAndPointsOfData) {
  for (const std::string& page : Pages("azure")) {
    const XmlOutline outline = Outline(page);
    std::vector<std::string> ids;
    for (const XmlElement* figure : outline.Find("figure")) {
      const std::string& id = figure->attributes.at("id");
      EXPECT_THAT(ids, Not(testing::Contains(id)));
      ids.push_back(id);
      EXPECT_GT(outline.Find("g", "hit", id).size(), 0u) << id;
      EXPECT_EQ(outline.Find("g", "hit", id).size() + 1,
                outline.Find("title", "", id).size())
          << id << ": a title for the drawing, and one for each point";
    }
    EXPECT_FALSE(ids.empty());
  }
}

TEST(ReportTest, ASimulationsPageShowsTheFiguresOfTheTable) {
  const SampleRun sample = MakeSampleRun("azure");
  const XmlOutline outline = Outline(sample.page);
  std::vector<std::string> cells;
  for (const XmlElement* row : outline.Find("tr")) cells.push_back(row->text);
  for (const ResultSection& section : ResultSections(sample.run)) {
    for (const auto& [label, value] : section.lines) {
      EXPECT_THAT(cells, testing::Contains(absl::StrCat(label, value)));
    }
  }
  ASSERT_FALSE(sample.run.all_completed());
  ASSERT_EQ(outline.Find("div", "warning").size(), 1u);
  EXPECT_THAT(outline.Find("div", "warning")[0]->text,
              HasSubstr("NOT ALL COMPLETED: 15 of 60 requests did not"));
}

TEST(ReportTest, ALatencyChartPassesThroughThePercentiles) {
  const SampleRun sample = MakeSampleRun("azure");
  const XmlOutline outline = Outline(sample.page);
  std::vector<std::string> marks;
  for (const XmlElement* mark : outline.Find("text", "mark", "ttft")) {
    marks.push_back(mark->text);
  }
  const Distribution& ttft = sample.run.metrics.ttft_ms;
  EXPECT_THAT(marks,
              ElementsAre(absl::StrFormat("Median %.2f ms", ttft.median),
                          absl::StrFormat("P90 %.2f ms", ttft.percentiles[0]),
                          absl::StrFormat("P99 %.2f ms", ttft.percentiles[1]),
                          "bound 500.00 ms"));
  std::vector<std::string> points;
  for (const XmlElement* title : outline.Find("title", "", "ttft")) {
    points.push_back(title->text);
  }
  EXPECT_THAT(points, testing::Contains(absl::StrCat(
                          "TTFT, ms: ", ValueText(ttft.percentiles[1]),
                          "\nshare of requests, %: 99")));
}

TEST(ReportTest, ATunePageShowsTheCliffsMarginAndEachKnobsReason) {
  const TuneResult result = MakeSampleResult("azure");
  const std::string page = TunePage(result, nullptr);
  EXPECT_THAT(page, HasSubstr("312 pages, 1.90 GiB on each device, 5.2 % "));
  EXPECT_THAT(page, HasSubstr("128 reaches 12.81 requests/s"));
  EXPECT_THAT(page, HasSubstr("--block-size 32"));
  const XmlOutline outline = Outline(page);
  EXPECT_EQ(outline.Find("g", "hit", "cliff").size(),
            result.cliff->points.size());
  EXPECT_EQ(outline.Find("g", "hit", "front").size(),
            result.front.points.size());
  EXPECT_EQ(outline.Find("g", "hit", "sensitivity").size(), 5u);
}

TEST(ReportTest, APageSaysWhyAPromiseCanNotBeKept) {
  TuneResult result;
  result.promise.bounds.ttft_ms = 1;
  result.binding_text = "a prefill alone takes 48 ms";
  const std::string page = TunePage(result, nullptr);
  ExpectSelfContained(page);
  EXPECT_THAT(page, HasSubstr("can not be kept. a prefill alone takes 48 ms"));
}

Chart TwoAreas() {
  Chart chart;
  chart.id = "c";
  chart.y.label = "pages";
  chart.x.label = "s";
  chart.series = {{"a", ChartSeries::Shape::kArea, {{0, 3}, {1, 5}}},
                  {"b", ChartSeries::Shape::kArea, {{0, 1}, {1, 5}}}};
  return chart;
}

TEST(SvgChartTest, AreasStandOnEachOther) {
  const XmlOutline outline = Outline(SvgChart(TwoAreas()));
  const auto lines = outline.Find("path", "line");
  ASSERT_EQ(lines.size(), 2u);
  // From 24 (10 pages) to 208 (none) is the drawing's height.
  EXPECT_EQ(lines[0]->attributes.at("d"), "M48.0 152.8L400.0 116.0");
  EXPECT_EQ(lines[1]->attributes.at("d"), "M48.0 134.4L400.0 24.0");
  const auto hits = outline.Find("g", "hit");
  ASSERT_EQ(hits.size(), 2u);
  EXPECT_EQ(hits[1]->text, "s: 1\na: 5\nb: 5");
}

TEST(SvgChartTest, AnIntervalIsDrawnAndSaid) {
  Chart chart;
  chart.id = "c";
  chart.y.label = "ms";
  chart.x.label = "pages";
  chart.series = {{"sizes",
                   ChartSeries::Shape::kPoints,
                   {{.x = 10, .y = 5, .low = 4, .high = 7, .text = "t"},
                    {.x = 20, .y = 6}}}};
  const XmlOutline outline = Outline(SvgChart(chart));
  EXPECT_EQ(outline.Find("path", "interval").size(), 1u);
  EXPECT_EQ(outline.Find("path", "marker").size(), 2u);
  EXPECT_EQ(outline.Find("g", "hit")[0]->text,
            "sizes: t\npages: 10\nms: 5 (4 to 7)");
}

TEST(SvgChartDeathTest, ANumberThatIsNotFiniteIsAProgrammersError) {
  Chart chart = TwoAreas();
  chart.series[0].points[0].y = std::nan("");
  EXPECT_DEATH(SvgChart(chart), "isfinite");
  chart.series.clear();
  EXPECT_DEATH(SvgChart(chart), "has_points");
}

TEST(AxisScaleTest, LinearTicksAreRoundAndHoldTheRange) {
  EXPECT_THAT(AxisScale::Linear(0, 97, 5).ticks(),
              ElementsAre(0, 20, 40, 60, 80, 100));
  for (const auto& [min, max] : std::vector<std::pair<double, double>>{
           {0, 0}, {5, 5}, {-3, 7}, {1e-9, 3e-9}, {0, 1e12}, {99.9, 100.1}}) {
    const AxisScale scale = AxisScale::Linear(min, max, 5);
    EXPECT_LE(scale.min(), min + 1e-12);
    EXPECT_GE(scale.max(), max - 1e-12);
    EXPECT_GE(scale.ticks().size(), 2u);
    EXPECT_LE(scale.ticks().size(), 8u);
  }
}

TEST(AxisScaleTest, AnExactRangeEndsAtTheData) {
  const AxisScale scale = AxisScale::Exact(3, 97, 5);
  EXPECT_THAT(scale.ticks(), ElementsAre(20, 40, 60, 80));
  EXPECT_DOUBLE_EQ(scale.Place(3), 0);
  EXPECT_DOUBLE_EQ(scale.Place(97), 1);
  EXPECT_GE(AxisScale::Exact(5, 5, 5).ticks().size(), 2u);
}

TEST(AxisScaleTest, LogarithmicTicksAreFewAndInTheRange) {
  EXPECT_THAT(AxisScale::Logarithmic(2, 900, 6).ticks(),
              testing::Each(testing::AllOf(testing::Ge(2), testing::Le(900))));
  for (const auto& [min, max] : std::vector<std::pair<double, double>>{
           {1, 1}, {1, 1e12}, {31, 47}, {0.001, 5}, {80, 120}, {1, 10}}) {
    const AxisScale scale = AxisScale::Logarithmic(min, max, 6);
    EXPECT_GE(scale.ticks().size(), 2u) << min << " " << max;
    EXPECT_LE(scale.ticks().size(), 6u) << min << " " << max;
    EXPECT_DOUBLE_EQ(scale.Place(scale.min()), 0);
    EXPECT_DOUBLE_EQ(scale.Place(scale.max()), 1);
    EXPECT_NEAR(scale.Place(std::sqrt(scale.min() * scale.max())), 0.5, 1e-9);
  }
}

TEST(HtmlTextTest, OnlyCharactersOfXmlRemain) {
  EXPECT_EQ(HtmlText("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(HtmlText("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x8C\x8A"),
            "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x8C\x8A");
  // A control, a lone tail, a cut sequence, an overlong one, a surrogate, one
  // beyond the last, and U+FFFF.
  for (const char* bad : {"\x01", "\x80", "\xE2\x82", "\xC0\x80",
                          "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xEF\xBF\xBF"}) {
    EXPECT_THAT(HtmlText(bad), testing::StartsWith("\xEF\xBF\xBD"));
    EXPECT_EQ(HtmlText(HtmlText(bad)), HtmlText(bad));
  }
}

StepPlan PlanOf(const std::vector<int32_t>& cu_q_lens, int32_t logits) {
  StepPlan plan;
  plan.batch.cu_q_lens = cu_q_lens;
  plan.batch.num_seqs = 1;
  plan.num_logits = logits;
  return plan;
}

TEST(RunSeriesTest, SpansDoubleAndLoseNothing) {
  RunSeries series;
  const std::vector<int32_t> lens = {0, 7};
  const StepPlan plan = PlanOf(lens, 3);
  const StepTime time;
  int64_t now_us = 0;
  double waiting_us = 0;
  const int32_t steps = 5000;
  for (int32_t i = 0; i < steps; ++i) {
    const int64_t end_us = now_us + 137 + i % 7 * 900;
    StepRecord step = {.plan = plan,
                       .time = time,
                       .start_us = now_us,
                       .end_us = end_us,
                       .num_waiting = i % 11,
                       .pages = {.lent_pages = 5}};
    waiting_us += step.num_waiting * static_cast<double>(end_us - now_us);
    series.OnStep(step);
    now_us = end_us;
    if (i % 100 == 0) {
      const IdleRecord idle = {now_us, now_us + 70'000, {.cached_pages = 2}};
      series.OnIdle(idle);
      now_us = idle.end_us;
    }
  }
  ASSERT_LE(series.bins().size(), RunSeries::kMaxBins);
  ASSERT_GT(series.bins().size(), RunSeries::kMaxBins / 2 - 1);
  RunSeries::Bin sum;
  for (size_t i = 0; i < series.bins().size(); ++i) {
    const RunSeries::Bin& bin = series.bins()[i];
    sum.Add(bin, 1);
    if (i + 1 < series.bins().size()) {
      EXPECT_NEAR(bin.covered_us, series.width_us(), 1e-3);
    }
  }
  EXPECT_NEAR(sum.covered_us, static_cast<double>(now_us), 1);
  EXPECT_NEAR(sum.generated_tokens, 3.0 * steps, 1e-3);
  EXPECT_NEAR(sum.computed_tokens, 7.0 * steps, 1e-3);
  EXPECT_NEAR(sum.waiting_us, waiting_us, 1);
  EXPECT_NEAR(sum.lent_us, 5 * (static_cast<double>(now_us) - 50 * 70'000), 1);
  EXPECT_NEAR(sum.cached_us, 2.0 * 50 * 70'000, 1);
}

TEST(XmlOutlineTest, WhatIsNotWellFormedIsAnError) {
  for (const char* bad :
       {"<a>", "<a></b>", "<a b=c/>", "<a b=\"1\" b=\"2\"/>", "<a>&nbsp;</a>",
        "<a b=\"<\"/>", "</a>", "text", "<a>\x01</a>", "<a b=\"1/>"}) {
    EXPECT_THAT(
        XmlOutline::Read(bad),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 1: ")))
        << bad;
  }
}

}  // namespace
}  // namespace tidewheel
