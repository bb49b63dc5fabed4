#include "attention/ragged_batch.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "attention/contract_strict_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// A batch that owns its arrays: rows of (1, 7), (3, 8) and (2, 5) (q_len,
// kv_len) in a table for four, pages of 4 tokens.
struct Batch {
  std::vector<int32_t> kv_lens = {7, 8, 5, 0};
  std::vector<int32_t> page_indices = {1, 2, 0, 3, 4, 0, 5, 6, 0, 0, 0, 0};
  std::vector<int32_t> cu_q_lens = {0, 1, 4, 6, 6};
  int32_t num_seqs = 3;
  std::array<int32_t, 3> distribution = {1, 1, 3};
  int32_t max_num_seqs = 4;
  int32_t pages_per_seq = 3;
  int32_t page_size = 4;
  int32_t total_num_pages = 8;
  int32_t max_num_batched_tokens = 8;

  RaggedBatch View() const {
    return {.kv_lens = kv_lens,
            .page_indices = page_indices,
            .cu_q_lens = cu_q_lens,
            .num_seqs = num_seqs,
            .distribution = distribution,
            .max_num_seqs = max_num_seqs,
            .pages_per_seq = pages_per_seq,
            .page_size = page_size,
            .total_num_pages = total_num_pages,
            .max_num_batched_tokens = max_num_batched_tokens};
  }
};

void ExpectDynamic(const Batch& batch,
                   const testing::Matcher<const std::string&>& text) {
  EXPECT_THAT(ValidateDynamic(batch.View()),
              StatusIs(absl::StatusCode::kInvalidArgument, text));
}

// The one strict finding contains all of `parts`.
template <typename... Parts>
void ExpectStrict(const Batch& batch, Parts... parts) {
  EXPECT_THAT(
      ValidateStrict(batch.View()),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(parts)...)));
}

TEST(RaggedBatchDynamicTest, SoundBatchPassesBothValidations) {
  const Batch batch;
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  EXPECT_THAT(ValidateStrict(batch.View()), IsOk());
}

TEST(RaggedBatchDynamicTest, NumSeqsAboveTheTablePrintsAsNumpy) {
  Batch batch;
  batch.num_seqs = 9;
  ExpectDynamic(batch,
                "num_seqs[0]=np.int32(9) must be less or equal to "
                "max_num_seqs=4");
}

TEST(RaggedBatchDynamicTest, PageCheckPrintsAsJaxAndCountsPaddingRows) {
  Batch batch;
  batch.kv_lens[3] = 13;
  ExpectDynamic(batch,
                "pages_per_seq=3 must be greater or equal to "
                "min_pages_per_seq=Array(4, dtype=int32) given "
                "max_kv_len=Array(13, dtype=int32) and page_size=4.");
}

TEST(RaggedBatchDynamicTest, TotalQueryTokensPrintBare) {
  Batch batch;
  batch.max_num_batched_tokens = 5;
  ExpectDynamic(batch,
                "Total q tokens 6 must be less or equal to "
                "max_num_batched_tokens=5.");
}

TEST(RaggedBatchDynamicTest, FirstRowWithMoreQueriesThanKeysIsReported) {
  Batch batch;
  batch.kv_lens = {7, 2, 1, 0};
  ExpectDynamic(batch,
                "q_len=np.int32(3) must be less or equal to "
                "kv_len=np.int32(2) at sequence 1.");
}

TEST(RaggedBatchDynamicTest, ChecksSpeakInJaxsOrder) {
  Batch batch;
  batch.num_seqs = 5;
  batch.kv_lens = {99, 1, 1, 1};
  batch.max_num_batched_tokens = 1;
  ExpectDynamic(batch, StartsWith("num_seqs[0]"));
  batch.num_seqs = 3;
  ExpectDynamic(batch, StartsWith("pages_per_seq="));
  batch.kv_lens = {1, 1, 1, 1};
  ExpectDynamic(batch, StartsWith("Total q tokens"));
  batch.max_num_batched_tokens = 8;
  ExpectDynamic(batch, StartsWith("q_len="));
}

TEST(RaggedBatchDynamicTest, PageCheckWrapsAtTheLargestInt32AsJaxDoes) {
  Batch batch;
  batch.kv_lens[0] = kInt32Max - 3;
  ExpectDynamic(batch,
                HasSubstr("min_pages_per_seq=Array(536870911, dtype=int32)"));
  batch.kv_lens[0] = kInt32Max - 2;
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  ExpectStrict(batch, "row 0", "kv_len 2147483645", "hold 12",
               "raise pages_per_seq to 536870912");
}

TEST(RaggedBatchDynamicTest, NegativeNumSeqsWrapsOnceAsInNumpy) {
  Batch batch;
  batch.num_seqs = -5;
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  batch.num_seqs = -6;
  ExpectDynamic(batch, "index -6 is out of bounds for axis 0 with size 5");
}

TEST(RaggedBatchDynamicTest, SpansOfAnotherSizeAreNamed) {
  Batch batch;
  batch.kv_lens.pop_back();
  ExpectDynamic(batch,
                "kv_lens has 3 elements and must have 4 (max_num_seqs); view "
                "the whole array that the kernel reads");
  batch = Batch();
  batch.page_indices.push_back(0);
  ExpectStrict(batch, "page_indices has 13 elements and must have 12");
  batch = Batch();
  batch.cu_q_lens.pop_back();
  ExpectStrict(batch, "cu_q_lens has 4 elements and must have 5");
  batch = Batch();
  batch.page_size = 0;
  ExpectDynamic(batch,
                "page_size is 0 and must be at least 1; describe the arrays "
                "that the batch views");
}

TEST(RaggedBatchStrictTest, BatchWithoutRowsIsRefused) {
  Batch batch;
  batch.num_seqs = 0;
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  ExpectStrict(batch, "num_seqs 0 is below 1", "must not be launched");
  batch.num_seqs = -1;
  ExpectStrict(batch, "num_seqs -1 is below 1");
}

TEST(RaggedBatchStrictTest, NumSeqsAboveTheTableNamesTheLimit) {
  Batch batch;
  batch.num_seqs = 5;
  ExpectStrict(batch, "num_seqs 5 exceeds max_num_seqs 4", "taller page table");
}

TEST(RaggedBatchStrictTest, QueryOffsetsStartAtZero) {
  Batch batch;
  batch.cu_q_lens[0] = -1;
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  ExpectStrict(batch, "cu_q_lens[0] is -1 and must be 0");
}

TEST(RaggedBatchStrictTest, RowWithoutQueriesIsNamed) {
  Batch batch;
  batch.cu_q_lens = {0, 1, 1, 3, 3};
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  ExpectStrict(batch, "row 1 has q_len 0 (cu_q_lens 1 to 1)",
               "at least 1 query", "leave rows without queries out");
  batch.cu_q_lens = {0, 4, 1, 3, 3};
  ExpectStrict(batch, "row 1 has q_len -3 (cu_q_lens 4 to 1)");
}

TEST(RaggedBatchStrictTest, RowWithoutKeysIsNamed) {
  Batch batch;
  batch.kv_lens[1] = 0;
  ExpectStrict(batch, "row 1 has kv_len 0", "at least 1");
}

TEST(RaggedBatchStrictTest, PageIdsInUseAreInRange) {
  for (const int32_t page :
       {-1, 0, 8, kInt32Max, std::numeric_limits<int32_t>::min()}) {
    Batch batch;
    batch.page_indices[4] = page;
    EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
    ExpectStrict(batch, "row 1 names page " + std::to_string(page),
                 "for tokens 4 to 7", "[1, 8)");
  }
  Batch batch;
  batch.page_indices[4] = 7;
  EXPECT_THAT(ValidateStrict(batch.View()), IsOk());
}

TEST(RaggedBatchStrictTest, EntriesPastThePagesInUseAreZero) {
  Batch batch;
  batch.page_indices[8] = 7;
  ExpectStrict(batch, "row 2 names page 7 in entry 2", "past the 2", "kv_len 5",
               "null page 0");
}

TEST(RaggedBatchStrictTest, RowsPastNumSeqsKeepTheirPages) {
  Batch batch;  // A running sequence that gets no token in this step.
  batch.page_indices[9] = 7;
  EXPECT_THAT(ValidateStrict(batch.View()), IsOk());
}

TEST(RaggedBatchStrictTest, RowsWithOneQueryTokenComeFirst) {
  Batch batch;
  batch.kv_lens = {8, 7, 5, 0};
  batch.cu_q_lens = {0, 3, 4, 6, 6};
  batch.distribution = {0, 0, 3};
  ExpectStrict(batch, "row 1 has q_len 1 and comes after row 0 of q_len 3");
}

TEST(RaggedBatchStrictTest, DistributionCountsTheLeadingDecodes) {
  Batch batch;
  batch.distribution = {0, 0, 3};
  ExpectStrict(batch, "distribution is (0, 0, 3) and must be (1, 1, 3)");
  batch.distribution = {1, 3, 3};
  ExpectStrict(batch, "distribution is (1, 3, 3) and must be (1, 1, 3)");
}

TEST(RaggedBatchStrictTest, PaddingRepeatsTheLastOffsetAndHasNoKeys) {
  Batch batch;
  batch.kv_lens[3] = 4;
  ExpectStrict(batch, "row 3 is past num_seqs 3 and has kv_len 4");
  batch = Batch();
  batch.cu_q_lens[4] = 0;
  ExpectStrict(batch, "cu_q_lens[4] is past num_seqs 3 and is 0",
               "must repeat 6");
}

TEST(RaggedBatchStrictTest, PageThatTwoRowsWriteIsRefused) {
  Batch batch;
  batch.page_indices[7] = 4;  // Row 2 writes tokens 3 and 4: entries 0 and 1.
  EXPECT_THAT(ValidateDynamic(batch.View()), IsOk());
  ExpectStrict(batch, "page 4 is written by rows 1 and 2",
               "copy the shared page");
}

TEST(RaggedBatchStrictTest, PageThatOneRowWritesAndAnotherReadsIsRefused) {
  Batch batch;
  batch.page_indices[0] = 4;  // Row 0 only reads its entry 0.
  ExpectStrict(batch,
               "page 4 is read by row 0 for tokens 0 to 3 while row 1 "
               "writes it",
               "share a page only after the step that wrote it");
}

TEST(RaggedBatchStrictTest, PageThatOneRowNamesTwiceAndWritesIsRefused) {
  Batch batch;
  batch.page_indices[1] = 1;
  ExpectStrict(batch, "page 1 is read by row 0", "while row 0 writes it");
  batch = Batch();
  batch.page_indices[7] = 5;  // Row 2 writes to both of its entries.
  ExpectStrict(batch, "page 5 is written twice by row 2, as entries 0 and 1");
}

TEST(RaggedBatchStrictTest, PageThatRowsOnlyReadMayBeShared) {
  Batch batch;
  batch.page_indices[3] = 1;  // Row 1 writes tokens 5 to 7: entry 1 only.
  EXPECT_THAT(ValidateStrict(batch.View()), IsOk());
}

TEST(StrictFindingsTest, NullPageBeforeTheWindowIsAllowed) {
  Batch batch;
  batch.page_indices[0] = 0;  // Row 0's query is at position 6.
  StrictRules rules;
  // With a window of 3 it sees keys 4 to 6, with 4 also key 3 of page 0.
  rules.sliding_window = 3;
  EXPECT_THAT(StrictFindings(batch.View(), rules), IsEmpty());
  rules.sliding_window = 4;
  EXPECT_THAT(StrictFindings(batch.View(), rules),
              ElementsAre(HasSubstr("row 0 names page 0")));
}

TEST(StrictFindingsTest, AllAreListedUpToTheBound) {
  Batch batch;
  batch.page_indices[0] = -1;
  batch.page_indices[3] = 99;
  batch.cu_q_lens[4] = 0;
  EXPECT_THAT(
      StrictFindings(batch.View(), {}),
      ElementsAre(HasSubstr("row 0 names page -1"),
                  HasSubstr("row 1 names page 99"), HasSubstr("cu_q_lens[4]")));
  EXPECT_THAT(StrictFindings(batch.View(), {.max_findings = 2}),
              ElementsAre(HasSubstr("row 0"), HasSubstr("row 1")));
}

TEST(StrictFindingsTest, LayoutOfTheSchedulerIsASeparateGroup) {
  Batch batch;
  batch.page_indices[8] = -7;
  batch.kv_lens[3] = 12;
  batch.cu_q_lens[4] = -7;
  batch.distribution = {0, 0, 0};
  EXPECT_THAT(StrictFindings(batch.View(), {.scheduler_layout = false}),
              IsEmpty());
}

TEST(StrictFindingsTest, WildValuesEverywhereAreFindingsNotFaults) {
  const int32_t wild[] = {std::numeric_limits<int32_t>::min(), -1, 0, 3,
                          kInt32Max};
  for (const int32_t a : wild) {
    for (const int32_t b : wild) {
      Batch batch;
      batch.kv_lens = {a, b, b, a};
      batch.cu_q_lens = {b, a, b, a, a};
      batch.page_indices.assign(12, b);
      batch.num_seqs = a;
      EXPECT_THAT(StrictFindings(batch.View(), {}), testing::Not(IsEmpty()));
    }
  }
}

}  // namespace
}  // namespace tidewheel
