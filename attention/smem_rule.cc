#include "attention/smem_rule.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "allocator/check.h"
#include "allocator/page_table.h"

namespace tidewheel {
namespace {

constexpr int64_t kTableRows = 8;
constexpr int64_t kTableColumns = 128;
constexpr int64_t kEntryBytes = 4;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// How to make it fit: fewer rows, or larger pages for the same length.
std::string Remedy(const KernelShape& shape, int64_t smem_bytes) {
  const int64_t length = int64_t{shape.pages_per_seq} * shape.page_size;
  const int32_t rows = LargestMaxNumSeqs(shape.pages_per_seq, smem_bytes);
  const std::optional<int32_t> page_size = SmallestPageSizeThatFits(
      shape.max_num_seqs, length, shape.page_size, smem_bytes);
  std::string text;
  if (rows > 0) absl::StrAppend(&text, "lower max_num_seqs to ", rows);
  if (page_size.has_value()) {
    absl::StrAppend(&text, text.empty() ? "" : " or ", "raise page_size to ",
                    *page_size, " for the same length of ", length, " tokens");
  }
  if (text.empty()) text = "lower max_num_seqs and the model length";
  return text;
}

}  // namespace

SmemNeed ComputeSmemNeed(int32_t max_num_seqs, int32_t pages_per_seq) {
  TIDEWHEEL_CHECK_GT(max_num_seqs, 0);
  TIDEWHEEL_CHECK_GT(pages_per_seq, 0);
  return {.page_table_bytes = kEntryBytes * RoundUp(max_num_seqs, kTableRows) *
                              RoundUp(pages_per_seq, kTableColumns),
          .total_bytes = PageTableSmemBytes(max_num_seqs, pages_per_seq)};
}

std::optional<LimitFinding> CheckSmem(TpuGeneration generation,
                                      const KernelShape& shape) {
  const int64_t smem_bytes = SmemBytes(generation);
  const SmemNeed need =
      ComputeSmemNeed(shape.max_num_seqs, shape.pages_per_seq);
  if (need.total_bytes <= smem_bytes) return std::nullopt;
  const bool table_alone = need.page_table_bytes > smem_bytes;
  return LimitFinding{
      .limit_class =
          table_alone ? LimitClass::kSmemOneAllocation : LimitClass::kSmem,
      .text = absl::StrCat("a page table of max_num_seqs ", shape.max_num_seqs,
                           " x ", shape.pages_per_seq,
                           " pages_per_seq (padded to 8 rows and 128 "
                           "columns: ",
                           need.page_table_bytes,
                           " bytes) and its companions need ", need.total_bytes,
                           " bytes of scalar memory, above the ", smem_bytes,
                           " of ", TpuGenerationName(generation), "; ",
                           Remedy(shape, smem_bytes))};
}

}  // namespace tidewheel
