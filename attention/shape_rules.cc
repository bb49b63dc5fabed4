#include "attention/shape_rules.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tidewheel {
namespace {

constexpr int32_t kLanes = 128;
constexpr int32_t kSublanes = 8;

// Far above any model and any memory, and small enough that every product in
// the memory rules stays in int64_t: the largest is heads * queries * tokens a
// block, 2^13 * 2^20 * 2^22 vector elements of 4 bytes.
constexpr int64_t kMaxHeads = 1 << 13;
constexpr int64_t kMaxHeadDim = 1 << 13;
constexpr int64_t kMaxTokens = 1 << 22;
constexpr int64_t kMaxQueries = 1 << 20;
constexpr int64_t kMaxTableEntries = int64_t{1} << 31;

class Findings {
 public:
  template <typename... Parts>
  void Add(LimitClass limit_class, const Parts&... parts) {
    findings_.push_back({limit_class, absl::StrCat(parts...)});
  }
  void CheckRange(absl::string_view name, int64_t value, int64_t max) {
    if (value >= 1 && value <= max) return;
    Add(LimitClass::kStaticCheck, name, " ", value, " is outside [1, ", max,
        "]; give the size that the kernel is compiled for");
  }
  bool empty() const { return findings_.empty(); }
  std::vector<LimitFinding> Take() { return std::move(findings_); }

 private:
  std::vector<LimitFinding> findings_;
};

void CheckSizes(const KernelShape& shape, Findings& findings) {
  findings.CheckRange("num_q_heads", shape.num_q_heads, kMaxHeads);
  findings.CheckRange("num_kv_heads", shape.num_kv_heads, kMaxHeads);
  findings.CheckRange("head_dim", shape.head_dim, kMaxHeadDim);
  findings.CheckRange("page_size", shape.page_size, kMaxTokens);
  findings.CheckRange("max_num_seqs", shape.max_num_seqs, kMaxTableEntries);
  findings.CheckRange("pages_per_seq", shape.pages_per_seq, kMaxTableEntries);
  findings.CheckRange("max_num_batched_tokens", shape.max_num_batched_tokens,
                      kMaxTokens);
  findings.CheckRange("num_kv_pages_per_block", shape.num_kv_pages_per_block,
                      kMaxTableEntries);
  findings.CheckRange("num_queries_per_block", shape.num_queries_per_block,
                      kMaxQueries);
  if (!findings.empty()) return;
  findings.CheckRange(
      "tokens of a KV block (page_size * "
      "num_kv_pages_per_block)",
      int64_t{shape.page_size} * shape.num_kv_pages_per_block, kMaxTokens);
  findings.CheckRange(
      "entries of the page table (max_num_seqs * "
      "pages_per_seq)",
      int64_t{shape.max_num_seqs} * shape.pages_per_seq, kMaxTableEntries);
}

// The largest count of at most `kv_heads` that tiles, 0 if none; and the
// smallest above it. Tiling recurs every 8 packed rows, so both loops end.
int32_t TileableBelow(int32_t kv_heads, int32_t packing) {
  while (kv_heads > 0 && !IsXlaFullyTiled(2 * kv_heads, packing)) --kv_heads;
  return kv_heads;
}
int32_t TileableAbove(int32_t kv_heads, int32_t packing) {
  while (!IsXlaFullyTiled(2 * kv_heads, packing)) ++kv_heads;
  return kv_heads;
}

void CheckHeads(const KernelShape& shape, Findings& findings) {
  const std::optional<HeadBlock> block = ChooseHeadBlock(shape);
  if (!block.has_value()) {
    const int32_t packing = KvPacking(shape.kv_dtype);
    const int32_t below = TileableBelow(shape.num_kv_heads, packing);
    const std::string lower =
        below == 0 ? "" : absl::StrCat(" (the next lower is ", below, ")");
    findings.Add(LimitClass::kHeadsNotTileable, "num_kv_heads ",
                 shape.num_kv_heads, " with ", KvDtypeName(shape.kv_dtype),
                 " KV makes ", 2 * shape.num_kv_heads,
                 " combined heads, which must be 1, 2, 4 or a multiple of 8 "
                 "rows of ",
                 packing,
                 " packed elements; shard the model so that a chip "
                 "has ",
                 TileableAbove(shape.num_kv_heads, packing), " KV heads", lower,
                 ", repeat KV heads up to that, or use a wider KV type");
    return;
  }
  if (block->num_q_heads < shape.num_q_heads &&
      block->num_q_heads % kSublanes != 0) {
    findings.Add(LimitClass::kBlockShape, "num_q_heads ", shape.num_q_heads,
                 " over ", shape.num_kv_heads, " ", KvDtypeName(shape.kv_dtype),
                 " KV heads makes head blocks of ", block->num_q_heads,
                 " query heads, which must be a multiple of 8 or all of them; "
                 "use bf16 KV, at most 4 f32 KV heads a chip, or more query "
                 "heads to a KV head");
  }
}

void CheckHeadDimAndTypes(TpuGeneration generation, const KernelShape& shape,
                          Findings& findings) {
  const bool q_ok =
      shape.q_dtype == QueryDtype::kF32 || shape.q_dtype == QueryDtype::kBf16;
  if (!q_ok) {
    findings.Add(LimitClass::kHeadDimOrQDtype, "q dtype ",
                 QueryDtypeName(shape.q_dtype),
                 " is not f32 or bf16; convert the queries to bf16");
  }
  if (shape.head_dim % kLanes != 0) {
    findings.Add(LimitClass::kHeadDimOrQDtype, "head_dim ", shape.head_dim,
                 " is not a multiple of the 128 lanes of a vector; pad queries "
                 "and pages with zeros to ",
                 (shape.head_dim / kLanes + 1) * kLanes);
  }
  const bool is_fp8 = shape.kv_dtype == KvDtype::kFp8E4m3 ||
                      shape.kv_dtype == KvDtype::kFp8E5m2;
  if (generation == TpuGeneration::kV4 && is_fp8 && !shape.has_kv_scales) {
    findings.Add(LimitClass::kFp8Matmul, "kv dtype ",
                 KvDtypeName(shape.kv_dtype),
                 " can not be multiplied on v4; give k_scale and v_scale (1.0 "
                 "will do), so that K and V are converted first, or use bf16 "
                 "or int8 KV");
  }
}

// With one token a block, products are rows of f32 times a broadcast of K, or
// of the queries where a KV head has several, and only f32 can be broadcast.
void CheckOneTokenBlock(const KernelShape& shape, Findings& findings) {
  if (int64_t{shape.page_size} * shape.num_kv_pages_per_block != 1) return;
  const int32_t group = shape.num_q_heads / shape.num_kv_heads;
  const bool is_one_row = group == 1 && shape.num_queries_per_block == 1;
  const bool is_f32_q = shape.q_dtype == QueryDtype::kF32;
  // Scaled K is of the queries' type.
  const bool is_f32_k =
      shape.has_kv_scales ? is_f32_q : shape.kv_dtype == KvDtype::kF32;
  const bool is_int8_k =
      !shape.has_kv_scales && shape.kv_dtype == KvDtype::kInt8;
  const bool takes_k = is_f32_k || (is_one_row && !is_int8_k);
  const bool takes_q = is_f32_q || group == 1;
  if (takes_k && takes_q) return;
  findings.Add(LimitClass::kOneTokenBlock,
               "a KV block of 1 token (page_size 1, num_kv_pages_per_block 1) "
               "needs f32 queries and KV, not ",
               QueryDtypeName(shape.q_dtype), " and ",
               KvDtypeName(shape.kv_dtype),
               "; raise num_kv_pages_per_block to 2 or more");
}

// The kernel reads K of one head as every `stride`-th row of packed words.
void CheckStride(const KernelShape& shape, Findings& findings) {
  const std::optional<HeadBlock> block = ChooseHeadBlock(shape);
  if (!block.has_value() || shape.head_dim % kLanes != 0) return;
  const int32_t packing = KvPacking(shape.kv_dtype);
  const int32_t stride = 2 * block->num_kv_heads / packing;
  if (shape.head_dim == kLanes || stride == 1) return;
  const std::string remedy =
      packing == 1 ? "use bf16 KV with 1 KV head a chip"
                   : absl::StrCat("shard to ", packing / 2,
                                  " KV heads a chip (one row of words a "
                                  "token)");
  findings.Add(LimitClass::kHeadDimNot128, "head_dim ", shape.head_dim,
               " with ", block->num_kv_heads, " ", KvDtypeName(shape.kv_dtype),
               " KV heads a block needs a strided "
               "load of rows wider than 128, which no TPU compiler here has; ",
               remedy, ", or split each head into ones of 128");
}

}  // namespace

std::vector<LimitFinding> CheckStatic(const KernelShape& shape) {
  Findings findings;
  CheckSizes(shape, findings);
  if (!findings.empty()) return findings.Take();
  if (shape.num_q_heads % shape.num_kv_heads != 0) {
    findings.Add(LimitClass::kStaticCheck, "num_q_heads ", shape.num_q_heads,
                 " is not a multiple of num_kv_heads ", shape.num_kv_heads,
                 "; shard both over the same chips, or repeat KV heads");
  }
  if (shape.num_kv_pages_per_block > shape.pages_per_seq) {
    findings.Add(LimitClass::kStaticCheck, "num_kv_pages_per_block ",
                 shape.num_kv_pages_per_block, " exceeds pages_per_seq ",
                 shape.pages_per_seq, "; lower it to at most ",
                 shape.pages_per_seq);
  }
  if (shape.vmem_limit_bytes.has_value() && *shape.vmem_limit_bytes <= 0) {
    findings.Add(LimitClass::kStaticCheck, "vmem_limit_bytes ",
                 *shape.vmem_limit_bytes,
                 " is not positive; leave it out for the default");
  }
  return findings.Take();
}

std::vector<LimitFinding> CheckShape(TpuGeneration generation,
                                     const KernelShape& shape) {
  std::vector<LimitFinding> static_findings = CheckStatic(shape);
  if (!static_findings.empty()) return static_findings;
  Findings findings;
  CheckHeads(shape, findings);
  CheckHeadDimAndTypes(generation, shape, findings);
  CheckOneTokenBlock(shape, findings);
  CheckStride(shape, findings);
  std::vector<LimitFinding> found = findings.Take();
  std::stable_sort(found.begin(), found.end(),
                   [](const LimitFinding& a, const LimitFinding& b) {
                     return a.limit_class < b.limit_class;
                   });
  return found;
}

}  // namespace tidewheel
