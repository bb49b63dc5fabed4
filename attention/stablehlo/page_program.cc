#include "attention/stablehlo/page_program.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/stablehlo/index_limits.h"
#include "attention/stablehlo/program_builder.h"

namespace tidewheel {
namespace {

using Direction = ProgramBuilder::Direction;

int64_t HeadRows(const PagePoolShape& pool) {
  return std::max<int64_t>(pool.pool_head_rows, 1);
}

int64_t PoolKvHeads(const PagePoolShape& pool) {
  return pool.pool_kv_heads == 0 ? pool.num_kv_heads : pool.pool_kv_heads;
}

absl::Status CheckPool(const PagePoolShape& pool, int64_t num_ids) {
  for (const auto& [name, size] :
       {std::pair("total_num_pages", pool.total_num_pages),
        std::pair("page_size", pool.page_size),
        std::pair("num_kv_heads", pool.num_kv_heads),
        std::pair("pool_head_dim", pool.pool_head_dim),
        std::pair("num_ids", num_ids)}) {
    if (size < 1 || size > kLargestIndex) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " ", size, " is not in [1, ", kLargestIndex,
                       "]; give the pool's sizes"));
    }
  }
  if (pool.pool_kv_heads != 0 && pool.pool_kv_heads < pool.num_kv_heads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pool_kv_heads ", pool.pool_kv_heads, " is below num_kv_heads ",
        pool.num_kv_heads, "; give num_kv_heads, or more to pad them"));
  }
  if (pool.total_num_pages > kLargestIndex / pool.page_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "total_num_pages ", pool.total_num_pages, " times page_size ",
        pool.page_size, " exceeds ", kLargestIndex,
        ", the largest int32 index; give fewer pages"));
  }
  const int64_t num_pages = std::max(pool.total_num_pages, num_ids);
  if (ProductUpTo(kLargestTensor, {num_pages, pool.page_size, PoolKvHeads(pool),
                                   pool.pool_head_dim, 2 * 4}) >
      kLargestTensor) {
    return absl::InvalidArgumentError(
        absl::StrCat(num_pages, " pages take more than ", kLargestTensor,
                     " bytes, which no device holds; give smaller sizes"));
  }
  return absl::OkStatus();
}

TensorType IdsType(int64_t num_ids) { return {ElementType::kInt32, {num_ids}}; }

// As the device stores them.
Dims PagesDims(const PagePoolShape& pool, int64_t num_ids) {
  Dims dims = pool.type().dims;
  dims[0] = num_ids;
  return dims;
}

Value IsPage(ProgramBuilder& b, const PagePoolShape& pool, const Value& ids) {
  return b.And(b.Compare(Direction::kGe, ids, b.Int32(0)),
               b.Compare(Direction::kLt, ids, b.Int32(pool.total_num_pages)));
}

// The pool after the copy `number`; a page of padding is replaced by itself.
Value CopyPage(ProgramBuilder& b, const PagePoolShape& pool,
               const Value& kv_pages, const Value& from, const Value& to,
               const Value& is_copy) {
  const Dims page = PagesDims(pool, 1);
  const Value zero = b.Int32(0);
  const Value source = b.Select(is_copy, from, to);
  const Value copied =
      b.DynamicSlice(kv_pages, {source, zero, zero, zero}, page);
  // Without the barrier a compiler fuses the slice into the update, and then
  // must keep another pool to read from.
  return b.DynamicUpdateSlice(kv_pages, b.Barrier(copied),
                              {to, zero, zero, zero});
}

}  // namespace

TensorType PagePoolShape::type() const {
  return {pool_as_bits ? BitsTypeOf(kv_type) : ElementTypeOf(kv_type),
          {total_num_pages, page_size, 2 * PoolKvHeads(*this) * HeadRows(*this),
           pool_head_dim / HeadRows(*this)}};
}

TensorType PagePoolShape::pages_type(int64_t num_ids) const {
  TensorType pages = type();
  pages.dims[0] = num_ids;
  pages.dims[2] = 2 * num_kv_heads * HeadRows(*this);
  return pages;
}

absl::StatusOr<Program> EmitCopyPages(const PagePoolShape& pool,
                                      int64_t num_ids) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckPool(pool, num_ids));
  ProgramBuilder b;
  const Value kv_pages = b.Argument("kv_pages", pool.type(), 0);
  const Value sources = b.Argument("sources", IdsType(num_ids));
  const Value destinations = b.Argument("destinations", IdsType(num_ids));
  const Value is_copy =
      b.And(IsPage(b, pool, sources), IsPage(b, pool, destinations));
  const Value number = b.Iota({num_ids}, 0);
  // Padding behind the last copy costs nothing.
  const Value last =
      b.Reduce("maximum", b.Select(is_copy, number, b.Int32(-1)), {0});
  const Values state = b.While(
      {b.Int32(0), kv_pages},
      [&](const Values& s) { return b.Compare(Direction::kLe, s[0], last); },
      [&](const Values& s) -> Values {
        const auto at = [&](const Value& v) {
          return b.Reshape(b.DynamicSlice(v, {s[0]}, {1}), {});
        };
        return {b.Add(s[0], b.Int32(1)),
                CopyPage(b, pool, s[1], at(sources), at(destinations),
                         at(is_copy))};
      });
  return b.Finish("copy_pages", {state[1]});
}

absl::StatusOr<Program> EmitGatherPages(const PagePoolShape& pool,
                                        int64_t num_ids) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckPool(pool, num_ids));
  ProgramBuilder b;
  const Value kv_pages = b.Argument("kv_pages", pool.type());
  const Value ids = b.Argument("ids", IdsType(num_ids));
  const Value pages =
      b.Gather(kv_pages, b.Reshape(ids, {num_ids, 1}), PagesDims(pool, 1), 1);
  const Value real =
      b.Slice(pages, {0, 0, 0, 0}, pool.pages_type(num_ids).dims);
  return b.Finish("gather_pages", {real});
}

absl::StatusOr<Program> EmitScatterPages(const PagePoolShape& pool,
                                         int64_t num_ids) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckPool(pool, num_ids));
  ProgramBuilder b;
  const Value kv_pages = b.Argument("kv_pages", pool.type(), 0);
  const Value ids = b.Argument("ids", IdsType(num_ids));
  const Value pages = b.Argument("pages", pool.pages_type(num_ids));
  const Value wide = b.PadWithZeros(pages, 2, pool.type().dims[2]);
  return b.Finish("scatter_pages", {b.Scatter(kv_pages, ids, wide)});
}

}  // namespace tidewheel
