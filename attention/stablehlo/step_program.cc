#include "attention/stablehlo/step_program.h"

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"
#include "attention/stablehlo/index_limits.h"
#include "attention/stablehlo/program_builder.h"

namespace tidewheel {
namespace {

using Direction = ProgramBuilder::Direction;

absl::Status CheckSizes(
    std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kLargestIndex) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " ", size, " is not in [1, ", kLargestIndex,
                       "]; give the page table's sizes"));
    }
  }
  return absl::OkStatus();
}

TensorType VectorType(int64_t size) { return {ElementType::kInt32, {size}}; }

Value IsRow(ProgramBuilder& b, const Value& rows, int64_t max_num_seqs) {
  return b.And(b.Compare(Direction::kGe, rows, b.Int32(0)),
               b.Compare(Direction::kLt, rows, b.Int32(max_num_seqs)));
}

}  // namespace

TensorType TableShape::type() const {
  return {ElementType::kInt32, {max_num_seqs, pages_per_seq}};
}

absl::StatusOr<Program> EmitTableDelta(const TableShape& table,
                                       int64_t num_rows) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckSizes({{"max_num_seqs", table.max_num_seqs},
                                        {"pages_per_seq", table.pages_per_seq},
                                        {"num_rows", num_rows}}));
  ProgramBuilder b;
  const Value page_indices = b.Argument("page_indices", table.type(), 0);
  const Value rows = b.Argument("rows", VectorType(num_rows));
  const Value values = b.Argument(
      "values", {ElementType::kInt32, {num_rows, table.pages_per_seq}});
  return b.Finish("table_delta", {b.Scatter(page_indices, rows, values)});
}

absl::StatusOr<Program> EmitPermuteTable(const TableShape& table) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckSizes({{"max_num_seqs", table.max_num_seqs},
                  {"pages_per_seq", table.pages_per_seq}}));
  ProgramBuilder b;
  const Value page_indices = b.Argument("page_indices", table.type());
  const Value rows =
      b.Argument("previous_rows", VectorType(table.max_num_seqs));
  const Value moved =
      b.Gather(page_indices, b.Reshape(rows, {table.max_num_seqs, 1}),
               {1, table.pages_per_seq}, 1);
  const Value is_row =
      b.Broadcast(IsRow(b, rows, table.max_num_seqs), table.type().dims, {0});
  return b.Finish("permute_table", {b.Select(is_row, moved, b.Int32(0))});
}

absl::StatusOr<Program> EmitFillTokens(int64_t num_tokens,
                                       int64_t max_num_seqs) {
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckSizes({{"num_tokens", num_tokens}, {"max_num_seqs", max_num_seqs}}));
  ProgramBuilder b;
  const Value token_ids = b.Argument("token_ids", VectorType(num_tokens));
  const Value rows = b.Argument("source_rows", VectorType(num_tokens));
  const Value sampled = b.Argument("sampled", VectorType(max_num_seqs));
  const Value found =
      b.Gather(sampled, b.Reshape(rows, {num_tokens, 1}), {1}, 1);
  return b.Finish("fill_tokens",
                  {b.Select(IsRow(b, rows, max_num_seqs), found, token_ids)});
}

}  // namespace tidewheel
