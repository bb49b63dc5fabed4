#include "tools/plan_report.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/byte_size.h"

namespace tidewheel {
namespace {

// 16060522496 -> "16,060,522,496".
std::string WithCommas(int64_t value) {
  const std::string digits = absl::StrCat(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

void AppendLine(std::string& text, absl::string_view label, int64_t value,
                absl::string_view unit, absl::string_view remark) {
  const std::string line = absl::StrFormat("  %-22s %18s %-6s  %s", label,
                                           WithCommas(value), unit, remark);
  absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
}

std::string Percent(double part, double whole) {
  return absl::StrFormat("%.1f %%", 100 * part / whole);
}

// What stands behind the bytes of a token.
std::string TokenRemark(const ServerPlan& plan) {
  const KvCacheShape& kv = plan.kv;
  std::string remark =
      absl::StrFormat("%d layers x %d K and V heads x %d x %d B",
                      kv.options().num_layers, kv.stored_combined_heads(),
                      kv.stored_head_dim(), KvDtypeBytes(kv.options().dtype));
  const int64_t padding = kv.bytes_per_token() - kv.unpadded_bytes_per_token();
  if (padding > 0) {
    absl::StrAppend(&remark, ", ",
                    Percent(static_cast<double>(padding),
                            static_cast<double>(kv.bytes_per_token())),
                    " padding");
  }
  if (kv.replication() > 1) {
    absl::StrAppend(&remark, ", each head on ", kv.replication(), " devices");
  }
  return remark;
}

void AppendModel(std::string& text, const ModelConfig& model,
                 const ServerPlanOptions& options, const ServerPlan& plan) {
  const ModelShape& shape = model.shape;
  absl::StrAppendFormat(&text, "Model %s: %s parameters", shape.options().name,
                        WithCommas(shape.total_params()));
  if (shape.active_params() != shape.total_params()) {
    absl::StrAppendFormat(&text, ", %s of them for each token",
                          WithCommas(shape.active_params()));
  }
  absl::StrAppendFormat(&text, "\nOn %d x %s", options.chips,
                        options.chip.name);
  if (plan.devices != options.chips) {
    absl::StrAppendFormat(&text, ", which are %d devices", plan.devices);
  }
  absl::StrAppendFormat(&text, "; KV in %s\n\n", KvDtypeName(options.kv_dtype));
}

void AppendCapacity(std::string& text, const ServerPlan& plan) {
  const CapacityPlan& c = plan.capacity;
  absl::StrAppend(&text, "Memory of a device\n");
  AppendLine(text, "HBM", c.hbm_bytes, "B", FormatByteSize(c.hbm_bytes));
  AppendLine(text, absl::StrFormat("x utilisation %g", c.hbm_utilization),
             c.budget_bytes, "B", FormatByteSize(c.budget_bytes));
  AppendLine(text, "- weights", c.weight_bytes, "B",
             FormatByteSize(c.weight_bytes));
  AppendLine(text, "- reserve", c.reserve_bytes, "B",
             plan.reserve_is_estimate
                 ? absl::StrFormat("activations of %d tokens, estimated",
                                   plan.max_num_batched_tokens)
                 : "as given");
  AppendLine(text, "= for KV pages", c.kv_budget_bytes, "B",
             FormatByteSize(c.kv_budget_bytes));
  absl::StrAppend(&text, "\nKV cache\n");
  AppendLine(text, "KV of a token", c.bytes_per_token, "B", TokenRemark(plan));
  AppendLine(text, "x page size", c.page_size, "tokens",
             plan.page_size_is_chosen
                 ? "chosen: the smallest from 16 whose table fits"
                 : "as given");
  AppendLine(text, "= KV of a page", c.bytes_per_page, "B", "");
  AppendLine(text, "pages", c.total_num_pages, "",
             absl::StrCat(FormatByteSize(c.kv_bytes), ", ",
                          FormatByteSize(c.unused_bytes), " left"));
  AppendLine(text, "- null page", c.total_num_pages - c.usable_num_pages, "",
             "page 0 is never lent");
  AppendLine(text, "= usable pages", c.usable_num_pages, "", "");
  AppendLine(text, "= usable tokens", c.usable_tokens, "", "");
}

void AppendPageTable(std::string& text, const ServerPlan& plan) {
  absl::StrAppend(&text, "\nPage table\n");
  AppendLine(text, "max_num_seqs", plan.max_num_seqs, "rows", "");
  AppendLine(text, "pages_per_seq", plan.pages_per_seq, "pages",
             absl::StrCat("max_model_len ", plan.max_model_len, " / page size ",
                          plan.page_size));
  AppendLine(text, "scalar memory", plan.smem_bytes, "B",
             absl::StrCat("of ", WithCommas(plan.smem_limit_bytes), " B"));
  AppendLine(text, "smallest page size", plan.smallest_page_size, "tokens",
             "whose table fits with these rows");
  AppendLine(text, "largest max_num_seqs", plan.largest_max_num_seqs, "rows",
             "that fit with this page size");
  AppendLine(text, "longest request", plan.longest_request_tokens, "tokens",
             absl::StrFormat("%.2f requests of max_model_len fit",
                             plan.longest_requests_at_once));
}

std::vector<std::string> AllNotes(const ModelConfig& model,
                                  const ServerPlan& plan) {
  std::vector<std::string> notes = model.notes;
  notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
  return notes;
}

}  // namespace

std::string PlanAsText(const ModelConfig& model,
                       const ServerPlanOptions& options,
                       const ServerPlan& plan) {
  std::string text;
  AppendModel(text, model, options, plan);
  AppendCapacity(text, plan);
  AppendPageTable(text, plan);
  const std::vector<std::string> notes = AllNotes(model, plan);
  if (!notes.empty()) absl::StrAppend(&text, "\n");
  for (const std::string& note : notes) {
    absl::StrAppend(&text, "note: ", note, "\n");
  }
  return text;
}

std::string PlanAsJson(const ModelConfig& model,
                       const ServerPlanOptions& options,
                       const ServerPlan& plan) {
  const ModelShape& shape = model.shape;
  const CapacityPlan& c = plan.capacity;
  nlohmann::ordered_json json;
  json["model"] = shape.options().name;
  json["total_params"] = shape.total_params();
  json["active_params"] = shape.active_params();
  json["chip"] = std::string(options.chip.name);
  json["chips"] = options.chips;
  json["devices"] = plan.devices;
  json["hbm_bytes"] = c.hbm_bytes;
  json["hbm_utilization"] = c.hbm_utilization;
  json["budget_bytes"] = c.budget_bytes;
  json["weight_bytes"] = c.weight_bytes;
  json["reserve_bytes"] = c.reserve_bytes;
  json["reserve_is_estimate"] = plan.reserve_is_estimate;
  json["kv_budget_bytes"] = c.kv_budget_bytes;
  json["kv_dtype"] = std::string(KvDtypeName(options.kv_dtype));
  json["kv_heads_per_device"] = plan.kv.kv_heads_per_chip();
  json["kv_replication"] = plan.kv.replication();
  json["bytes_per_token"] = c.bytes_per_token;
  json["unpadded_bytes_per_token"] = c.unpadded_bytes_per_token;
  json["page_size"] = c.page_size;
  json["page_size_is_chosen"] = plan.page_size_is_chosen;
  json["bytes_per_page"] = c.bytes_per_page;
  json["total_num_pages"] = c.total_num_pages;
  json["usable_num_pages"] = c.usable_num_pages;
  json["usable_tokens"] = c.usable_tokens;
  json["unused_bytes"] = c.unused_bytes;
  json["max_num_seqs"] = plan.max_num_seqs;
  json["max_model_len"] = plan.max_model_len;
  json["max_num_batched_tokens"] = plan.max_num_batched_tokens;
  json["pages_per_seq"] = plan.pages_per_seq;
  json["smem_bytes"] = plan.smem_bytes;
  json["smem_limit_bytes"] = plan.smem_limit_bytes;
  json["smallest_page_size"] = plan.smallest_page_size;
  json["largest_max_num_seqs"] = plan.largest_max_num_seqs;
  json["longest_request_tokens"] = plan.longest_request_tokens;
  json["longest_requests_at_once"] = plan.longest_requests_at_once;
  json["notes"] = AllNotes(model, plan);
  // Names and notes may hold any bytes of a path; a replaced byte is better
  // than no plan.
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace tidewheel
