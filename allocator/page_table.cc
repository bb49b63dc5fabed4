#include "allocator/page_table.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "allocator/checked_int64.h"

namespace tidewheel {
namespace {

int64_t CeilDiv(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// Of an int32_t, so that it can not wrap.
int64_t RoundUp(int64_t value, int64_t multiple) {
  return CeilDiv(value, multiple) * multiple;
}

}  // namespace

int64_t PageTableSmemBytes(int32_t max_num_seqs, int32_t pages_per_seq) {
  constexpr int64_t kEntryBytes = 4;
  // Three scalars of the kernel padded to two vectors of 128 entries, one 1 KiB
  // spill area and about 100 bytes that the compiler adds.
  constexpr int64_t kOtherBytes = 512 + 512 + 1024 + 100;
  const int64_t rows = max_num_seqs;
  const CheckedInt64 bytes = CheckedInt64(RoundUp(rows, 8)) *
                                 RoundUp(pages_per_seq, 128) * kEntryBytes +
                             RoundUp(rows, 128) * kEntryBytes +
                             RoundUp(rows + 1, 128) * kEntryBytes + kOtherBytes;
  return bytes.overflowed() ? std::numeric_limits<int64_t>::max()
                            : bytes.value();
}

std::optional<int32_t> SmallestPageSizeThatFits(int32_t max_num_seqs,
                                                int64_t max_model_len,
                                                int32_t at_least,
                                                int64_t smem_bytes) {
  constexpr int64_t kLargest = int64_t{1} << 30;
  for (int64_t page_size = 1; page_size <= kLargest; page_size *= 2) {
    if (page_size < at_least) continue;
    const int64_t columns = CeilDiv(max_model_len, page_size);
    if (columns > std::numeric_limits<int32_t>::max()) continue;
    if (PageTableSmemBytes(max_num_seqs, static_cast<int32_t>(columns)) <=
        smem_bytes) {
      return static_cast<int32_t>(page_size);
    }
    if (columns <= 1) break;
  }
  return std::nullopt;
}

int32_t LargestMaxNumSeqs(int32_t pages_per_seq, int64_t smem_bytes) {
  int32_t fits = 0;
  int32_t too_many = std::numeric_limits<int32_t>::max();
  while (too_many - fits > 1) {
    const int32_t middle = fits + (too_many - fits) / 2;
    if (PageTableSmemBytes(middle, pages_per_seq) <= smem_bytes) {
      fits = middle;
    } else {
      too_many = middle;
    }
  }
  return fits;
}

PageTable::PageTable(int32_t max_num_seqs, int32_t pages_per_seq)
    : max_num_seqs_(max_num_seqs), pages_per_seq_(pages_per_seq) {
  TIDEWHEEL_CHECK_GT(max_num_seqs, 0);
  TIDEWHEEL_CHECK_GT(pages_per_seq, 0);
  TIDEWHEEL_CHECK_LE(static_cast<int64_t>(max_num_seqs) * pages_per_seq,
                     std::numeric_limits<int32_t>::max());
  const size_t rows = static_cast<size_t>(max_num_seqs);
  entries_.assign(rows * static_cast<size_t>(pages_per_seq), kNullPage);
  num_pages_.assign(rows, 0);
  previous_row_.resize(rows);
  std::iota(previous_row_.begin(), previous_row_.end(), 0);
  changed_rows_.resize(rows);
  is_changed_.assign(rows, 0);
}

int32_t PageTable::AppendRow() {
  TIDEWHEEL_CHECK_LT(num_rows_, max_num_seqs_);
  const int32_t row = num_rows_++;
  previous_row_[row] = -1;
  rows_moved_ = true;
  return row;
}

void PageTable::RemoveLastRow() {
  TIDEWHEEL_CHECK_GT(num_rows_, 0);
  const int32_t row = --num_rows_;
  if (num_pages_[row] > 0) {
    std::fill_n(entries_.begin() + static_cast<ptrdiff_t>(Offset(row)),
                num_pages_[row], kNullPage);
    num_pages_[row] = 0;
    MarkChanged(row);
  }
  previous_row_[row] = row;
}

void PageTable::SwapRows(int32_t a, int32_t b) {
  TIDEWHEEL_CHECK_LT(a, num_rows_);
  TIDEWHEEL_CHECK_LT(b, num_rows_);
  if (a == b) return;
  const auto first = entries_.begin() + static_cast<ptrdiff_t>(Offset(a));
  const auto second = entries_.begin() + static_cast<ptrdiff_t>(Offset(b));
  std::swap_ranges(first, first + std::max(num_pages_[a], num_pages_[b]),
                   second);
  std::swap(num_pages_[a], num_pages_[b]);
  std::swap(previous_row_[a], previous_row_[b]);
  rows_moved_ = true;
  MarkChanged(a);
  MarkChanged(b);
}

void PageTable::AppendPage(int32_t row, PageId page) {
  TIDEWHEEL_CHECK_LT(row, num_rows_);
  TIDEWHEEL_CHECK_LT(num_pages_[row], pages_per_seq_);
  entries_[Offset(row) + static_cast<size_t>(num_pages_[row]++)] = page;
  MarkChanged(row);
}

std::span<PageId> PageTable::AppendPages(int32_t row, int32_t count) {
  TIDEWHEEL_CHECK_LT(row, num_rows_);
  TIDEWHEEL_CHECK_LE(count, pages_per_seq_ - num_pages_[row]);
  const size_t first = Offset(row) + static_cast<size_t>(num_pages_[row]);
  if (count > 0) MarkChanged(row);
  num_pages_[row] += count;
  return std::span(entries_).subspan(first, static_cast<size_t>(count));
}

PageId PageTable::PopPage(int32_t row) {
  TIDEWHEEL_CHECK_LT(row, num_rows_);
  TIDEWHEEL_CHECK_GT(num_pages_[row], 0);
  PageId& entry =
      entries_[Offset(row) + static_cast<size_t>(--num_pages_[row])];
  const PageId page = entry;
  entry = kNullPage;
  MarkChanged(row);
  return page;
}

void PageTable::ReplacePage(int32_t row, int32_t column, PageId page) {
  TIDEWHEEL_CHECK_LT(row, num_rows_);
  TIDEWHEEL_CHECK_LT(column, num_pages_[row]);
  entries_[Offset(row) + static_cast<size_t>(column)] = page;
  MarkChanged(row);
}

void PageTable::ClearChanges() {
  for (int32_t i = 0; i < num_changed_; ++i) is_changed_[changed_rows_[i]] = 0;
  num_changed_ = 0;
  if (!rows_moved_) return;
  std::iota(previous_row_.begin(), previous_row_.begin() + num_rows_, 0);
  rows_moved_ = false;
}

void PageTable::RestoreChanges(std::span<const int32_t> changed_rows,
                               std::span<const int32_t> previous_rows) {
  for (const int32_t row : changed_rows) MarkChanged(row);
  if (previous_rows.empty()) return;
  rows_moved_ = true;
  for (int32_t row = 0; row < num_rows_; ++row) {
    const int32_t then = previous_row_[row];
    if (then < 0) continue;
    TIDEWHEEL_CHECK_LT(static_cast<size_t>(then), previous_rows.size());
    previous_row_[row] = previous_rows[static_cast<size_t>(then)];
  }
}

absl::Status PageTable::CheckInvariants() const {
  for (int32_t row = 0; row < max_num_seqs_; ++row) {
    if (row >= num_rows_ && num_pages_[row] != 0) {
      return absl::InternalError(
          absl::StrCat("unused row ", row, " has ", num_pages_[row], " pages"));
    }
    for (int32_t column = 0; column < pages_per_seq_; ++column) {
      const PageId page = entries_[Offset(row) + static_cast<size_t>(column)];
      if ((column < num_pages_[row]) == (page == kNullPage)) {
        return absl::InternalError(
            absl::StrCat("row ", row, " has ", num_pages_[row],
                         " pages but entry ", column, " is ", page));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tidewheel
