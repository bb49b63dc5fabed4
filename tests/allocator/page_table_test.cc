#include "allocator/page_table.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

// A row at the end with these pages.
int32_t AppendRow(PageTable& table, const std::vector<PageId>& pages) {
  const int32_t row = table.AppendRow();
  for (const PageId page : pages) table.AppendPage(row, page);
  return row;
}

// The largest tables that JAX's kernel compiles with, as found by bisection.
TEST(PageTableSmemTest, LargestRowsAreThoseThatTheTpuCompilerTakes) {
  const std::vector<std::pair<int32_t, int32_t>> largest = {
      {128, 2008}, {256, 1008}, {512, 504},
      {1024, 248}, {2048, 120}, {4096, 56}};
  for (const auto& [columns, rows] : largest) {
    EXPECT_EQ(LargestMaxNumSeqs(columns), rows) << columns << " columns";
    EXPECT_LE(PageTableSmemBytes(rows, columns), kTpuSmemBytes);
    EXPECT_GT(PageTableSmemBytes(rows + 1, columns), kTpuSmemBytes);
  }
}

TEST(PageTableSmemTest, RowsArePaddedTo8AndColumnsTo128) {
  EXPECT_EQ(PageTableSmemBytes(1, 1), PageTableSmemBytes(8, 128));
  EXPECT_EQ(PageTableSmemBytes(9, 1) - PageTableSmemBytes(8, 1), 8 * 128 * 4);
  EXPECT_EQ(PageTableSmemBytes(8, 129) - PageTableSmemBytes(8, 128),
            8 * 128 * 4);
}

TEST(PageTableSmemTest, NoRowFitsATableThatIsTooWide) {
  EXPECT_EQ(LargestMaxNumSeqs(1 << 20), 0);
}

TEST(PageTableSmemTest, SmallestPageSizeIsTheFirstPowerOfTwoThatFits) {
  // 256 rows of 131,072 tokens: 1024 columns are 8 rows too many, 512 fit.
  EXPECT_EQ(SmallestPageSizeThatFits(256, 131'072, 1), 256);
  EXPECT_EQ(SmallestPageSizeThatFits(248, 131'072, 1), 128);
  EXPECT_EQ(SmallestPageSizeThatFits(248, 131'073, 1), 256);
  EXPECT_EQ(SmallestPageSizeThatFits(8, 128, 16), 16);
}

TEST(PageTableSmemTest, NoPageSizeHelpsWhenThereAreTooManyRows) {
  EXPECT_EQ(SmallestPageSizeThatFits(2009, 128, 1), std::nullopt);
}

// F6: sizes are computed without wrapping, at the ends of the types too.
TEST(PageTableSmemTest, LargestNumbersDoNotWrap) {
  EXPECT_GT(PageTableSmemBytes(kInt32Max, kInt32Max), kTpuSmemBytes);
  EXPECT_EQ(LargestMaxNumSeqs(kInt32Max), 0);
  EXPECT_GE(LargestMaxNumSeqs(1, kInt64Max), kInt32Max - 1);
  EXPECT_EQ(SmallestPageSizeThatFits(1, kInt64Max, 1), std::nullopt);
  EXPECT_EQ(SmallestPageSizeThatFits(kInt32Max, kInt64Max, 1, kInt64Max),
            std::nullopt);
}

TEST(PageTableTest, NewTableIsAllNullPages) {
  const PageTable table(2, 3);
  EXPECT_THAT(table.entries(), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(table.num_rows(), 0);
  EXPECT_THAT(table.changed_rows(), IsEmpty());
  EXPECT_FALSE(table.rows_moved());
}

TEST(PageTableTest, EntriesAreTheOperandRowByRow) {
  PageTable table(3, 2);
  AppendRow(table, {5, 6});
  AppendRow(table, {7});
  EXPECT_THAT(table.entries(), ElementsAre(5, 6, 7, 0, 0, 0));
  EXPECT_THAT(table.pages(0), ElementsAre(5, 6));
  EXPECT_THAT(table.pages(1), ElementsAre(7));
  EXPECT_THAT(table.CheckInvariants(), IsOk());
}

TEST(PageTableTest, PoppedAndRemovedEntriesAreNullAgain) {
  PageTable table(2, 2);
  AppendRow(table, {5, 6});
  EXPECT_EQ(table.PopPage(0), 6);
  EXPECT_THAT(table.entries(), ElementsAre(5, 0, 0, 0));
  table.RemoveLastRow();
  EXPECT_THAT(table.entries(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(table.CheckInvariants(), IsOk());
}

TEST(PageTableTest, AppendPagesGivesTheNextEntriesToFill) {
  PageTable table(1, 4);
  AppendRow(table, {9});
  const std::span<PageId> entries = table.AppendPages(0, 2);
  ASSERT_EQ(entries.size(), 2u);
  entries[0] = 7;
  entries[1] = 8;
  EXPECT_THAT(table.entries(), ElementsAre(9, 7, 8, 0));
}

TEST(PageTableTest, SwappedRowsExchangeEntriesOfUnequalLength) {
  PageTable table(2, 3);
  AppendRow(table, {5, 6, 7});
  AppendRow(table, {8});
  table.SwapRows(0, 1);
  EXPECT_THAT(table.entries(), ElementsAre(8, 0, 0, 5, 6, 7));
  EXPECT_EQ(table.num_pages(0), 1);
  EXPECT_THAT(table.CheckInvariants(), IsOk());
}

TEST(PageTableTest, ChangedRowIsListedOnce) {
  PageTable table(4, 3);
  AppendRow(table, {5});
  AppendRow(table, {6});
  AppendRow(table, {7});
  EXPECT_THAT(table.changed_rows(), UnorderedElementsAre(0, 1, 2));
  table.ClearChanges();
  EXPECT_THAT(table.changed_rows(), IsEmpty());
  table.AppendPage(1, 8);
  table.ReplacePage(1, 0, 9);
  table.PopPage(1);
  EXPECT_THAT(table.changed_rows(), ElementsAre(1));
}

TEST(PageTableTest, RemovedRowIsListedSoThatItsZerosAreUploaded) {
  PageTable table(2, 2);
  AppendRow(table, {5});
  table.ClearChanges();
  table.RemoveLastRow();
  EXPECT_THAT(table.changed_rows(), ElementsAre(0));
}

TEST(PageTableTest, PreviousRowIsWhereARowWas) {
  PageTable table(4, 1);
  for (const PageId page : {5, 6, 7}) AppendRow(table, {page});
  EXPECT_EQ(table.previous_row(1), -1);
  table.ClearChanges();
  EXPECT_EQ(table.previous_row(1), 1);
  EXPECT_FALSE(table.rows_moved());
  // Row 0 leaves: 2 takes its number, and a new row takes 2's.
  table.SwapRows(0, 2);
  table.RemoveLastRow();
  AppendRow(table, {8});
  EXPECT_TRUE(table.rows_moved());
  EXPECT_EQ(table.previous_row(0), 2);
  EXPECT_EQ(table.previous_row(1), 1);
  EXPECT_EQ(table.previous_row(2), -1);
}

TEST(PageTableTest, SwappingARowWithItselfMovesNothing) {
  PageTable table(1, 1);
  AppendRow(table, {5});
  table.ClearChanges();
  table.SwapRows(0, 0);
  EXPECT_FALSE(table.rows_moved());
  EXPECT_THAT(table.changed_rows(), IsEmpty());
}

TEST(PageTableDeathTest, TableHasRowsAndColumns) {
  EXPECT_DEATH(PageTable(0, 1), "max_num_seqs > 0");
  EXPECT_DEATH(PageTable(1, 0), "pages_per_seq > 0");
}

TEST(PageTableDeathTest, TableIsIndexedByInt32) {
  EXPECT_DEATH(PageTable(1 << 16, 1 << 15), "CHECK failed");
}

TEST(PageTableDeathTest, FullTableTakesNoRow) {
  PageTable table(1, 1);
  table.AppendRow();
  EXPECT_DEATH(table.AppendRow(), "num_rows_ < max_num_seqs_");
}

TEST(PageTableDeathTest, EmptyTableHasNoLastRow) {
  PageTable table(1, 1);
  EXPECT_DEATH(table.RemoveLastRow(), "num_rows_ > 0");
}

TEST(PageTableDeathTest, UnusedRowsAreNotSwapped) {
  PageTable table(2, 1);
  table.AppendRow();
  EXPECT_DEATH(table.SwapRows(1, 0), "a < num_rows_");
  EXPECT_DEATH(table.SwapRows(0, 1), "b < num_rows_");
}

TEST(PageTableDeathTest, UnusedRowTakesNoPage) {
  PageTable table(2, 1);
  table.AppendRow();
  EXPECT_DEATH(table.AppendPage(1, 5), "row < num_rows_");
  EXPECT_DEATH(table.AppendPages(1, 1), "row < num_rows_");
}

TEST(PageTableDeathTest, FullRowTakesNoPage) {
  PageTable table(1, 1);
  AppendRow(table, {5});
  EXPECT_DEATH(table.AppendPage(0, 6), "pages_per_seq_");
  EXPECT_DEATH(table.AppendPages(0, 1), "pages_per_seq_");
}

TEST(PageTableDeathTest, EmptyRowHasNoPageToPop) {
  PageTable table(2, 1);
  table.AppendRow();
  EXPECT_DEATH(table.PopPage(0), "> 0");
  EXPECT_DEATH(table.PopPage(1), "row < num_rows_");
}

TEST(PageTableDeathTest, OnlyEntriesInUseAreReplaced) {
  PageTable table(2, 2);
  AppendRow(table, {5});
  EXPECT_DEATH(table.ReplacePage(0, 1, 6), "column < num_pages_");
  EXPECT_DEATH(table.ReplacePage(1, 0, 6), "row < num_rows_");
}

}  // namespace
}  // namespace tidewheel
