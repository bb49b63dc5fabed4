#include "tools/config_report.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "allocator/kv_cache_shape.h"
#include "attention/padding_buckets.h"
#include "attention/shape_rules.h"
#include "attention/smem_rule.h"
#include "attention/tpu_limits.h"
#include "attention/vmem_rule.h"
#include "nlohmann/json.hpp"
#include "tools/nearest_configuration.h"

namespace tidewheel {
namespace {

using Json = nlohmann::ordered_json;

bool HasFinding(const std::vector<Finding>& findings, absl::string_view name) {
  return std::any_of(
      findings.begin(), findings.end(),
      [name](const Finding& finding) { return finding.name == name; });
}

std::string TextOf(const std::optional<int64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : "";
}

// The flags whose values differ, with the new value.
Json Changes(const ConfigurationShape& from, const ConfigurationShape& to) {
  Json changes = Json::object();
  const auto compare = [&changes](const char* flag, const std::string& before,
                                  const std::string& after) {
    if (before != after) changes[flag] = after;
  };
  compare("chips", absl::StrCat(from.chips), absl::StrCat(to.chips));
  compare("kv-dtype", std::string(KvDtypeName(from.kv_dtype)),
          std::string(KvDtypeName(to.kv_dtype)));
  compare("q-dtype", std::string(QueryDtypeName(from.q_dtype)),
          std::string(QueryDtypeName(to.q_dtype)));
  compare("kv-scales", from.has_kv_scales ? "both" : "none",
          to.has_kv_scales ? "both" : "none");
  compare("max-num-seqs", absl::StrCat(from.max_num_seqs),
          absl::StrCat(to.max_num_seqs));
  compare("page-size", absl::StrCat(from.page_size),
          absl::StrCat(to.page_size));
  compare("max-model-len", absl::StrCat(from.max_model_len),
          absl::StrCat(to.max_model_len));
  compare("max-num-batched-tokens", absl::StrCat(from.max_num_batched_tokens),
          absl::StrCat(to.max_num_batched_tokens));
  compare("num-pages", TextOf(from.num_pages), TextOf(to.num_pages));
  compare("table-rows", TextOf(from.table_rows), TextOf(to.table_rows));
  compare("vmem-limit-bytes", TextOf(from.vmem_limit_bytes),
          TextOf(to.vmem_limit_bytes));
  compare("num-kv-pages-per-block", TextOf(from.num_kv_pages_per_block),
          TextOf(to.num_kv_pages_per_block));
  compare("num-queries-per-block", TextOf(from.num_queries_per_block),
          TextOf(to.num_queries_per_block));
  return changes;
}

void AddBlocks(const ConfigurationShape& shape, Json& needs) {
  KernelShape kernel = KernelOfOneChip(shape);
  if (!shape.num_kv_pages_per_block.has_value()) {
    const absl::StatusOr<BlockChoice> choice =
        TpuLimits(shape.generation).ChooseBlocks(kernel);
    if (!choice.ok()) return;
    kernel.num_kv_pages_per_block = choice->num_kv_pages_per_block;
    kernel.num_queries_per_block = choice->num_queries_per_block;
    needs["block_reason"] = choice->reason;
  }
  if (!CheckStatic(kernel).empty()) return;
  needs["num_kv_pages_per_block"] = kernel.num_kv_pages_per_block;
  needs["num_queries_per_block"] = kernel.num_queries_per_block;
  needs["vmem_bytes"] = ComputeVmemNeed(shape.generation, kernel).total_bytes();
  needs["vmem_limit_bytes"] = EffectiveVmemLimitBytes(shape.generation, kernel);
}

Json Needs(const ConfigurationShape& shape,
           const std::vector<Finding>& findings) {
  Json needs = Json::object();
  if (HasFinding(findings, "not-a-size")) return needs;
  const int32_t columns = PagesPerSeq(shape);
  needs["pages_per_seq"] = columns;
  needs["smem_bytes"] =
      ComputeSmemNeed(shape.table_rows.value_or(shape.max_num_seqs), columns)
          .total_bytes;
  needs["smem_limit_bytes"] = SmemBytes(shape.generation);
  needs["largest_max_num_seqs"] =
      TpuLimits(shape.generation).LargestMaxNumSeqs(columns);
  if (!HasFinding(findings, "half-a-block") &&
      !HasFinding(findings, "heads-not-divisible")) {
    AddBlocks(shape, needs);
  }
  const auto tokens =
      TokenBuckets({.max_num_batched_tokens = shape.max_num_batched_tokens});
  if (tokens.ok()) needs["token_buckets"] = *tokens;
  const auto sequences = SequenceBuckets(shape.max_num_seqs);
  if (sequences.ok()) needs["sequence_buckets"] = *sequences;
  return needs;
}

Json Report(const ConfigurationShape& shape) {
  const std::vector<Finding> findings = CheckConfiguration(shape);
  Json report;
  report["holds"] = Holds(findings);
  report["findings"] = Json::array();
  for (const Finding& finding : findings) {
    report["findings"].push_back(
        {{"severity",
          finding.severity == Finding::Severity::kError ? "error" : "advice"},
         {"name", finding.name},
         {"text", finding.text}});
  }
  report["needs"] = Needs(shape, findings);
  if (Holds(findings)) return report;
  const std::optional<ConfigurationShape> nearest = NearestThatHolds(shape);
  report["nearest"] = nullptr;
  if (nearest.has_value()) report["nearest"] = Changes(shape, *nearest);
  return report;
}

void PrintText(const Json& report, std::FILE* out) {
  for (const Json& finding : report["findings"]) {
    std::fprintf(out, "%s: %s: %s\n",
                 finding["severity"].get<std::string>().c_str(),
                 finding["name"].get<std::string>().c_str(),
                 finding["text"].get<std::string>().c_str());
  }
  for (const auto& [name, value] : report["needs"].items()) {
    const std::string text =
        value.is_string() ? value.get<std::string>() : value.dump();
    std::fprintf(out, "%-24s %s\n", name.c_str(), text.c_str());
  }
  if (report["holds"].get<bool>()) {
    std::fprintf(out, "the configuration holds\n");
    return;
  }
  if (report["nearest"].is_null()) {
    std::fprintf(out, "no change of one of these numbers makes it hold\n");
    return;
  }
  std::fprintf(out, "nearest configuration that holds:");
  for (const auto& [flag, value] : report["nearest"].items()) {
    const std::string text = value.get<std::string>();
    if (text.empty()) {
      std::fprintf(out, " (without --%s)", flag.c_str());
    } else {
      std::fprintf(out, " --%s %s", flag.c_str(), text.c_str());
    }
  }
  std::fprintf(out, "\n");
}

}  // namespace

int RunConfigReport(const ConfigurationShape& shape,
                    const ConfigReportOptions& options, std::FILE* out) {
  const Json report = Report(shape);
  if (options.json) {
    std::fprintf(out, "%s\n", report.dump(2).c_str());
  } else {
    PrintText(report, out);
  }
  return report["holds"].get<bool>() ? 0 : 1;
}

}  // namespace tidewheel
