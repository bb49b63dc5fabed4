#include "tools/config_check.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "allocator/check.h"
#include "attention/padding_buckets.h"
#include "attention/shape_rules.h"
#include "attention/smem_rule.h"
#include "attention/tpu_limits.h"
#include "attention/vmem_rule.h"

namespace tidewheel {
namespace {

constexpr int32_t kLanes = 128;
// Beyond these, products of sizes would leave int64_t; no model is near.
constexpr int32_t kMaxHeads = 1 << 16;
constexpr int32_t kMaxHeadDim = 1 << 20;
constexpr int32_t kMaxModelLen = 1 << 30;
constexpr int32_t kMaxRows = 1 << 24;

class FindingList {
 public:
  template <typename... Parts>
  void Error(absl::string_view name, const Parts&... parts) {
    Add(Finding::Severity::kError, name, absl::StrCat(parts...));
  }
  template <typename... Parts>
  void Advise(absl::string_view name, const Parts&... parts) {
    Add(Finding::Severity::kAdvice, name, absl::StrCat(parts...));
  }
  bool has_error() const { return !Holds(findings_); }
  std::vector<Finding> Take() {
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) {
                       return a.severity < b.severity;
                     });
    return std::move(findings_);
  }

 private:
  void Add(Finding::Severity severity, absl::string_view name,
           std::string text) {
    findings_.push_back({severity, std::string(name), std::move(text)});
  }
  std::vector<Finding> findings_;
};

int32_t PadHeadDim(int32_t head_dim) {
  return (head_dim - 1) / kLanes * kLanes + kLanes;
}

bool HasBlocks(const ConfigurationShape& shape) {
  return shape.num_kv_pages_per_block.has_value() &&
         shape.num_queries_per_block.has_value();
}

void CheckPositive(absl::string_view name, int64_t value,
                   FindingList& findings) {
  if (value > 0) return;
  findings.Error("not-a-size", name, " ", value,
                 " is not positive; give at least 1");
}

void CheckSizes(const ConfigurationShape& shape, FindingList& findings) {
  CheckPositive("chips", shape.chips, findings);
  CheckPositive("num_q_heads", shape.num_q_heads, findings);
  CheckPositive("num_kv_heads", shape.num_kv_heads, findings);
  CheckPositive("head_dim", shape.head_dim, findings);
  CheckPositive("max_num_seqs", shape.max_num_seqs, findings);
  CheckPositive("page_size", shape.page_size, findings);
  CheckPositive("max_model_len", shape.max_model_len, findings);
  CheckPositive("max_num_batched_tokens", shape.max_num_batched_tokens,
                findings);
  if (shape.num_pages.has_value()) {
    CheckPositive("num_pages", *shape.num_pages, findings);
  }
  if (shape.table_rows.has_value()) {
    CheckPositive("table rows", *shape.table_rows, findings);
  }
  for (const int32_t rows :
       {shape.max_num_seqs, shape.table_rows.value_or(1)}) {
    if (rows <= kMaxRows) continue;
    findings.Error("not-a-size", rows, " sequences exceed ", kMaxRows,
                   "; no page table has as many rows");
  }
  if (shape.vmem_limit_bytes.has_value()) {
    CheckPositive("vmem_limit_bytes (leave it out for the default)",
                  *shape.vmem_limit_bytes, findings);
  }
  if (shape.num_q_heads > kMaxHeads) {
    findings.Error("not-a-size", "num_q_heads ", shape.num_q_heads, " exceeds ",
                   kMaxHeads, "; give the model's");
  }
  if (shape.head_dim > kMaxHeadDim) {
    findings.Error("not-a-size", "head_dim ", shape.head_dim, " exceeds ",
                   kMaxHeadDim, "; give the model's");
  }
  if (shape.max_model_len > kMaxModelLen) {
    findings.Error("not-a-size", "max_model_len ", shape.max_model_len,
                   " exceeds ", kMaxModelLen, "; give the model's length");
  }
  if (shape.num_kv_pages_per_block.has_value() !=
      shape.num_queries_per_block.has_value()) {
    findings.Error("half-a-block",
                   "only one of num_kv_pages_per_block and "
                   "num_queries_per_block is given; the kernel would replace "
                   "both, so give both or neither");
  }
}

void CheckHeads(const ConfigurationShape& shape, FindingList& findings) {
  if (shape.num_q_heads % shape.num_kv_heads != 0) {
    findings.Error("heads-not-divisible", "num_q_heads ", shape.num_q_heads,
                   " is not a multiple of num_kv_heads ", shape.num_kv_heads,
                   "; check the model's configuration");
    return;
  }
  if (shape.num_q_heads % shape.chips != 0) {
    findings.Error("heads-not-divisible", shape.num_q_heads,
                   " query heads do not divide over ", shape.chips,
                   " chips; use a number of chips that divides them");
  }
  if (shape.num_kv_heads % shape.chips != 0 &&
      shape.chips % shape.num_kv_heads != 0) {
    findings.Error("heads-not-divisible", shape.num_kv_heads,
                   " KV heads neither divide over ", shape.chips,
                   " chips nor repeat on them; use a number of chips that "
                   "divides them or is a multiple");
  }
}

// A limit that is right somewhere else.
void CheckVmemLimit(const ConfigurationShape& shape, FindingList& findings) {
  if (!shape.vmem_limit_bytes.has_value()) return;
  const int64_t limit = *shape.vmem_limit_bytes;
  std::vector<absl::string_view> defaults;
  std::vector<absl::string_view> fits;
  for (const TpuGeneration other : AllTpuGenerations()) {
    if (limit == DefaultVmemLimitBytes(other)) {
      defaults.push_back(TpuGenerationName(other));
    }
    if (limit <= VmemBytes(other)) fits.push_back(TpuGenerationName(other));
  }
  const absl::string_view name = TpuGenerationName(shape.generation);
  const int64_t chip = VmemBytes(shape.generation);
  const int64_t own = DefaultVmemLimitBytes(shape.generation);
  if (limit > chip) {
    findings.Error("vmem-limit-of-another-generation", "vmem_limit_bytes ",
                   limit, " exceeds the ", chip, " bytes of ", name,
                   fits.empty() ? ""
                                : absl::StrCat(" (it would suit ",
                                               absl::StrJoin(fits, ", "), ")"),
                   "; lower it to at most ", chip,
                   ", or leave it out for the default of ", own);
  } else if (!defaults.empty() && limit != own) {
    findings.Advise("vmem-limit-of-another-generation", "vmem_limit_bytes ",
                    limit, " is the default of ", absl::StrJoin(defaults, ", "),
                    ", but that of ", name, " is ", own,
                    "; leave it out for the default");
  }
}

void CheckTable(const ConfigurationShape& shape, FindingList& findings) {
  const int32_t columns = PagesPerSeq(shape);
  if (shape.table_rows.has_value() && shape.max_num_seqs > *shape.table_rows) {
    findings.Error("max-num-seqs-above-table-rows", "max_num_seqs ",
                   shape.max_num_seqs, " exceeds the ", *shape.table_rows,
                   " rows of the page table; lower it to ", *shape.table_rows,
                   " or compile for more rows");
  }
  const int32_t rows = shape.table_rows.value_or(shape.max_num_seqs);
  const int32_t most = TpuLimits(shape.generation).LargestMaxNumSeqs(columns);
  if (rows > most) {
    KernelShape kernel;
    kernel.max_num_seqs = rows;
    kernel.pages_per_seq = columns;
    kernel.page_size = shape.page_size;
    findings.Error("max-num-seqs-above-table-rows",
                   CheckSmem(shape.generation, kernel)->text);
  }
}

void CheckCache(const ConfigurationShape& shape, FindingList& findings) {
  if (!shape.num_pages.has_value()) return;
  // The null page is never lent.
  const int64_t usable = *shape.num_pages - 1;
  const int64_t tokens =
      usable > std::numeric_limits<int64_t>::max() / shape.page_size
          ? std::numeric_limits<int64_t>::max()
          : usable * shape.page_size;
  const int32_t columns = PagesPerSeq(shape);
  if (usable < columns) {
    findings.Error("cache-smaller-than-a-sequence", "num_pages ",
                   *shape.num_pages, " leaves ", usable, " usable pages (",
                   tokens, " tokens), but a sequence of max_model_len ",
                   shape.max_model_len, " needs ", columns,
                   "; raise num_pages to ", int64_t{columns} + 1,
                   " or lower max_model_len to ", tokens);
  }
  if (usable < shape.max_num_seqs) {
    findings.Error(
        "cache-smaller-than-its-rows", "num_pages ", *shape.num_pages,
        " leaves ", usable, " usable pages, not one for each of max_num_seqs ",
        shape.max_num_seqs, " sequences; raise num_pages to ",
        int64_t{shape.max_num_seqs} + 1, " or lower max_num_seqs to ", usable);
  }
  if (tokens < shape.max_num_batched_tokens) {
    findings.Error(
        "cache-smaller-than-a-step", "num_pages ", *shape.num_pages, " holds ",
        tokens, " tokens, fewer than one step of max_num_batched_tokens ",
        shape.max_num_batched_tokens, " writes; raise num_pages to ",
        (int64_t{shape.max_num_batched_tokens} + shape.page_size - 1) /
                shape.page_size +
            1,
        " or lower max_num_batched_tokens to ", tokens);
  }
}

void CheckBudget(const ConfigurationShape& shape, FindingList& findings) {
  if (shape.max_num_batched_tokens < shape.max_num_seqs) {
    findings.Advise("budget-below-rows", "max_num_batched_tokens ",
                    shape.max_num_batched_tokens, " is below max_num_seqs ",
                    shape.max_num_seqs,
                    ", so a step can not decode every sequence; raise it to ",
                    shape.max_num_seqs, " or lower max_num_seqs");
  }
  const auto buckets =
      TokenBuckets({.max_num_batched_tokens = shape.max_num_batched_tokens});
  if (buckets.ok() && buckets->back() != shape.max_num_batched_tokens) {
    findings.Advise("budget-not-a-bucket", "max_num_batched_tokens ",
                    shape.max_num_batched_tokens, " is padded to ",
                    buckets->back(),
                    " tokens in every full step; use that, or ",
                    buckets->size() > 1 ? (*buckets)[buckets->size() - 2]
                                        : buckets->back());
  }
}

// The rules of the kernel, whose table is CheckTable's.
void CheckKernel(const ConfigurationShape& shape, FindingList& findings) {
  const KernelShape kernel = KernelOfOneChip(shape);
  if (HasBlocks(shape) &&
      *shape.num_kv_pages_per_block > kernel.pages_per_seq) {
    findings.Error("block-larger-than-sequence", "num_kv_pages_per_block ",
                   *shape.num_kv_pages_per_block, " exceeds pages_per_seq ",
                   kernel.pages_per_seq, " (max_model_len ",
                   shape.max_model_len, " / page_size ", shape.page_size,
                   "); lower it to at most ", kernel.pages_per_seq);
    return;
  }
  const TpuLimits limits(shape.generation);
  if (HasBlocks(shape)) {
    for (LimitFinding& finding : limits.Findings(kernel)) {
      if (finding.limit_class == LimitClass::kSmem ||
          finding.limit_class == LimitClass::kSmemOneAllocation) {
        continue;
      }
      findings.Error(LimitClassName(finding.limit_class), finding.text);
    }
    return;
  }
  // Without blocks only what no choice of them mends.
  KernelShape any = kernel;
  any.num_kv_pages_per_block = std::min(2, kernel.pages_per_seq);
  bool mendable = true;
  for (LimitFinding& finding : CheckShape(shape.generation, any)) {
    mendable = false;
    findings.Error(LimitClassName(finding.limit_class), finding.text);
  }
  if (!mendable) return;
  const absl::StatusOr<BlockChoice> choice = limits.ChooseBlocks(kernel);
  if (!choice.ok()) {
    findings.Error(LimitClassName(LimitClass::kScopedVmem),
                   choice.status().message());
  }
}

}  // namespace

bool Holds(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) {
                        return finding.severity == Finding::Severity::kError;
                      });
}

int32_t PagesPerSeq(const ConfigurationShape& shape) {
  TIDEWHEEL_CHECK_GT(shape.max_model_len, 0);
  TIDEWHEEL_CHECK_GT(shape.page_size, 0);
  return (shape.max_model_len - 1) / shape.page_size + 1;
}

KernelShape KernelOfOneChip(const ConfigurationShape& shape) {
  KernelShape kernel;
  kernel.num_q_heads = shape.num_q_heads / shape.chips;
  kernel.num_kv_heads = std::max(1, shape.num_kv_heads / shape.chips);
  kernel.head_dim = PadHeadDim(shape.head_dim);
  kernel.page_size = shape.page_size;
  kernel.q_dtype = shape.q_dtype;
  kernel.kv_dtype = shape.kv_dtype;
  kernel.has_kv_scales = shape.has_kv_scales;
  kernel.max_num_seqs = shape.table_rows.value_or(shape.max_num_seqs);
  kernel.pages_per_seq = PagesPerSeq(shape);
  kernel.max_num_batched_tokens = shape.max_num_batched_tokens;
  kernel.vmem_limit_bytes = shape.vmem_limit_bytes;
  kernel.num_kv_pages_per_block = shape.num_kv_pages_per_block.value_or(1);
  kernel.num_queries_per_block = shape.num_queries_per_block.value_or(1);
  return kernel;
}

std::vector<Finding> CheckConfiguration(const ConfigurationShape& shape) {
  FindingList findings;
  CheckSizes(shape, findings);
  if (findings.has_error()) return findings.Take();
  CheckHeads(shape, findings);
  CheckTable(shape, findings);
  CheckCache(shape, findings);
  CheckVmemLimit(shape, findings);
  CheckBudget(shape, findings);
  if (shape.head_dim % kLanes != 0) {
    findings.Advise("head-dim-padded", "head_dim ", shape.head_dim,
                    " is stored and computed as ", PadHeadDim(shape.head_dim),
                    ", so KV takes ", PadHeadDim(shape.head_dim), "/",
                    shape.head_dim,
                    " of its size; count pages with the padded size");
  }
  const bool heads_divide = shape.num_q_heads % shape.num_kv_heads == 0 &&
                            shape.num_q_heads % shape.chips == 0 &&
                            (shape.num_kv_heads % shape.chips == 0 ||
                             shape.chips % shape.num_kv_heads == 0);
  if (heads_divide) CheckKernel(shape, findings);
  return findings.Take();
}

}  // namespace tidewheel
