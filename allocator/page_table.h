// PageTable: the int32 array [max_num_seqs, pages_per_seq] that the kernel
// reads as page_indices.
//
// There is no second copy in another order: what this class holds is the
// operand. It does not know pages' states or contents.
//
// Rows [0, num_rows()) are in use, without holes. A row joins at the end
// (AppendRow), may swap places (SwapRows), and leaves from the end
// (RemoveLastRow), so whoever removes a row in the middle swaps it out first.
//
// For backends that keep the table on a device: changed_rows() lists the rows
// whose entries differ from the last ClearChanges, and previous_row(row) says
// where a row was then, so that an embedder can permute its own per-row state.
// Whoever cleared changes for a step that then failed gives them back with
// RestoreChanges.
//
// Invariants (CheckInvariants): entries past num_pages(row) are kNullPage, in
// unused rows all are; entries before are not.
//
// Single-threaded. Calls are O(1) but for SwapRows and RemoveLastRow, which
// are O(pages of the rows). Nothing allocates after construction.

#ifndef TIDEWHEEL_ALLOCATOR_PAGE_TABLE_H_
#define TIDEWHEEL_ALLOCATOR_PAGE_TABLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "allocator/check.h"
#include "allocator/page_pool.h"

namespace tidewheel {

// Scalar memory of a TensorCore, bytes; the same on v4, v5e, v5p, v6e and v7x.
inline constexpr int64_t kTpuSmemBytes = 1'048'576;

// Scalar memory that JAX's kernel needs for a page table, its companions and
// the compiler's own use, bytes. The table is padded to 8 rows and 128
// columns, the vectors to 128 entries. Found by bisection with the TPU
// compiler and libtpu 0.0.42.1 and 0.0.52, exact on v4, v5e, v5p, v6e and v7x:
// the largest S for 128 columns is 2008, for 1024 it is 248. The largest
// int64_t where the sum exceeds it.
int64_t PageTableSmemBytes(int32_t max_num_seqs, int32_t pages_per_seq);

// The smallest power of two of at least `at_least` tokens a page for which a
// table that covers max_model_len tokens fits `smem_bytes`; nothing if even
// one page a row is too much.
std::optional<int32_t> SmallestPageSizeThatFits(
    int32_t max_num_seqs, int64_t max_model_len, int32_t at_least,
    int64_t smem_bytes = kTpuSmemBytes);

// The most rows of `pages_per_seq` columns that fit `smem_bytes`; 0 if none.
int32_t LargestMaxNumSeqs(int32_t pages_per_seq,
                          int64_t smem_bytes = kTpuSmemBytes);

class PageTable {
 public:
  // REQUIRES: both positive, their product below 2^31.
  PageTable(int32_t max_num_seqs, int32_t pages_per_seq);

  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // A new, empty row at the end. REQUIRES: num_rows() < max_num_seqs().
  int32_t AppendRow();
  // REQUIRES: num_rows() > 0.
  void RemoveLastRow();
  // Exchanges two rows. REQUIRES: both below num_rows().
  void SwapRows(int32_t a, int32_t b);

  // REQUIRES: row < num_rows(), num_pages(row) < pages_per_seq().
  void AppendPage(int32_t row, PageId page);
  // Adds `count` entries for the caller to fill at once with pages.
  // REQUIRES: as for AppendPage, `count` times.
  std::span<PageId> AppendPages(int32_t row, int32_t count);
  // Removes and returns the last page. REQUIRES: num_pages(row) > 0.
  PageId PopPage(int32_t row);
  // REQUIRES: column < num_pages(row).
  void ReplacePage(int32_t row, int32_t column, PageId page);

  // Begins to load the entry that the next AppendPage writes.
  void PrefetchAppend(int32_t row) const {
    __builtin_prefetch(entries_.data() + Offset(row) + num_pages_[row], 1);
  }

  int32_t max_num_seqs() const { return max_num_seqs_; }
  int32_t pages_per_seq() const { return pages_per_seq_; }
  int32_t num_rows() const { return num_rows_; }
  int32_t num_pages(int32_t row) const { return num_pages_[row]; }
  // The row's pages, [num_pages(row)].
  std::span<const PageId> pages(int32_t row) const {
    return {&entries_[Offset(row)], static_cast<size_t>(num_pages_[row])};
  }
  // The kernel's operand, [max_num_seqs, pages_per_seq].
  std::span<const PageId> entries() const { return entries_; }

  // Every row whose entries differ from those at ClearChanges, and perhaps some
  // that changed and changed back; in no order, each once.
  // Rows that are no longer in use are among them: their entries are now 0.
  std::span<const int32_t> changed_rows() const {
    return {changed_rows_.data(), static_cast<size_t>(num_changed_)};
  }
  // Where `row` was at the last ClearChanges; -1 if it is new.
  int32_t previous_row(int32_t row) const { return previous_row_[row]; }
  // False only if every previous_row(row) is row.
  bool rows_moved() const { return rows_moved_; }
  // O(changed rows), or O(num_rows) if rows moved.
  void ClearChanges();
  // Undoes the last ClearChanges that is not undone: changes are again relative
  // to the one before it. `changed_rows` and `previous_rows` are what this
  // table said then, the latter empty if no row had moved. O(num_rows).
  void RestoreChanges(std::span<const int32_t> changed_rows,
                      std::span<const int32_t> previous_rows);

  // O(table). Errors: Internal that names the row and the entry.
  absl::Status CheckInvariants() const;

 private:
  size_t Offset(int32_t row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(pages_per_seq_);
  }
  void MarkChanged(int32_t row) {
    if (is_changed_[row] != 0) return;
    is_changed_[row] = 1;
    changed_rows_[num_changed_++] = row;
  }

  int32_t max_num_seqs_;
  int32_t pages_per_seq_;
  int32_t num_rows_ = 0;
  int32_t num_changed_ = 0;
  bool rows_moved_ = false;
  std::vector<PageId> entries_;        // [max_num_seqs, pages_per_seq]
  std::vector<int32_t> num_pages_;     // [max_num_seqs]
  std::vector<int32_t> previous_row_;  // [max_num_seqs]
  std::vector<int32_t> changed_rows_;  // [max_num_seqs], first num_changed_
  std::vector<char> is_changed_;       // [max_num_seqs]
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_ALLOCATOR_PAGE_TABLE_H_
