#include "tools/nearest_configuration.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "attention/limit_finding.h"
#include "attention/tpu_limits.h"

namespace tidewheel {
namespace {

using Mended = std::optional<ConfigurationShape>;

int32_t ClampToInt32(int64_t value) {
  return static_cast<int32_t>(
      std::min<int64_t>(value, std::numeric_limits<int32_t>::max()));
}

int64_t UsablePages(const ConfigurationShape& shape) {
  return *shape.num_pages - 1;
}

Mended MendTable(ConfigurationShape shape) {
  if (shape.table_rows.has_value() && shape.max_num_seqs > *shape.table_rows) {
    shape.max_num_seqs = *shape.table_rows;
    return shape;
  }
  const TpuLimits limits(shape.generation);
  const int32_t rows = shape.table_rows.value_or(shape.max_num_seqs);
  const int32_t fewer_rows = limits.LargestMaxNumSeqs(PagesPerSeq(shape));
  const std::optional<int32_t> page_size =
      limits.SmallestPageSize({.max_model_len = shape.max_model_len,
                               .max_num_seqs = rows,
                               .at_least = shape.page_size});
  if (fewer_rows == 0 && !page_size.has_value()) return std::nullopt;
  // page_size / old <= rows / fewer_rows, without a division.
  const bool larger_pages =
      page_size.has_value() &&
      int64_t{*page_size} * fewer_rows <= int64_t{rows} * shape.page_size;
  if (larger_pages) {
    shape.page_size = *page_size;
    // Blocks keep their tokens.
    shape.num_kv_pages_per_block.reset();
    shape.num_queries_per_block.reset();
    return shape;
  }
  if (fewer_rows == 0) return std::nullopt;
  shape.max_num_seqs = std::min(shape.max_num_seqs, fewer_rows);
  if (shape.table_rows.has_value()) shape.table_rows = fewer_rows;
  return shape;
}

Mended MendCache(ConfigurationShape shape, const std::string& name) {
  const int64_t usable = UsablePages(shape);
  if (usable == 0) {
    // A pool of the null page alone: there is nothing to scale down to.
    shape.num_pages = int64_t{PagesPerSeq(shape)} + 1;
    return shape;
  }
  if (name == "cache-smaller-than-its-rows") {
    shape.max_num_seqs = ClampToInt32(usable);
  } else if (name == "cache-smaller-than-a-sequence") {
    shape.max_model_len = ClampToInt32(usable * shape.page_size);
  } else {
    shape.max_num_batched_tokens = ClampToInt32(usable * shape.page_size);
  }
  return shape;
}

// Whether the heads of the shape divide and tile.
bool HeadsHold(const ConfigurationShape& shape) {
  for (const Finding& finding : CheckConfiguration(shape)) {
    if (finding.name == "heads-not-divisible" ||
        finding.name == LimitClassName(LimitClass::kHeadsNotTileable) ||
        finding.name == LimitClassName(LimitClass::kBlockShape) ||
        finding.name == LimitClassName(LimitClass::kHeadDimNot128)) {
      return false;
    }
  }
  return true;
}

Mended MendHeads(const ConfigurationShape& shape) {
  ConfigurationShape wider = shape;
  wider.kv_dtype = KvDtype::kBf16;
  if (HeadsHold(wider)) return wider;
  // The nearest number of chips: fewer or more by the smallest factor.
  for (const bool keep_dtype : {true, false}) {
    std::vector<int32_t> candidates;
    for (int32_t chips = 1; chips <= shape.num_q_heads; ++chips) {
      if (shape.num_q_heads % chips == 0) candidates.push_back(chips);
    }
    std::stable_sort(
        candidates.begin(), candidates.end(), [&shape](int32_t a, int32_t b) {
          const auto factor = [&shape](int32_t chips) {
            const double ratio =
                static_cast<double>(chips) / static_cast<double>(shape.chips);
            return std::max(ratio, 1.0 / ratio);
          };
          return factor(a) < factor(b);
        });
    for (const int32_t chips : candidates) {
      ConfigurationShape other = keep_dtype ? shape : wider;
      other.chips = chips;
      if (HeadsHold(other)) return other;
    }
  }
  return std::nullopt;
}

Mended MendBlocks(ConfigurationShape shape) {
  if (shape.num_kv_pages_per_block.has_value() ||
      shape.num_queries_per_block.has_value()) {
    shape.num_kv_pages_per_block.reset();
    shape.num_queries_per_block.reset();
    return shape;
  }
  // No blocks fit the limit: take what the chip has.
  const int64_t chip = VmemBytes(shape.generation);
  if (shape.vmem_limit_bytes == chip) return std::nullopt;
  shape.vmem_limit_bytes = chip;
  return shape;
}

// One change that answers `error`.
Mended Mend(ConfigurationShape shape, const Finding& error) {
  const std::string& name = error.name;
  if (name == "max-num-seqs-above-table-rows") return MendTable(shape);
  if (absl::StartsWith(name, "cache-smaller-than-")) {
    return MendCache(shape, name);
  }
  if (name == "heads-not-divisible" ||
      name == LimitClassName(LimitClass::kHeadsNotTileable) ||
      name == LimitClassName(LimitClass::kBlockShape) ||
      name == LimitClassName(LimitClass::kHeadDimNot128)) {
    return MendHeads(shape);
  }
  if (name == "vmem-limit-of-another-generation") {
    shape.vmem_limit_bytes.reset();
    return shape;
  }
  if (name == "block-larger-than-sequence") {
    shape.num_kv_pages_per_block = PagesPerSeq(shape);
    return shape;
  }
  if (name == LimitClassName(LimitClass::kFp8Matmul)) {
    shape.has_kv_scales = true;
    return shape;
  }
  if (name == LimitClassName(LimitClass::kHeadDimOrQDtype)) {
    shape.q_dtype = QueryDtype::kBf16;
    return shape;
  }
  if (name == "half-a-block" ||
      name == LimitClassName(LimitClass::kOneTokenBlock) ||
      name == LimitClassName(LimitClass::kScopedVmem) ||
      name == LimitClassName(LimitClass::kVmem)) {
    return MendBlocks(shape);
  }
  return std::nullopt;
}

}  // namespace

std::optional<ConfigurationShape> NearestThatHolds(
    const ConfigurationShape& shape) {
  // Each change answers one error for good, but for a smaller page table or
  // cache that another change asks for; twice the kinds is enough.
  constexpr int kMaxChanges = 24;
  ConfigurationShape nearest = shape;
  for (int i = 0; i < kMaxChanges; ++i) {
    const std::vector<Finding> findings = CheckConfiguration(nearest);
    if (Holds(findings)) return nearest;
    const Mended mended = Mend(nearest, findings.front());
    if (!mended.has_value()) return std::nullopt;
    nearest = *mended;
  }
  return std::nullopt;
}

}  // namespace tidewheel
