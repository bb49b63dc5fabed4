#include "attention/block_choice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "attention/limit_finding.h"
#include "attention/shape_rules.h"

namespace tidewheel {
namespace {

constexpr int32_t kPreferredQueries = 32;
constexpr int32_t kPreferredTokens = 512;
// Below these, vectors are padded: a smaller block saves little.
constexpr int32_t kVectorTokens = 128;
constexpr int32_t kVectorQueries = 8;

int32_t PowerOfTwoAtMost(int32_t value) {
  int32_t power = 1;
  while (power <= value / 2) power *= 2;
  return power;
}

struct Search {
  KernelShape shape;
  int32_t min_pages = 1;  // 2 where a block of one token does not compile

  bool HalvePages(int32_t floor_tokens) {
    const int32_t half = shape.num_kv_pages_per_block / 2;
    if (half < min_pages) return false;
    if (int64_t{half} * shape.page_size < floor_tokens) return false;
    shape.num_kv_pages_per_block = half;
    return true;
  }
  bool HalveQueries(int32_t floor_queries) {
    const int32_t half = shape.num_queries_per_block / 2;
    if (half < floor_queries) return false;
    shape.num_queries_per_block = half;
    return true;
  }
  // The next smaller block, or false at the smallest.
  bool Shrink() {
    return HalvePages(kVectorTokens) || HalveQueries(kVectorQueries) ||
           HalvePages(1) || HalveQueries(1);
  }
};

Search Preferred(const KernelShape& shape) {
  Search search = {.shape = shape};
  search.min_pages = shape.page_size == 1 && shape.pages_per_seq > 1 ? 2 : 1;
  const int32_t pages = std::clamp(kPreferredTokens / shape.page_size,
                                   search.min_pages, shape.pages_per_seq);
  search.shape.num_kv_pages_per_block = PowerOfTwoAtMost(pages);
  search.shape.num_queries_per_block = PowerOfTwoAtMost(
      std::min(kPreferredQueries, shape.max_num_batched_tokens));
  return search;
}

std::string Describe(const KernelShape& shape) {
  return absl::StrCat(shape.num_kv_pages_per_block, " pages (",
                      shape.num_kv_pages_per_block * shape.page_size,
                      " tokens) x ", shape.num_queries_per_block, " queries");
}

}  // namespace

absl::StatusOr<BlockChoice> ChooseBlocks(TpuGeneration generation,
                                         const KernelShape& shape) {
  KernelShape smallest = shape;
  smallest.num_kv_pages_per_block = 1;
  smallest.num_queries_per_block = 1;
  for (const LimitFinding& finding : CheckStatic(smallest)) {
    return absl::InvalidArgumentError(finding.text);
  }
  Search search = Preferred(shape);
  for (const LimitFinding& finding : CheckShape(generation, search.shape)) {
    return absl::InvalidArgumentError(finding.text);
  }
  const std::string preferred = Describe(search.shape);
  const int64_t limit = EffectiveVmemLimitBytes(generation, shape);
  VmemNeed need = ComputeVmemNeed(generation, search.shape);
  bool shrunk = false;
  while (need.total_bytes() > limit) {
    if (!search.Shrink()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "even blocks of ", Describe(search.shape), " need ",
          need.total_bytes(), " bytes of vector memory, above the limit of ",
          limit, " on ", TpuGenerationName(generation),
          "; raise vmem_limit_bytes or shard the heads over more chips"));
    }
    shrunk = true;
    need = ComputeVmemNeed(generation, search.shape);
  }
  return BlockChoice{
      .num_kv_pages_per_block = search.shape.num_kv_pages_per_block,
      .num_queries_per_block = search.shape.num_queries_per_block,
      .need = need,
      .limit_bytes = limit,
      .reason = absl::StrCat(
          Describe(search.shape), " need ", need.total_bytes(), " of ", limit,
          " bytes of vector memory",
          shrunk
              ? absl::StrCat(", where the preferred ", preferred, " do not fit")
              : ", the preferred size")};
}

}  // namespace tidewheel
