#include "tools/tune/curve_report.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/header_line.h"
#include "tools/report/number_text.h"

namespace tidewheel {
namespace {

constexpr double kGiB = 1 << 30;

constexpr const char* kHit =
    "a full page of a prompt that earlier requests left in the cache, with all "
    "pages before it. A request gives its pages back last page first, the "
    "page given back first is evicted first, and at least one token of a "
    "prompt is computed.";
constexpr const char* kRatios =
    "tokens: tokens of hit pages / prompt tokens. pages: hit pages / full "
    "pages of prompts. left: prompt tokens to compute, 1 - r; fold: how many "
    "times as many prompts the same prefill serves, 1 / (1 - r).";

double GiBOf(const CurveServer& server, int64_t total_num_pages) {
  return static_cast<double>(total_num_pages) *
         static_cast<double>(server.bytes_per_page) / kGiB;
}

std::string SizeText(const CurveRun& run, int64_t total_num_pages) {
  std::string text = absl::StrCat(WithThousands(total_num_pages), " pages");
  if (run.server.has_value()) {
    absl::StrAppend(&text,
                    absl::StrFormat(" (%.2f GiB on each device)",
                                    GiBOf(*run.server, total_num_pages)));
  }
  return text;
}

std::string DescribeOrder(const CurveRun& run) {
  if (run.concurrency == Concurrency::kAsTheyCome) {
    return "overlapping, with the times of a simulation in which no page was "
           "evicted: pages that running requests hold take room from the "
           "cache. An estimate: compare it with --verify.";
  }
  std::string text = "one at a time, as in simulate --max-concurrency 1";
  if (run.has_sessions) {
    absl::StrAppend(
        &text,
        ". Sessions: in the order of a simulation in which no page was "
        "evicted. In smaller pools requests run longer, and turns "
        "come later: an estimate there");
  }
  return text;
}

std::string TableLine(const CurveRun& run, const CurveRow& row) {
  const bool has_server = run.server.has_value();
  std::string line =
      absl::StrFormat("%11s", WithThousands(row.total_num_pages));
  if (has_server) {
    absl::StrAppend(
        &line,
        absl::StrFormat(" %8.2f", GiBOf(*run.server, row.total_num_pages)));
  }
  const double ratio = row.token_ratio();
  absl::StrAppend(&line, absl::StrFormat(" %14s %7.2f%% %7.2f%% %7.2f%% %5.2f",
                                         WithThousands(row.hit_pages *
                                                       row.queries.page_size),
                                         100 * ratio, 100 * row.page_ratio(),
                                         100 * (1 - ratio), 1 / (1 - ratio)));
  if (has_server) {
    absl::StrAppend(&line,
                    row.next_gib_ratio.has_value()
                        ? absl::StrFormat(" %+6.2f", 100 * *row.next_gib_ratio)
                        : absl::StrFormat(" %6s", "-"));
  }
  std::string mark = row.mark;
  if (row.refused_requests > 0) {
    absl::StrAppend(&mark, mark.empty() ? "" : ", ", "refuses ",
                    WithThousands(row.refused_requests), " requests");
  }
  return absl::StrCat(line, mark.empty() ? "" : "  ", mark, "\n");
}

std::string TableHeader(const CurveRun& run) {
  const bool has_server = run.server.has_value();
  return absl::StrCat(absl::StrFormat("%11s", "total pages"),
                      has_server ? absl::StrFormat(" %8s", "GiB") : "",
                      absl::StrFormat(" %14s %8s %8s %8s %5s", "hit tokens",
                                      "tokens", "pages", "left", "fold"),
                      has_server ? absl::StrFormat(" %6s", "+1 GiB") : "",
                      "\n");
}

nlohmann::ordered_json RowJson(const CurveRow& row) {
  nlohmann::ordered_json json;
  json["total_num_pages"] = row.total_num_pages;
  json["hit_tokens"] = row.hit_pages * row.queries.page_size;
  json["hit_pages"] = row.hit_pages;
  json["prompt_tokens"] = row.queries.prompt_tokens;
  json["prompt_pages"] = row.queries.prompt_pages;
  json["token_hit_ratio"] = row.token_ratio();
  json["page_hit_ratio"] = row.page_ratio();
  json["prefill_left"] = 1 - row.token_ratio();
  json["next_gib_ratio"] = row.next_gib_ratio.has_value()
                               ? nlohmann::ordered_json(*row.next_gib_ratio)
                               : nlohmann::ordered_json(nullptr);
  json["refused_requests"] = row.refused_requests;
  json["mark"] = row.mark;
  return json;
}

nlohmann::ordered_json PointJson(const HitCurve& curve,
                                 const std::optional<HitCurve::Point>& point) {
  if (!point.has_value()) return nullptr;
  return {{"total_num_pages", point->total_num_pages},
          {"hit_tokens", curve.Tokens(point->hit_pages)},
          {"hit_pages", point->hit_pages},
          {"token_hit_ratio", curve.TokenRatio(point->hit_pages)},
          {"page_hit_ratio", curve.PageRatio(point->hit_pages)}};
}

}  // namespace

std::string CurveHeader(const CurveRun& run) {
  const HitQueries& queries = run.curve.queries();
  std::string text = HeaderLine(
      "Workload",
      absl::StrCat(run.trace.name, " (", run.trace.format,
                   "): ", WithThousands(queries.requests), " requests, ",
                   WithThousands(queries.prompt_tokens), " prompt tokens, ",
                   WithThousands(queries.prompt_pages),
                   " full prompt pages of ", queries.page_size, " tokens"));
  absl::StrAppend(&text, HeaderLine("Requests", DescribeOrder(run)),
                  HeaderLine("A hit", kHit), HeaderLine("Ratios", kRatios));
  absl::StrAppend(
      &text,
      HeaderLine("Sizes",
                 "total_num_pages, the null page included. What requests "
                 "generate is cached too. A running request's own pages take "
                 "room."));
  if (run.server.has_value()) {
    absl::StrAppend(
        &text,
        HeaderLine("Server",
                   absl::StrCat(
                       run.server->model, " on ", run.server->devices,
                       " devices: ", WithThousands(run.server->bytes_per_page),
                       " bytes of each device for a page")));
  }
  for (const std::string& note : run.notes) {
    absl::StrAppend(&text, HeaderLine("Note", note));
  }
  return text;
}

std::string CurveTable(const CurveRun& run) {
  const HitCurve& curve = run.curve;
  if (!run.has_reuse()) {
    return absl::StrCat(
        "No reuse: no prompt begins with a full page of ",
        curve.queries().page_size,
        " tokens that an earlier request\nleft. A prefix cache of any size "
        "finds nothing (0 of ",
        WithThousands(curve.queries().prompt_tokens), " prompt tokens).\n");
  }
  std::string text = TableHeader(run);
  for (const CurveRow& row : run.rows) {
    absl::StrAppend(&text, TableLine(run, row));
  }
  const HitCurve::Point& ceiling = curve.ceiling();
  absl::StrAppend(
      &text, "\n",
      HeaderLine("Smallest", absl::StrCat(SizeText(run, curve.smallest()),
                                          "; smaller pools refuse the longest "
                                          "requests")),
      HeaderLine(
          "Ceiling",
          absl::StrCat(WithThousands(curve.Tokens(ceiling.hit_pages)), " of ",
                       WithThousands(curve.queries().prompt_tokens),
                       " tokens, as with an infinite cache; needs ",
                       SizeText(run, ceiling.total_num_pages))));
  if (run.rough_below > curve.smallest()) {
    absl::StrAppend(
        &text, HeaderLine("Rough below",
                          absl::StrCat(SizeText(run, run.rough_below),
                                       ", which hold all that ran at once: in "
                                       "smaller pools requests wait, and run "
                                       "at other times than assumed")));
  }
  const std::optional<HitCurve::Point> knee = curve.Knee();
  absl::StrAppend(
      &text,
      HeaderLine(
          "Knee",
          knee.has_value()
              ? absl::StrCat(
                    SizeText(run, knee->total_num_pages), ": ",
                    AsPercent(static_cast<double>(knee->hit_pages) /
                              static_cast<double>(ceiling.hit_pages)),
                    " of the ceiling's hits. Furthest above the line from "
                    "smallest to ceiling (Kneedle, Satopaa et al. 2011)")
              : "none: the curve is nowhere above the line from smallest to "
                "ceiling"));
  return text;
}

std::string CheckTable(const CurveRun& run) {
  if (run.checks.empty()) return "";
  std::string text = absl::StrFormat(
      "\n%11s %14s %14s %8s %8s %9s %11s\n", "total pages", "curve",
      "simulated", "curve", "simul.", "deviation", "preemptions");
  for (const CurveCheck& check : run.checks) {
    absl::StrAppend(
        &text, absl::StrFormat(
                   "%11s %14s %14s %7.2f%% %7.2f%% %+8.2f%% %11s\n",
                   WithThousands(check.total_num_pages),
                   WithThousands(check.curve_hit_tokens),
                   WithThousands(check.simulated_hit_tokens),
                   100 * check.curve_ratio, 100 * check.simulated_ratio,
                   100 * check.deviation(), WithThousands(check.preemptions)));
  }
  if (run.rough_below > run.checks.front().total_num_pages) {
    absl::StrAppend(&text, "Rough below ", WithThousands(run.rough_below),
                    " pages, where requests wait for pages.\n");
  }
  const double points = 100 * run.tolerance();
  if (!run.checks_hold()) {
    absl::StrAppend(&text, absl::StrFormat("THE CURVE DEVIATES by more than "
                                           "%.1f points; rely on the "
                                           "simulations.\n",
                                           points));
  } else if (points == 0) {
    absl::StrAppend(&text, "The curve is exact at these sizes.\n");
  } else {
    absl::StrAppend(
        &text,
        absl::StrFormat("The curve is within %.1f points of "
                        "the simulations%s.\n",
                        points, run.rough_below > 0 ? " from there on" : ""));
  }
  return text;
}

std::string CurveJson(const CurveRun& run) {
  using Json = nlohmann::ordered_json;
  const HitCurve& curve = run.curve;
  const HitQueries& queries = curve.queries();
  Json json;
  json["trace"] = run.trace.name;
  json["trace_format"] = run.trace.format;
  json["order"] =
      run.concurrency == Concurrency::kOneAtATime ? "one_at_a_time" : "timed";
  json["definition"] = kHit;
  json["page_size"] = queries.page_size;
  json["requests"] = queries.requests;
  json["prompt_tokens"] = queries.prompt_tokens;
  json["prompt_pages"] = queries.prompt_pages;
  json["excluded_requests"] = run.paths.excluded_requests;
  json["smallest"] = PointJson(curve, curve.points().front());
  json["knee"] = PointJson(curve, curve.Knee());
  json["ceiling"] = PointJson(curve, curve.ceiling());
  json["model"] = nullptr;
  if (run.server.has_value()) {
    json["model"] = run.server->model;
    json["devices"] = run.server->devices;
    json["bytes_per_page"] = run.server->bytes_per_page;
  }
  json["rough_below"] = run.rough_below > 0 ? Json(run.rough_below) : nullptr;
  json["rows"] = Json::array();
  for (const CurveRow& row : run.rows) json["rows"].push_back(RowJson(row));
  json["checks"] = Json::array();
  for (const CurveCheck& check : run.checks) {
    json["checks"].push_back(
        {{"total_num_pages", check.total_num_pages},
         {"curve_hit_tokens", check.curve_hit_tokens},
         {"simulated_hit_tokens", check.simulated_hit_tokens},
         {"curve_hit_ratio", check.curve_ratio},
         {"simulated_hit_ratio", check.simulated_ratio},
         {"deviation", check.deviation()},
         {"preemptions", check.preemptions}});
  }
  json["tolerance"] = run.tolerance();
  json["notes"] = run.notes;
  json["build_seconds"] = run.build_seconds;
  return absl::StrCat(json.dump(2), "\n");
}

void WriteCurveCsv(const HitCurve& curve, OutputFile& file) {
  file.Write(
      "total_num_pages,hit_tokens,hit_pages,token_hit_ratio,page_hit_ratio\n");
  for (const HitCurve::Point& point : curve.points()) {
    file.Write(absl::StrFormat("%d,%d,%d,%.9g,%.9g\n", point.total_num_pages,
                               curve.Tokens(point.hit_pages), point.hit_pages,
                               curve.TokenRatio(point.hit_pages),
                               curve.PageRatio(point.hit_pages)));
  }
}

}  // namespace tidewheel
