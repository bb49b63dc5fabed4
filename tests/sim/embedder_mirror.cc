#include "tests/sim/embedder_mirror.h"

#include <algorithm>
#include <utility>

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
  State state = states_.back();
  state.table.resize(entries);
  eager_table_.resize(entries);
  num_changed_ = static_cast<int32_t>(plan.changed_rows.size());
  for (const int32_t row : plan.changed_rows) {
    CopyRow(plan.batch, row, state.table);
    CopyRow(plan.batch, row, eager_table_);
  }
  TIDEWHEEL_RETURN_IF_ERROR(CheckEqual(plan.batch, state.table));
  TIDEWHEEL_RETURN_IF_ERROR(CheckEqual(plan.batch, eager_table_));
  TIDEWHEEL_RETURN_IF_ERROR(MoveRows(plan, state));
  states_.push_back(std::move(state));
  return absl::OkStatus();
}

absl::Status EmbedderMirror::MoveRows(const StepPlan& plan, State& state) {
  const size_t rows = plan.requests.size();
  const std::vector<uint64_t> before = state.owners;
  std::vector<uint64_t>& owners = state.owners;
  if (!plan.previous_rows.empty()) {
    owners.assign(plan.previous_rows.size(), 0);
    for (size_t row = 0; row < owners.size(); ++row) {
      const int32_t previous = plan.previous_rows[row];
      if (previous < 0) continue;
      if (static_cast<size_t>(previous) >= before.size()) {
        return absl::InternalError(absl::StrCat(
            "row ", row, " was at row ", previous, " of ", before.size()));
      }
      owners[row] = before[static_cast<size_t>(previous)];
    }
  }
  if (owners.size() < rows) {
    return absl::InternalError(
        absl::StrCat(rows, " rows run, of which ", owners.size(),
                     " were there before, and no move was listed"));
  }
  for (size_t row = 0; row < rows; ++row) {
    const uint64_t request = plan.requests[row].value;
    if (owners[row] == 0 &&
        std::find(before.begin(), before.end(), request) != before.end()) {
      return absl::InternalError(
          absl::StrCat("row ", row, " is called new but runs request ", request,
                       " which was there before"));
    }
    if (owners[row] == 0) owners[row] = request;
    if (owners[row] != request) {
      return absl::InternalError(
          absl::StrCat("row ", row, " runs request ", request,
                       " but the moves say that it is request ", owners[row]));
    }
  }
  return absl::OkStatus();
}

void EmbedderMirror::Forget(RequestId id) {
  for (State& state : states_) {
    std::replace(state.owners.begin(), state.owners.end(), id.value,
                 uint64_t{0});
  }
}

void EmbedderMirror::Commit() { states_.pop_front(); }

void EmbedderMirror::Drop() { states_.pop_back(); }

}  // namespace tidewheel
