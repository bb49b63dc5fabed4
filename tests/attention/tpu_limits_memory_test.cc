// Scalar memory, vector memory and the choice of blocks.
//
// Boundaries of scalar memory were bisected with the TPU compiler. Totals of
// vector memory are sums of the allocations that the compiler dumped, spill
// slots included (tests/data/tpu_vmem.csv: kernels compiled alone, head_dim
// 128, pages of 16, 8 sequences, on 2026-11-30).

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "allocator/kv_cache_shape.h"
#include "attention/block_choice.h"
#include "attention/kernel_shape.h"
#include "attention/smem_rule.h"
#include "attention/tpu_generation.h"
#include "attention/tpu_limits.h"
#include "attention/vmem_rule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Blocks {
  int32_t pages = 8;
  int32_t queries = 32;
};

KernelShape Serving(int32_t q_heads, int32_t kv_heads, Blocks blocks = {}) {
  KernelShape shape;
  shape.num_q_heads = q_heads;
  shape.num_kv_heads = kv_heads;
  shape.max_num_seqs = 8;
  shape.pages_per_seq = 128;
  shape.max_num_batched_tokens = 256;
  shape.num_kv_pages_per_block = blocks.pages;
  shape.num_queries_per_block = blocks.queries;
  return shape;
}

TEST(TpuLimitsSmemTest, TheLargestTableIsExactForEveryWidth) {
  struct Case {
    std::vector<int32_t> pages_per_seq;
    int32_t most;
  };
  const std::vector<Case> cases = {
      {{1, 8, 64, 100, 128}, 2008}, {{129, 200, 256}, 1008}, {{512}, 504},
      {{1000, 1024}, 248},          {{2048}, 120},           {{4096}, 56}};
  for (const TpuGeneration generation : AllTpuGenerations()) {
    const TpuLimits limits(generation);
    for (const Case& c : cases) {
      for (const int32_t columns : c.pages_per_seq) {
        EXPECT_EQ(limits.LargestMaxNumSeqs(columns), c.most) << columns;
        KernelShape shape = Serving(8, 2, {.pages = 1, .queries = 8});
        shape.pages_per_seq = columns;
        shape.max_num_seqs = c.most;
        EXPECT_TRUE(limits.Predict(shape).ok) << columns;
        shape.max_num_seqs = c.most + 1;
        const Verdict verdict = limits.Predict(shape);
        EXPECT_EQ(verdict.failure, LimitClass::kSmem) << columns;
        EXPECT_GT(*verdict.needed_bytes, *verdict.limit_bytes);
      }
    }
  }
}

TEST(TpuLimitsSmemTest, ATableLargerThanTheMemoryIsAnotherClass) {
  KernelShape shape = Serving(8, 2);
  shape.max_num_seqs = 2048;  // 1 MiB exactly
  const TpuLimits limits(TpuGeneration::kV5e);
  EXPECT_EQ(limits.Predict(shape).failure, LimitClass::kSmem);
  shape.max_num_seqs = 2049;
  EXPECT_EQ(limits.Predict(shape).failure, LimitClass::kSmemOneAllocation);
}

TEST(TpuLimitsSmemTest, TheTextOffersRowsAndPages) {
  KernelShape shape = Serving(8, 2);
  shape.max_num_seqs = 512;
  shape.pages_per_seq = 1024;
  EXPECT_THAT(TpuLimits(TpuGeneration::kV6e).Predict(shape).text,
              AllOf(HasSubstr("lower max_num_seqs to 248"),
                    HasSubstr("raise page_size to 64 for the same length of "
                              "16384 tokens")));
}

TEST(TpuLimitsSmemTest, TheSmallestPageSizeFitsAndItsHalfDoesNot) {
  const TpuLimits limits(TpuGeneration::kV6e);
  for (const int32_t rows : {8, 64, 256, 512, 1000, 2000}) {
    for (const int64_t length : {1000, 8192, 32768, 131072, 1000000}) {
      const std::optional<int32_t> size = limits.SmallestPageSize(
          {.max_model_len = length, .max_num_seqs = rows, .at_least = 1});
      ASSERT_TRUE(size.has_value());
      const auto columns = [length](int32_t page_size) {
        return static_cast<int32_t>((length + page_size - 1) / page_size);
      };
      EXPECT_LE(ComputeSmemNeed(rows, columns(*size)).total_bytes,
                SmemBytes(TpuGeneration::kV6e));
      if (*size == 1) continue;
      EXPECT_GT(ComputeSmemNeed(rows, columns(*size / 2)).total_bytes,
                SmemBytes(TpuGeneration::kV6e));
    }
  }
}

TEST(TpuLimitsSmemTest, NoPageSizeHelpsTooManyRows) {
  const TpuLimits limits(TpuGeneration::kV6e);
  EXPECT_EQ(
      limits.SmallestPageSize({.max_model_len = 100, .max_num_seqs = 2009}),
      std::nullopt);
}

TEST(TpuLimitsVmemTest, BuffersAndScratchAreTheCompilersToTheByte) {
  // (32, 8), 128 tokens x 32 queries: two KV blocks of 128 x 16 x 128 bf16,
  // two windows each of 32 x 32 x 128 bf16 queries and outputs, f32 maximum
  // and sum of 8 x 128 x 128, accumulator of 32 x 32 x 128.
  const VmemNeed need = ComputeVmemNeed(TpuGeneration::kV5e, Serving(32, 8));
  EXPECT_EQ(need.kv_buffers_bytes, 1'048'576);
  EXPECT_EQ(need.windows_bytes, 1'048'576);
  EXPECT_EQ(need.scratch_bytes, 1'572'864);
  EXPECT_EQ(need.internal_bytes, 36'864);
}

TEST(TpuLimitsVmemTest, OddHeadsArePaddedToTiles) {
  // Accumulator f32[32,12,128] in tiles of 8 rows is 262,144 bytes, maximum
  // and sum f32[2,192,128] are 196,608 each.
  const VmemNeed need = ComputeVmemNeed(TpuGeneration::kV5e, Serving(12, 2));
  EXPECT_EQ(need.scratch_bytes, 262'144 + 2 * 196'608);
  EXPECT_EQ(need.windows_bytes, 4 * 131'072);
}

TEST(TpuLimitsVmemTest, AGridOfOneStepHasSingleWindows) {
  EXPECT_EQ(ComputeVmemNeed(TpuGeneration::kV5e,
                            Serving(2, 2, {.pages = 1, .queries = 256}))
                .windows_bytes,
            262'144);
  EXPECT_EQ(ComputeVmemNeed(TpuGeneration::kV5e,
                            Serving(2, 2, {.pages = 1, .queries = 128}))
                .windows_bytes,
            262'144);
}

TEST(TpuLimitsVmemTest, OnlyAKernelAloneMayHaveItsQueriesInVmem) {
  KernelShape shape = Serving(12, 2);
  shape.scope = ProgramScope::kKernelAlone;
  EXPECT_EQ(ComputeVmemNeed(TpuGeneration::kV5e, shape).windows_bytes, 0);
  EXPECT_EQ(ComputeVmemNeed(TpuGeneration::kV6e, shape).windows_bytes, 0);
  EXPECT_GT(ComputeVmemNeed(TpuGeneration::kV5p, shape).windows_bytes, 0);
  // A copy of 16 MiB stays in HBM.
  shape.max_num_batched_tokens = 4096;
  EXPECT_GT(ComputeVmemNeed(TpuGeneration::kV5e, shape).windows_bytes, 0);
  // Heads that need no padding are not copied.
  shape = Serving(32, 8);
  shape.scope = ProgramScope::kKernelAlone;
  EXPECT_GT(ComputeVmemNeed(TpuGeneration::kV5e, shape).windows_bytes, 0);
}

// One dump of the compiler (tests/data/tpu_vmem.csv).
struct Dump {
  std::string line;
  TpuGeneration generation = TpuGeneration::kV5e;
  KernelShape shape;
  int64_t declared_bytes = 0;  // buffers, windows, scratch
  int64_t spill_slots = 0;     // of 4 KiB
};

int64_t Number(absl::string_view text) {
  int64_t value = -1;
  EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << text;
  return value;
}

std::vector<Dump> ReadDumps() {
  std::ifstream file(TIDEWHEEL_SOURCE_DIR "/tests/data/tpu_vmem.csv");
  std::string line;
  std::getline(file, line);
  std::vector<Dump> dumps;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, ',');
    EXPECT_EQ(fields.size(), 11) << line;
    if (fields.size() != 11) return {};
    const auto size = [&fields](size_t i) {
      return static_cast<int32_t>(Number(fields[i]));
    };
    Dump dump;
    dump.line = line;
    dump.generation = ParseTpuGeneration(fields[0]).value();
    dump.shape.num_q_heads = size(2);
    dump.shape.num_kv_heads = size(3);
    dump.shape.q_dtype =
        fields[4] == "f32" ? QueryDtype::kF32 : QueryDtype::kBf16;
    dump.shape.kv_dtype =
        ParseKvDtype(fields[5] == "i8" ? "int8" : fields[5]).value();
    dump.shape.max_num_batched_tokens = size(6);
    dump.shape.page_size = 16;
    dump.shape.num_kv_pages_per_block = size(7) / 16;
    dump.shape.pages_per_seq = std::max(128, size(7) / 16);
    dump.shape.num_queries_per_block = size(8);
    dump.shape.scope = ProgramScope::kKernelAlone;
    dump.declared_bytes = Number(fields[9]);
    dump.spill_slots = Number(fields[10]);
    dumps.push_back(dump);
  }
  return dumps;
}

TEST(TpuLimitsVmemTest, DeclaredMemoryIsExactInEveryDump) {
  const std::vector<Dump> dumps = ReadDumps();
  ASSERT_GT(dumps.size(), 400);
  for (const Dump& dump : dumps) {
    const VmemNeed need = ComputeVmemNeed(dump.generation, dump.shape);
    EXPECT_EQ(need.declared_bytes(), dump.declared_bytes) << dump.line;
  }
}

TEST(TpuLimitsVmemTest, ALimitBetweenTheBoundsIsLeftOpen) {
  for (const TpuGeneration generation : AllTpuGenerations()) {
    const TpuLimits limits(generation);
    KernelShape shape = Serving(32, 8);
    const VmemNeed need = ComputeVmemNeed(generation, shape);
    ASSERT_LT(need.least_bytes(), need.total_bytes());
    shape.vmem_limit_bytes = need.total_bytes();
    EXPECT_TRUE(limits.Predict(shape).ok);
    EXPECT_FALSE(limits.Predict(shape).may_compile);
    for (const int64_t limit : {need.total_bytes() - 1, need.least_bytes()}) {
      shape.vmem_limit_bytes = limit;
      const Verdict verdict = limits.Predict(shape);
      EXPECT_FALSE(verdict.ok);
      EXPECT_TRUE(verdict.may_compile);
      EXPECT_THAT(verdict.text, HasSubstr("so it may compile or not"));
    }
    shape.vmem_limit_bytes = need.least_bytes() - 1;
    EXPECT_FALSE(limits.Predict(shape).ok);
    EXPECT_FALSE(limits.Predict(shape).may_compile);
    // Another refusal is certain, whatever vector memory says.
    shape.vmem_limit_bytes = need.least_bytes();
    shape.max_num_seqs = 4096;
    EXPECT_EQ(limits.Predict(shape).failure, LimitClass::kSmemOneAllocation);
    EXPECT_FALSE(limits.Predict(shape).may_compile);
  }
}

// Seen: heads 14,2 f32/bf16, 256 tokens x 32 queries, 128 tokens a batch, with
// the KV write in front, compile with 2 MiB on v5e, below what they declare.
TEST(TpuLimitsVmemTest, WhatMayBeInVmemAlreadyIsNoCertainNeed) {
  KernelShape shape = Serving(14, 2, {.pages = 8, .queries = 32});
  shape.page_size = 32;
  shape.q_dtype = QueryDtype::kF32;
  shape.max_num_batched_tokens = 128;
  shape.vmem_limit_bytes = 2 << 20;
  EXPECT_TRUE(TpuLimits(TpuGeneration::kV5e).Predict(shape).may_compile);
  EXPECT_FALSE(TpuLimits(TpuGeneration::kV5p).Predict(shape).may_compile);
}

TEST(TpuLimitsVmemTest, SpillsAreBoundedInEveryDumpAndMostlyClosely) {
  std::vector<double> ratios;
  for (const Dump& dump : ReadDumps()) {
    const VmemNeed need = ComputeVmemNeed(dump.generation, dump.shape);
    const int64_t spilled = 4096 * dump.spill_slots;
    EXPECT_GE(need.spill_bytes, spilled) << dump.line;
    EXPECT_LE(need.least_spill_bytes, spilled) << dump.line;
    ratios.push_back(static_cast<double>(need.total_bytes()) /
                     static_cast<double>(dump.declared_bytes + spilled));
    // The law of v4 adds what few of its shapes spill.
    const double most = dump.generation == TpuGeneration::kV4 ? 1.9 : 1.7;
    EXPECT_LE(ratios.back(), most) << dump.line;
  }
  ASSERT_GT(ratios.size(), 400);
  std::sort(ratios.begin(), ratios.end());
  EXPECT_LE(ratios[ratios.size() / 2], 1.2);
}

TEST(TpuLimitsVmemTest, PageSizeDoesNotMatterOnlyTokensOfABlock) {
  KernelShape small_pages = Serving(32, 8);
  KernelShape large_pages = Serving(32, 8, {.pages = 1});
  large_pages.page_size = 128;
  EXPECT_EQ(ComputeVmemNeed(TpuGeneration::kV6e, small_pages).total_bytes(),
            ComputeVmemNeed(TpuGeneration::kV6e, large_pages).total_bytes());
}

TEST(TpuLimitsVmemTest, NeedGrowsWithQueriesAndWithTokens) {
  for (const TpuGeneration generation : AllTpuGenerations()) {
    for (const int32_t kv_heads : {1, 2, 4, 8, 16}) {
      for (const int32_t group : {1, 4, 5, 8}) {
        for (int32_t size = 1; size < 100; ++size) {
          const auto total = [&](Blocks blocks) {
            KernelShape shape = Serving(kv_heads * group, kv_heads, blocks);
            // Above any block, so that the grid never becomes one step.
            shape.max_num_batched_tokens = 4096;
            return ComputeVmemNeed(generation, shape).total_bytes();
          };
          ASSERT_LE(total({.pages = size, .queries = 24}),
                    total({.pages = size + 1, .queries = 24}));
          ASSERT_LE(total({.pages = 9, .queries = size}),
                    total({.pages = 9, .queries = size + 1}));
        }
      }
    }
  }
}

TEST(TpuLimitsVmemTest, TheDefaultLimitIsTheGenerations) {
  const KernelShape large = Serving(32, 8, {.pages = 64, .queries = 128});
  const auto verdict = [&large](TpuGeneration generation) {
    return TpuLimits(generation).Predict(large);
  };
  EXPECT_EQ(verdict(TpuGeneration::kV4).failure, LimitClass::kVmem);
  EXPECT_EQ(verdict(TpuGeneration::kV4).limit_bytes, 16 << 20);
  for (const TpuGeneration generation :
       {TpuGeneration::kV5e, TpuGeneration::kV5p}) {
    EXPECT_EQ(verdict(generation).failure, LimitClass::kScopedVmem);
    EXPECT_EQ(verdict(generation).limit_bytes, 16 << 20);
  }
  for (const TpuGeneration generation :
       {TpuGeneration::kV6e, TpuGeneration::kV7x}) {
    EXPECT_EQ(verdict(generation).failure, LimitClass::kScopedVmem);
    EXPECT_EQ(verdict(generation).limit_bytes, 32 << 20);
  }
}

TEST(TpuLimitsVmemTest, ALimitAboveTheChipIsTheChips) {
  KernelShape shape = Serving(32, 8, {.pages = 64, .queries = 128});
  shape.vmem_limit_bytes = int64_t{300} << 20;
  EXPECT_TRUE(TpuLimits(TpuGeneration::kV5e).Predict(shape).ok);
  const Verdict v4 = TpuLimits(TpuGeneration::kV4).Predict(shape);
  EXPECT_EQ(v4.failure, LimitClass::kVmem);
  EXPECT_EQ(v4.limit_bytes, 16 << 20);
}

TEST(TpuLimitsVmemTest, TheTextShowsTheSumAndTheRemedy) {
  const Verdict verdict =
      TpuLimits(TpuGeneration::kV5e)
          .Predict(Serving(32, 8, {.pages = 64, .queries = 128}));
  EXPECT_THAT(verdict.text, AllOf(HasSubstr("KV buffers 8388608"),
                                  HasSubstr("default limit of 16777216 on v5e"),
                                  HasSubstr("raise vmem_limit_bytes to")));
}

TEST(BlockChoiceTest, ItPrefersThirtyTwoQueriesAndHalfAThousandTokens) {
  const BlockChoice choice =
      TpuLimits(TpuGeneration::kV6e).ChooseBlocks(Serving(32, 8)).value();
  EXPECT_EQ(choice.num_kv_pages_per_block, 32);
  EXPECT_EQ(choice.num_queries_per_block, 32);
  EXPECT_THAT(choice.reason, HasSubstr("the preferred size"));
}

TEST(BlockChoiceTest, ASmallLimitGetsSmallBlocksAndSaysSo) {
  KernelShape shape = Serving(32, 8);
  shape.vmem_limit_bytes = 4 << 20;
  const BlockChoice choice =
      TpuLimits(TpuGeneration::kV6e).ChooseBlocks(shape).value();
  EXPECT_LE(choice.need.total_bytes(), 4 << 20);
  EXPECT_THAT(choice.reason, HasSubstr("do not fit"));
}

TEST(BlockChoiceTest, WhatItChoosesIsAccepted) {
  for (const TpuGeneration generation : AllTpuGenerations()) {
    for (const int32_t page_size : {1, 4, 16, 24, 128, 256, 2048}) {
      for (const int32_t columns : {1, 3, 128}) {
        for (const int32_t kv_heads : {1, 2, 8, 16}) {
          for (const int64_t limit_mib : {0, 1, 3, 16, 100}) {
            KernelShape shape = Serving(kv_heads * 4, kv_heads);
            shape.page_size = page_size;
            shape.pages_per_seq = columns;
            if (page_size * columns == 1) continue;  // no block compiles
            if (limit_mib > 0) shape.vmem_limit_bytes = limit_mib << 20;
            const TpuLimits limits(generation);
            const absl::StatusOr<BlockChoice> choice =
                limits.ChooseBlocks(shape);
            if (!choice.ok()) {
              ASSERT_THAT(choice, StatusIs(absl::StatusCode::kResourceExhausted,
                                           HasSubstr("even blocks of")));
              continue;
            }
            shape.num_kv_pages_per_block = choice->num_kv_pages_per_block;
            shape.num_queries_per_block = choice->num_queries_per_block;
            ASSERT_TRUE(limits.Predict(shape).ok) << limits.Predict(shape).text;
          }
        }
      }
    }
  }
}

TEST(BlockChoiceTest, NothingFitsATinyLimit) {
  KernelShape shape = Serving(32, 8);
  shape.vmem_limit_bytes = 1000;
  EXPECT_THAT(TpuLimits(TpuGeneration::kV6e).ChooseBlocks(shape),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("above the limit of 1000 on v6e")));
}

TEST(BlockChoiceTest, BlocksDoNotMendHeads) {
  EXPECT_THAT(TpuLimits(TpuGeneration::kV6e).ChooseBlocks(Serving(12, 6)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_kv_heads 6")));
}

}  // namespace
}  // namespace tidewheel
