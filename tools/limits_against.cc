#include "tools/limits_against.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "attention/shape_rules.h"
#include "attention/tpu_limits.h"
#include "attention/vmem_rule.h"
#include "nlohmann/json.hpp"

namespace tidewheel {
namespace {

std::string NameWithLimit(const CompileVerdict& row) {
  return absl::StrCat(row.ShapeName(), " limit ",
                      row.shape.vmem_limit_bytes.has_value()
                          ? absl::StrCat(*row.shape.vmem_limit_bytes)
                          : "default");
}

void Count(const CompileVerdict& row, SweepComparison& sweep) {
  if (row.timed_out) {
    ++sweep.timeouts;
    return;
  }
  const Verdict verdict = TpuLimits(row.generation).Predict(row.shape);
  const std::string predicted =
      verdict.ok ? "ok" : std::string(LimitClassName(*verdict.failure));
  const std::string actual = row.ok ? "ok" : row.error_class;
  ++(row.ok ? sweep.ok : sweep.fail);
  ++sweep.confusion[{actual, predicted}];
  if (actual == predicted) return;
  std::vector<Disagreement>& list =
      verdict.ok ? sweep.fail_predicted_ok
                 : (row.ok ? sweep.ok_predicted_fail : sweep.other_class);
  list.push_back({row.line, NameWithLimit(row), actual, predicted, verdict.text,
                  verdict.may_compile, verdict.needed_bytes});
}

// The edge of each shape that was bisected, as far as the rows show it.
std::vector<BisectedCase> FindEdges(
    const std::vector<const CompileVerdict*>& rows) {
  std::map<std::string, BisectedCase> cases;
  for (const CompileVerdict* row : rows) {
    const std::optional<int64_t> limit = row->shape.vmem_limit_bytes;
    if (row->timed_out || !limit.has_value()) continue;
    // A shape without sizes has no need to compare.
    if (!CheckStatic(row->shape).empty()) continue;
    const std::string name = row->ShapeName();
    const auto [it, is_new] = cases.emplace(name, BisectedCase());
    BisectedCase& entry = it->second;
    if (is_new) {
      entry.name = name;
      entry.predicted_need_bytes =
          ComputeVmemNeed(row->generation, row->shape).total_bytes();
    }
    if (!row->ok) {
      entry.largest_refused_bytes =
          std::max(entry.largest_refused_bytes, *limit);
    } else if (entry.smallest_accepted_bytes == 0 ||
               *limit < entry.smallest_accepted_bytes) {
      entry.smallest_accepted_bytes = *limit;
    }
  }
  std::vector<BisectedCase> result;
  for (auto& [name, entry] : cases) {
    // Only refused: no edge in sight.
    if (entry.smallest_accepted_bytes == 0) continue;
    entry.ratio = static_cast<double>(entry.predicted_need_bytes) /
                  static_cast<double>(entry.smallest_accepted_bytes);
    result.push_back(std::move(entry));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const BisectedCase& a, const BisectedCase& b) {
                     return a.ratio < b.ratio;
                   });
  return result;
}

double MedianRatio(const std::vector<BisectedCase>& cases) {
  const size_t middle = cases.size() / 2;
  if (cases.size() % 2 == 1) return cases[middle].ratio;
  return (cases[middle - 1].ratio + cases[middle].ratio) / 2;
}

nlohmann::ordered_json ToJson(const std::vector<Disagreement>& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Disagreement& item : list) {
    nlohmann::ordered_json needed_bytes = nullptr;
    if (item.needed_bytes.has_value()) needed_bytes = *item.needed_bytes;
    json.push_back({{"line", item.line},
                    {"name", item.name},
                    {"actual", item.actual},
                    {"predicted", item.predicted},
                    {"reason", item.reason},
                    {"may_compile", item.may_compile},
                    {"needed_bytes", needed_bytes}});
  }
  return json;
}

nlohmann::ordered_json ToJson(const SweepComparison& sweep) {
  nlohmann::ordered_json json = {
      {"ok", sweep.ok},
      {"fail", sweep.fail},
      {"fail_predicted_ok", sweep.fail_predicted_ok.size()},
      {"ok_predicted_fail", sweep.ok_predicted_fail.size()},
      {"other_class", sweep.other_class.size()},
      {"timeouts", sweep.timeouts}};
  nlohmann::ordered_json disagreements = ToJson(sweep.fail_predicted_ok);
  for (auto& item : ToJson(sweep.ok_predicted_fail)) {
    disagreements.push_back(item);
  }
  for (auto& item : ToJson(sweep.other_class)) disagreements.push_back(item);
  json["disagreements"] = std::move(disagreements);
  json["confusion"] = nlohmann::ordered_json::array();
  for (const auto& [classes, rows] : sweep.confusion) {
    json["confusion"].push_back({{"actual", classes.first},
                                 {"predicted", classes.second},
                                 {"rows", rows}});
  }
  if (!sweep.bisected.empty()) {
    json["need_over_accepted"] = {{"cases", sweep.bisected.size()},
                                  {"open", sweep.open_cases.size()},
                                  {"min", sweep.bisected.front().ratio},
                                  {"median", MedianRatio(sweep.bisected)},
                                  {"max", sweep.bisected.back().ratio}};
  }
  return json;
}

void PrintList(const char* title, const std::vector<Disagreement>& list,
               std::FILE* out) {
  if (list.empty()) return;
  std::fprintf(out, "  %s:\n", title);
  for (const Disagreement& item : list) {
    std::fprintf(out, "    line %lld: %s: was %s, predicted %s%s: %s\n",
                 static_cast<long long>(item.line), item.name.c_str(),
                 item.actual.c_str(), item.may_compile ? "perhaps " : "",
                 item.predicted.c_str(), item.reason.c_str());
  }
}

void PrintEdges(const SweepComparison& sweep, std::FILE* out) {
  if (!sweep.bisected.empty()) {
    std::fprintf(out,
                 "  predicted need / smallest accepted limit, %zu cases: min "
                 "%.3f, median %.3f, max %.3f\n",
                 sweep.bisected.size(), sweep.bisected.front().ratio,
                 MedianRatio(sweep.bisected), sweep.bisected.back().ratio);
  }
  for (const BisectedCase& entry : sweep.bisected) {
    if (entry.ratio >= 1.0) break;
    std::fprintf(out, "    below 1: %s: need %lld, accepted %lld\n",
                 entry.name.c_str(),
                 static_cast<long long>(entry.predicted_need_bytes),
                 static_cast<long long>(entry.smallest_accepted_bytes));
  }
  for (const BisectedCase& entry : sweep.open_cases) {
    std::fprintf(
        out,
        "    not closed to 5 %%, left out: %s: need %lld, refused %lld, "
        "accepted %lld\n",
        entry.name.c_str(), static_cast<long long>(entry.predicted_need_bytes),
        static_cast<long long>(entry.largest_refused_bytes),
        static_cast<long long>(entry.smallest_accepted_bytes));
  }
}

void PrintSweep(const std::string& name, const SweepComparison& sweep,
                std::FILE* out) {
  std::fprintf(out,
               "%s: %lld ok, %lld fail, %lld timed out (not compared)\n"
               "  %-36s %-36s %7s\n",
               name.c_str(), static_cast<long long>(sweep.ok),
               static_cast<long long>(sweep.fail),
               static_cast<long long>(sweep.timeouts), "compiler", "predicted",
               "rows");
  for (const auto& [classes, rows] : sweep.confusion) {
    std::fprintf(out, "  %-36s %-36s %7lld%s\n", classes.first.c_str(),
                 classes.second.c_str(), static_cast<long long>(rows),
                 classes.first == classes.second ? "" : "  <-");
  }
  PrintList("failed, predicted ok", sweep.fail_predicted_ok, out);
  PrintList("ok, predicted to fail", sweep.ok_predicted_fail, out);
  PrintList("failed for another reason", sweep.other_class, out);
  PrintEdges(sweep, out);
}

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file),
                   std::istreambuf_iterator<char>()};
  if (file.bad()) return std::nullopt;
  return text;
}

}  // namespace

bool BisectedCase::is_closed() const {
  return 100 * largest_refused_bytes >= 95 * smallest_accepted_bytes;
}

std::map<std::string, SweepComparison> CompareLimits(
    const std::vector<CompileVerdict>& rows) {
  std::map<std::string, SweepComparison> sweeps;
  std::map<std::string, std::vector<const CompileVerdict*>> bisections;
  for (const CompileVerdict& row : rows) {
    Count(row, sweeps[row.sweep]);
    if (absl::StrContains(row.sweep, "bisect")) {
      bisections[row.sweep].push_back(&row);
    }
  }
  for (const auto& [name, bisection] : bisections) {
    for (BisectedCase& entry : FindEdges(bisection)) {
      SweepComparison& sweep = sweeps[name];
      (entry.is_closed() ? sweep.bisected : sweep.open_cases)
          .push_back(std::move(entry));
    }
  }
  return sweeps;
}

int RunLimitsAgainst(const LimitsAgainstOptions& options, std::FILE* out,
                     std::FILE* err) {
  const std::optional<std::string> text = ReadFile(options.path);
  if (!text.has_value()) {
    std::fprintf(err, "%s: can not be read; give a CSV file of verdicts\n",
                 options.path.c_str());
    return 1;
  }
  absl::StatusOr<std::vector<CompileVerdict>> rows = ReadLimitsCsv(*text);
  if (!rows.ok()) {
    std::fprintf(err, "%s: %s\n", options.path.c_str(),
                 std::string(rows.status().message()).c_str());
    return 1;
  }
  const std::map<std::string, SweepComparison> sweeps = CompareLimits(*rows);
  if (options.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [name, sweep] : sweeps) json[name] = ToJson(sweep);
    std::fprintf(out, "%s\n",
                 json.dump(2, ' ', false,
                           nlohmann::ordered_json::error_handler_t::replace)
                     .c_str());
    return 0;
  }
  for (const auto& [name, sweep] : sweeps) PrintSweep(name, sweep, out);
  return 0;
}

}  // namespace tidewheel
