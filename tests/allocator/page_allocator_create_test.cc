// PageAllocator::Create: what it refuses, and that it says what to change.

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/allocator/prompt.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

PageAllocator::Options Options() {
  PageAllocator::Options options;
  options.total_num_pages = 16;
  options.page_size = 16;
  options.max_num_seqs = 4;
  options.pages_per_seq = 8;
  return options;
}

template <typename Matcher>
auto IsInvalid(Matcher matcher) {
  return StatusIs(absl::StatusCode::kInvalidArgument, matcher);
}

TEST(PageAllocatorCreateTest, SmallestPossibleAllocatorIsAccepted) {
  PageAllocator::Options options;
  options.total_num_pages = 2;
  options.page_size = 1;
  options.max_num_seqs = 1;
  options.pages_per_seq = 1;
  options.max_isolation_keys = 0;
  options.max_pins = 0;
  ASSERT_THAT(PageAllocator::Create(options), IsOk());
  const std::unique_ptr<PageAllocator> allocator = MakeAllocator(options);
  EXPECT_TRUE(TryAdmitTokens(*allocator, 1).has_value());
}

TEST(PageAllocatorCreateTest, SizesMustBePositive) {
  PageAllocator::Options options = Options();
  options.page_size = 0;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(HasSubstr("page_size is 0; it must be at least 1")));
  options = Options();
  options.max_num_seqs = -3;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(HasSubstr("max_num_seqs is -3")));
  options = Options();
  options.pages_per_seq = 0;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(HasSubstr("pages_per_seq is 0")));
}

TEST(PageAllocatorCreateTest, ThereMustBeAPageBesidesTheNullPage) {
  PageAllocator::Options options = Options();
  options.total_num_pages = 1;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(AllOf(HasSubstr("total_num_pages is 1"),
                              HasSubstr("at least 2"))));
}

TEST(PageAllocatorCreateTest, KeysAndPinsAreNotNegative) {
  PageAllocator::Options options = Options();
  options.max_isolation_keys = -1;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(HasSubstr("max_isolation_keys is -1")));
  options = Options();
  options.max_pins = -2;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(HasSubstr("max_pins is -2")));
}

// F6: the products are computed in 64 bits and refused past 32.
TEST(PageAllocatorCreateTest, ProductsThatInt32CanNotIndexAreRefused) {
  PageAllocator::Options options = Options();
  options.page_size = 1;
  options.max_num_seqs = 1 << 16;
  options.pages_per_seq = 1 << 16;
  EXPECT_THAT(
      PageAllocator::Create(options),
      IsInvalid(AllOf(HasSubstr("max_num_seqs 65536 x pages_per_seq 65536"),
                      HasSubstr("4294967296 entries"))));
  options = Options();
  options.max_num_seqs = 1;
  options.pages_per_seq = 1 << 20;
  options.page_size = 1 << 12;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(AllOf(HasSubstr("pages_per_seq 1048576 x page_size "
                                        "4096"),
                              HasSubstr("4294967296 tokens"))));
  options.page_size = kInt32Max;
  options.pages_per_seq = kInt32Max;
  options.max_num_seqs = kInt32Max;
  EXPECT_THAT(PageAllocator::Create(options), IsInvalid(HasSubstr("lower")));
}

// The rule of the TPU's scalar memory, at its measured ends.
TEST(PageAllocatorCreateTest, TableMustFitTheScalarMemory) {
  const std::vector<std::pair<int32_t, int32_t>> largest = {
      {128, 2008}, {256, 1008}, {512, 504},
      {1024, 248}, {2048, 120}, {4096, 56}};
  for (const auto& [columns, rows] : largest) {
    PageAllocator::Options options = Options();
    options.smem_bytes = kTpuSmemBytes;
    options.pages_per_seq = columns;
    options.max_num_seqs = rows;
    EXPECT_THAT(PageAllocator::Create(options), IsOk());
    options.max_num_seqs = rows + 1;
    EXPECT_THAT(
        PageAllocator::Create(options),
        IsInvalid(HasSubstr(absl::StrCat("lower max_num_seqs to ", rows))));
    options.smem_bytes.reset();
    EXPECT_THAT(PageAllocator::Create(options), IsOk());
  }
}

TEST(PageAllocatorCreateTest, RefusalNamesTheSmallestPageSizeThatFits) {
  PageAllocator::Options options = Options();
  options.smem_bytes = kTpuSmemBytes;
  options.page_size = 16;
  options.pages_per_seq = 8192;  // 131,072 tokens
  options.max_num_seqs = 256;
  EXPECT_THAT(
      PageAllocator::Create(options),
      IsInvalid(AllOf(
          HasSubstr(
              "max_num_seqs 256 x pages_per_seq 8192 needs 8393316 bytes"),
          HasSubstr("more than the 1048576 bytes"),
          HasSubstr("raise page_size from 16 to 256 (pages_per_seq 512)"),
          HasSubstr("lower max_num_seqs to 24"))));
  options.page_size = 256;
  options.pages_per_seq = 512;
  EXPECT_THAT(PageAllocator::Create(options), IsOk());
}

TEST(PageAllocatorCreateTest, RefusalSaysWhenNoPageSizeIsLargeEnough) {
  PageAllocator::Options options = Options();
  options.smem_bytes = kTpuSmemBytes;
  options.max_num_seqs = 4096;
  EXPECT_THAT(PageAllocator::Create(options),
              IsInvalid(AllOf(HasSubstr("no page_size is large enough"),
                              HasSubstr("lower max_num_seqs to 2008"))));
}

// F6: the remedy is computed without wrapping too. The table alone would be
// 8 GiB of scalar memory.
TEST(PageAllocatorCreateTest, WidestTableIsRefusedWithoutAWrappedRemedy) {
  PageAllocator::Options options = Options();
  options.smem_bytes = kTpuSmemBytes;
  options.page_size = 1;
  options.max_num_seqs = 1;
  options.pages_per_seq = kInt32Max;
  const absl::Status status = PageAllocator::Create(options).status();
  EXPECT_THAT(status, IsInvalid(HasSubstr("raise page_size from 1 to 131072")));
  EXPECT_THAT(std::string(status.message()),
              testing::Not(HasSubstr("lower max_num_seqs")));
}

// No exception leaves Create, and the text says how much was asked for.
TEST(PageAllocatorCreateTest, MoreMemoryThanThereIsIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the process before bad_alloc is thrown";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the sanitizer ends the process before bad_alloc is thrown";
#endif
#endif
  PageAllocator::Options options = Options();
  options.total_num_pages = 1 << 20;
  options.pages_per_seq = 1;
  options.page_size = 1 << 30;
  EXPECT_THAT(
      PageAllocator::Create(options),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("total_num_pages 1048576"),
                     HasSubstr("page_size 1073741824"), HasSubstr("lower"))));
}

}  // namespace
}  // namespace tidewheel
