#include "tests/sim/embedder_mirror.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

void CopyRow(const RaggedBatch& batch, int32_t row,
             std::vector<int32_t>& table) {
  const std::span<const int32_t> pages = batch.pages(row);
  std::copy(pages.begin(), pages.end(),
            table.begin() + int64_t{row} * batch.pages_per_seq);
}

absl::Status CheckEqual(const RaggedBatch& batch,
                        const std::vector<int32_t>& table) {
  const auto [mine, theirs] =
      std::mismatch(table.begin(), table.end(), batch.page_indices.begin());
  if (mine == table.end()) return absl::OkStatus();
  const int64_t at = mine - table.begin();
  return absl::InternalError(absl::StrCat(
      "row ", at / batch.pages_per_seq, " entry ", at % batch.pages_per_seq,
      " of the page table is ", *theirs, " but was ", *mine,
      " and no change of that row was listed"));
}

}  // namespace

absl::Status EmbedderMirror::Apply(const StepPlan& plan) {
  const size_t entries = plan.batch.page_indices.size();
  committed_table_.resize(entries);
  eager_table_.resize(entries);
  table_ = committed_table_;
  num_changed_ = static_cast<int32_t>(plan.changed_rows.size());
  for (const int32_t row : plan.changed_rows) {
    CopyRow(plan.batch, row, table_);
    CopyRow(plan.batch, row, eager_table_);
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckEqual(plan.batch, table_));
  TIDEWHEEL_RETURN_IF_ERROR(CheckEqual(plan.batch, eager_table_));
  return MoveRows(plan);
}

absl::Status EmbedderMirror::MoveRows(const StepPlan& plan) {
  const size_t rows = plan.requests.size();
  owners_ = committed_owners_;
  if (!plan.previous_rows.empty()) {
    owners_.assign(plan.previous_rows.size(), 0);
    for (size_t row = 0; row < owners_.size(); ++row) {
      const int32_t previous = plan.previous_rows[row];
      if (previous < 0) continue;
      if (static_cast<size_t>(previous) >= committed_owners_.size()) {
        return absl::InternalError(absl::StrCat("row ", row, " was at row ",
                                                previous, " of ",
                                                committed_owners_.size()));
      }
      owners_[row] = committed_owners_[static_cast<size_t>(previous)];
    }
  }
  if (owners_.size() < rows) {
    return absl::InternalError(
        absl::StrCat(rows, " rows run, of which ", owners_.size(),
                     " were there before, and no move was listed"));
  }
  for (size_t row = 0; row < rows; ++row) {
    const uint64_t request = plan.requests[row].value;
    if (owners_[row] == 0 &&
        std::find(committed_owners_.begin(), committed_owners_.end(),
                  request) != committed_owners_.end()) {
      return absl::InternalError(
          absl::StrCat("row ", row, " is called new but runs request ", request,
                       " which was there before"));
    }
    if (owners_[row] == 0) owners_[row] = request;
    if (owners_[row] != plan.requests[row].value) {
      return absl::InternalError(
          absl::StrCat("row ", row, " runs request ", plan.requests[row].value,
                       " but the moves say that it is request ", owners_[row]));
    }
  }
  return absl::OkStatus();
}

void EmbedderMirror::Forget(RequestId id) {
  std::replace(committed_owners_.begin(), committed_owners_.end(), id.value,
               uint64_t{0});
}

void EmbedderMirror::Commit() {
  committed_table_ = table_;
  committed_owners_ = owners_;
}

}  // namespace tidewheel
