#include "tools/limits_csv.h"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "allocator/kv_cache_shape.h"
#include "allocator/status_macros.h"
#include "tools/traces/csv_tokenizer.h"

namespace tidewheel {
namespace {

constexpr std::array<absl::string_view, 16> kRequired = {
    "chip",
    "sweep",
    "q_heads",
    "kv_heads",
    "head_dim",
    "page_size",
    "q_dtype",
    "kv_dtype",
    "max_num_seqs",
    "pages_per_seq",
    "max_num_batched_tokens",
    "bkv_pages",
    "bq",
    "vmem_limit",
    "verdict",
    "error_class"};
constexpr std::array<absl::string_view, 7> kOptional = {
    "libtpu",      "needed_bytes", "limit_bytes", "temp_bytes",
    "alias_bytes", "compile_s",    "kv_scales"};

absl::Status LineError(int64_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

// The columns of the header, and the fields of the record at hand.
class Columns {
 public:
  static absl::StatusOr<Columns> FromHeader(
      std::span<const absl::string_view> names, int64_t line) {
    Columns columns;
    columns.count_ = names.size();
    for (size_t i = 0; i < names.size(); ++i) {
      if (!IsKnown(names[i])) {
        return LineError(
            line, absl::StrCat("unknown column \"", names[i], "\"; known are ",
                               absl::StrJoin(kRequired, ", "), ", ",
                               absl::StrJoin(kOptional, ", ")));
      }
      if (!columns.index_.emplace(std::string(names[i]), i).second) {
        return LineError(line, absl::StrCat("column \"", names[i],
                                            "\" twice; keep one of them"));
      }
    }
    for (const absl::string_view name : kRequired) {
      if (columns.index_.find(std::string(name)) != columns.index_.end()) {
        continue;
      }
      return LineError(line,
                       absl::StrCat("column \"", name,
                                    "\" is missing; the header must name ",
                                    absl::StrJoin(kRequired, ", ")));
    }
    return columns;
  }

  absl::Status SetRecord(std::span<const absl::string_view> fields,
                         int64_t line) {
    if (fields.size() != count_) {
      return LineError(
          line, absl::StrCat(fields.size(), " fields where the header has ",
                             count_, "; one a column"));
    }
    fields_ = fields;
    line_ = line;
    return absl::OkStatus();
  }

  int64_t line() const { return line_; }

  // Empty if the file has no such column.
  absl::string_view Text(absl::string_view name) const {
    const auto column = index_.find(std::string(name));
    return column == index_.end() ? absl::string_view()
                                  : fields_[column->second];
  }

  absl::StatusOr<int64_t> Integer(absl::string_view name, int64_t max) const {
    int64_t value = 0;
    if (absl::SimpleAtoi(Text(name), &value) && value >= 0 && value <= max) {
      return value;
    }
    return Error(name, absl::StrCat("not a whole number in [0, ", max, "]"));
  }

  absl::Status Error(absl::string_view name, absl::string_view what) const {
    return LineError(line_, absl::StrCat("column ", name, " is \"", Text(name),
                                         "\", ", what));
  }

 private:
  static bool IsKnown(absl::string_view name) {
    for (const absl::string_view known : kRequired) {
      if (name == known) return true;
    }
    for (const absl::string_view known : kOptional) {
      if (name == known) return true;
    }
    return false;
  }

  std::map<std::string, size_t> index_;
  size_t count_ = 0;
  std::span<const absl::string_view> fields_;
  int64_t line_ = 0;
};

absl::StatusOr<KvDtype> ReadKvDtype(const Columns& columns) {
  constexpr std::array<std::pair<absl::string_view, KvDtype>, 5> kNames = {
      {{"f32", KvDtype::kF32},
       {"bf16", KvDtype::kBf16},
       {"fp8", KvDtype::kFp8E4m3},
       {"e5m2", KvDtype::kFp8E5m2},
       {"i8", KvDtype::kInt8}}};
  for (const auto& [name, dtype] : kNames) {
    if (columns.Text("kv_dtype") == name) return dtype;
  }
  return columns.Error("kv_dtype", "not f32, bf16, fp8, e5m2 or i8");
}

absl::StatusOr<QueryDtype> ReadQueryDtype(const Columns& columns) {
  constexpr std::array<std::pair<absl::string_view, QueryDtype>, 4> kNames = {
      {{"f32", QueryDtype::kF32},
       {"bf16", QueryDtype::kBf16},
       {"f16", QueryDtype::kF16},
       {"fp8", QueryDtype::kFp8E4m3}}};
  for (const auto& [name, dtype] : kNames) {
    if (columns.Text("q_dtype") == name) return dtype;
  }
  return columns.Error("q_dtype", "not f32, bf16, f16 or fp8");
}

absl::Status ReadSizes(const Columns& columns, KernelShape& shape) {
  const std::array<std::pair<absl::string_view, int32_t*>, 9> sizes = {
      {{"q_heads", &shape.num_q_heads},
       {"kv_heads", &shape.num_kv_heads},
       {"head_dim", &shape.head_dim},
       {"page_size", &shape.page_size},
       {"max_num_seqs", &shape.max_num_seqs},
       {"pages_per_seq", &shape.pages_per_seq},
       {"max_num_batched_tokens", &shape.max_num_batched_tokens},
       {"bkv_pages", &shape.num_kv_pages_per_block},
       {"bq", &shape.num_queries_per_block}}};
  for (const auto& [name, size] : sizes) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        const int64_t value,
        columns.Integer(name, std::numeric_limits<int32_t>::max()));
    *size = static_cast<int32_t>(value);
  }
  if (!columns.Text("vmem_limit").empty()) {
    TIDEWHEEL_ASSIGN_OR_RETURN(
        shape.vmem_limit_bytes,
        columns.Integer("vmem_limit", std::numeric_limits<int64_t>::max()));
  }
  return absl::OkStatus();
}

absl::Status ReadOutcome(const Columns& columns, CompileVerdict& row) {
  const absl::string_view verdict = columns.Text("verdict");
  row.ok = verdict == "ok";
  row.timed_out = verdict == "timeout";
  if (!row.ok && !row.timed_out && verdict != "fail" && verdict != "refused") {
    return columns.Error("verdict", "not ok, fail, refused or timeout");
  }
  row.error_class = std::string(columns.Text("error_class"));
  if (row.ok && !row.error_class.empty()) {
    return columns.Error("error_class", "which contradicts the verdict ok");
  }
  if (!row.ok && row.error_class.empty()) {
    return columns.Error("error_class",
                         "which contradicts a verdict that is not ok");
  }
  return absl::OkStatus();
}

absl::StatusOr<CompileVerdict> ReadRow(const Columns& columns) {
  CompileVerdict row;
  row.line = columns.line();
  row.sweep = std::string(columns.Text("sweep"));
  row.libtpu = std::string(columns.Text("libtpu"));
  if (row.sweep.empty()) {
    return columns.Error("sweep", "which must say why the row exists");
  }
  absl::StatusOr<TpuGeneration> generation =
      ParseTpuGeneration(columns.Text("chip"));
  if (!generation.ok()) {
    return LineError(row.line, generation.status().message());
  }
  row.generation = *generation;
  TIDEWHEEL_RETURN_IF_ERROR(ReadSizes(columns, row.shape));
  TIDEWHEEL_ASSIGN_OR_RETURN(row.shape.q_dtype, ReadQueryDtype(columns));
  TIDEWHEEL_ASSIGN_OR_RETURN(row.shape.kv_dtype, ReadKvDtype(columns));
  const absl::string_view scales = columns.Text("kv_scales");
  if (!scales.empty() && scales != "none" && scales != "both") {
    return columns.Error("kv_scales", "not none or both");
  }
  row.shape.has_kv_scales = scales == "both";
  row.shape.scope = ProgramScope::kKernelAlone;
  TIDEWHEEL_RETURN_IF_ERROR(ReadOutcome(columns, row));
  return row;
}

}  // namespace

std::string CompileVerdict::ShapeName() const {
  return absl::StrCat(
      TpuGenerationName(generation), libtpu.empty() ? "" : " ", libtpu,
      " heads ", shape.num_q_heads, ",", shape.num_kv_heads, " x ",
      shape.head_dim, " ", QueryDtypeName(shape.q_dtype), "/",
      KvDtypeName(shape.kv_dtype), " pages of ", shape.page_size, " table ",
      shape.max_num_seqs, " x ", shape.pages_per_seq, " tokens ",
      shape.max_num_batched_tokens, " blocks ", shape.num_kv_pages_per_block,
      " x ", shape.num_queries_per_block);
}

absl::StatusOr<std::vector<CompileVerdict>> ReadLimitsCsv(
    absl::string_view text) {
  CsvTokenizer csv(text);
  std::vector<CompileVerdict> rows;
  std::optional<Columns> columns;
  while (true) {
    absl::StatusOr<bool> more = csv.Next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (!columns.has_value()) {
      TIDEWHEEL_ASSIGN_OR_RETURN(columns,
                                 Columns::FromHeader(csv.fields(), csv.line()));
      continue;
    }
    TIDEWHEEL_RETURN_IF_ERROR(columns->SetRecord(csv.fields(), csv.line()));
    TIDEWHEEL_ASSIGN_OR_RETURN(CompileVerdict row, ReadRow(*columns));
    rows.push_back(std::move(row));
  }
  if (!columns.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("line 1: no header; the first line must name the columns ",
                     absl::StrJoin(kRequired, ", ")));
  }
  return rows;
}

}  // namespace tidewheel
