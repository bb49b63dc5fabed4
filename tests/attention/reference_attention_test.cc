#include "attention/reference_attention.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/attention/attention_world.h"
#include "tests/status_matchers.h"

namespace tidewheel {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr ScalarType kKvTypes[] = {ScalarType::kFloat32, ScalarType::kBfloat16,
                                   ScalarType::kFloat8E4m3fn,
                                   ScalarType::kFloat8E5m2, ScalarType::kInt8};

std::vector<float> RunReference(AttentionWorld& world) {
  ReferenceAttention reference;
  absl::Status status;
  const std::vector<float> out = world.Run(reference, world.Build(), &status);
  EXPECT_THAT(status, IsOk());
  return out;
}

// The output of token `token` under head `head`.
std::vector<float> HeadOf(const AttentionWorld& world,
                          const std::vector<float>& out, int64_t token,
                          int64_t head) {
  const size_t offset = world.Queries().Offset(token, head);
  return {out.begin() + static_cast<ptrdiff_t>(offset),
          out.begin() + static_cast<ptrdiff_t>(offset) + world.head_dim};
}

// An int32 array that ends at a page of memory that faults.
class GuardedArray {
 public:
  explicit GuardedArray(const std::vector<int32_t>& values)
      : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    const size_t bytes = values.size() * sizeof(int32_t);
    usable_bytes_ = (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
    base_ = static_cast<char*>(mmap(nullptr, usable_bytes_ + page_bytes_,
                                    PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + usable_bytes_, page_bytes_, PROT_NONE), 0);
    char* begin = base_ + usable_bytes_ - bytes;
    std::memcpy(begin, values.data(), bytes);
    span_ = {reinterpret_cast<const int32_t*>(begin), values.size()};
  }
  ~GuardedArray() { munmap(base_, usable_bytes_ + page_bytes_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  std::span<const int32_t> span() const { return span_; }

 private:
  size_t page_bytes_;
  size_t usable_bytes_ = 0;
  char* base_ = nullptr;
  std::span<const int32_t> span_;
};

TEST(ReferenceAttentionTest, OneKeyReturnsItsValueWhateverTheLogit) {
  AttentionWorld world;
  world.AddRow(1, 1);
  world.options.sm_scale = 1e20f;
  const std::vector<float> out = RunReference(world);
  for (int32_t head = 0; head < world.num_q_heads; ++head) {
    const size_t v =
        world.Pages().Offset(world.Entry(0, 0), 0, 2 * (head / 2) + 1);
    for (int32_t d = 0; d < world.head_dim; ++d) {
      EXPECT_EQ(HeadOf(world, out, 0, head)[static_cast<size_t>(d)],
                LoadScalar(world.kv_type, world.kv.data(),
                           v + static_cast<size_t>(d)));
    }
  }
}

TEST(ReferenceAttentionTest, PaddingQueriesAreZero) {
  for (const ScalarType type : {ScalarType::kFloat32, ScalarType::kBfloat16}) {
    AttentionWorld world;
    world.q_type = type;
    world.AddRow(2, 9);
    const std::vector<float> out = RunReference(world);
    const auto padding = out.begin() + 2 * 4 * 8;
    EXPECT_EQ(out.end() - padding, 2 * 4 * 8);
    EXPECT_THAT(std::vector<float>(padding, out.end()), Each(0.0f));
  }
}

// F1: 65,536 pages of 16 tokens with 8 KV heads of 128 have 2^31 K elements.
TEST(ReferenceAttentionTest, OffsetsDoNotWrapAt32Bits) {
  const KvPagesView view = {ScalarType::kBfloat16, nullptr, 70001, 16, 16, 128};
  EXPECT_EQ(view.Offset(65535, 15, 15), 65536ull * 32768 - 128);
  EXPECT_EQ(view.Offset(65536, 0, 0), 65536ull * 32768);
  EXPECT_EQ(view.Offset(70000, 3, 2), 70000ull * 32768 + 3 * 2048 + 256);
  const HeadsView heads = {ScalarType::kFloat32, nullptr, 1 << 20, 128, 128};
  EXPECT_EQ(heads.Offset(1 << 20, 0), 1ull << 34);
}

// F1: only the last page of a 4.6 GB pool is touched.
TEST(ReferenceAttentionTest, LastPageOfAHugePoolIsReadAndWritten) {
  AttentionWorld world;
  world.kv_type = ScalarType::kBfloat16;
  world.num_q_heads = world.num_kv_heads = 8;
  world.head_dim = 128;
  world.page_size = 16;
  world.total_num_pages = 70001;
  world.pages_per_seq = 1;
  world.padding_queries = 0;
  const size_t bytes = world.kv_elements() * 2;
  void* pool = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pool == MAP_FAILED) GTEST_SKIP() << "no address space for " << bytes;

  world.q_lens = world.lens = {1};
  world.table = {70000};
  world.queries = {std::vector<float>(8 * 128, 1.0f)};
  const RaggedBatch batch = world.Build();
  const std::vector<float> ones(8 * 128, 3.0f);
  const HeadsView kv = {ScalarType::kFloat32, ones.data(), 1, 8, 128};
  MutableKvPagesView pages = world.Pages();
  pages.data = pool;
  std::vector<float> out(8 * 128);
  ReferenceAttention reference;
  EXPECT_THAT(reference.WriteKvAndAttend(
                  world.Queries(), kv, kv, pages, batch, world.options,
                  {ScalarType::kFloat32, out.data(), 1, 8, 128}),
              IsOk());
  EXPECT_THAT(out, Each(3.0f));
  EXPECT_EQ(LoadScalar(pages.type, pool, pages.Offset(70000, 0, 15) + 127), 3);
  munmap(pool, bytes);
}

// F7, D3: the table's last row ends at memory that faults.
TEST(ReferenceAttentionTest, NothingPastTheTableIsRead) {
  for (const int32_t pages_per_seq : {1, 3, 4, 5, 17}) {
    AttentionWorld world;
    world.pages_per_seq = pages_per_seq;
    world.total_num_pages = 64;
    world.padding_rows = 0;
    world.AddRow(1, 1);
    world.AddRow(2, 4 * pages_per_seq);
    RaggedBatch batch = world.Build();
    ReferenceAttention reference;
    const std::vector<float> plain = world.Run(reference, batch);
    const GuardedArray table(world.page_indices);
    const GuardedArray kv_lens(world.kv_lens);
    const GuardedArray cu_q_lens(world.cu_q_lens);
    batch.page_indices = table.span();
    batch.kv_lens = kv_lens.span();
    batch.cu_q_lens = cu_q_lens.span();
    EXPECT_FALSE(plain.empty());
    EXPECT_EQ(world.Run(reference, batch), plain);
  }
}

// D3: 64 tokens in 4 pages of 16, and one token more.
TEST(ReferenceAttentionTest, LengthBeyondTheTableIsRefused) {
  AttentionWorld world;
  world.page_size = 16;
  world.pages_per_seq = 4;
  world.AddRow(5, 64);
  EXPECT_FALSE(RunReference(world).empty());
  world.lens[0] = 65;
  ReferenceAttention reference;
  absl::Status status;
  world.Run(reference, world.Build(), &status);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("pages_per_seq=4 must be greater or equal to "
                                 "min_pages_per_seq=Array(5")));
}

// F8: a row of 32 tokens owns a third page already, full of huge values.
TEST(ReferenceAttentionTest, PagesPastKvLenDoNotMatter) {
  AttentionWorld world;
  world.page_size = 16;
  world.AddRow(3, 32);
  const std::vector<float> before = RunReference(world);
  const int32_t extra = world.next_page--;
  world.Entry(0, 2) = extra;
  for (int32_t slot = 0; slot < 16; ++slot) {
    for (int32_t head = 0; head < 4; ++head) {
      for (int32_t d = 0; d < 8; ++d) {
        world.SetSlot(extra, slot, head, d, 1e30f);
      }
    }
  }
  EXPECT_EQ(RunReference(world), before);
}

// F12: lengths 5 and 7 with pages of 4.
TEST(ReferenceAttentionTest, PermutingTheBatchPermutesTheOutput) {
  AttentionWorld world;
  world.AddRow(2, 5);
  world.AddRow(3, 7);
  world.AddRow(1, 16);
  ReferenceAttention reference;
  const std::vector<float> straight =
      world.Run(reference, world.Build({0, 1, 2}));
  const std::vector<float> permuted =
      world.Run(reference, world.Build({2, 0, 1}));
  // Tokens 0-1, 2-4 and 5 become 1-2, 3-5 and 0.
  const int64_t moved[] = {1, 2, 3, 4, 5, 0};
  for (int64_t token = 0; token < 6; ++token) {
    for (int64_t head = 0; head < 4; ++head) {
      EXPECT_EQ(HeadOf(world, straight, token, head),
                HeadOf(world, permuted, moved[token], head));
    }
  }
}

// F12: as many rows as the table has, one more, none.
TEST(ReferenceAttentionTest, RowsAreBetweenOneAndTheTable) {
  AttentionWorld world;
  world.padding_rows = 0;
  for (int i = 0; i < 3; ++i) world.AddRow(1, 2);
  ReferenceAttention reference;
  absl::Status status;
  RaggedBatch batch = world.Build();
  EXPECT_FALSE(world.Run(reference, batch).empty());
  batch.num_seqs = 4;
  world.Run(reference, batch, &status);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("np.int32(4)")));
  batch.num_seqs = 0;
  world.Run(reference, batch, &status);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("num_seqs 0 is below 1")));
}

// G1: valid logits below any sensible mask are still valid logits.
TEST(ReferenceAttentionTest, VeryNegativeLogitsAreAPlainSoftmax) {
  for (const float size : {6e4f, 1e30f}) {
    AttentionWorld world;
    world.num_q_heads = world.num_kv_heads = 1;
    world.head_dim = 1;
    world.AddRow(2, 3);
    world.queries[0] = {-size, -size};
    for (int32_t t = 0; t < 3; ++t) {
      world.SetSlot(world.Entry(0, 0), t, 0, 0, 1.0f);
      world.SetSlot(world.Entry(0, 0), t, 1, 0, static_cast<float>(t));
    }
    const std::vector<float> out = RunReference(world);
    EXPECT_FLOAT_EQ(out[0], 0.5f);  // the mean of 0 and 1
    EXPECT_FLOAT_EQ(out[1], 1.0f);  // the mean of 0, 1 and 2
  }
}

// G1: queries that see no key at all.
TEST(ReferenceAttentionTest, MoreQueriesThanKeysAreRefused) {
  AttentionWorld world;
  world.AddRow(4, 4);
  world.lens[0] = 2;
  ReferenceAttention reference;
  absl::Status status;
  world.Run(reference, world.Build(), &status);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               "q_len=np.int32(4) must be less or equal to "
                               "kv_len=np.int32(2) at sequence 0."));
}

// G2: poison in the unused slots of the last page, in K, in V, in both.
TEST(ReferenceAttentionTest, UnusedSlotsDoNotMatter) {
  AttentionWorld world;
  world.AddRow(4, 13);
  for (const float value : {0.0f, kNan, kInfinity, -kInfinity}) {
    for (const int32_t first_head : {0, 1}) {
      AttentionWorld poisoned = world;
      for (int32_t slot = 1; slot < 4; ++slot) {
        for (int32_t head = first_head; head < 4; head += 2) {
          for (int32_t d = 0; d < 8; ++d) {
            poisoned.SetSlot(poisoned.Entry(0, 3), slot, head, d, value);
          }
        }
      }
      EXPECT_EQ(RunReference(poisoned), RunReference(world));
    }
  }
}

// G4: rows without queries, or without keys too, first, in the middle, last.
TEST(ReferenceAttentionTest, EmptyRowsAreRefusedOrSkipped) {
  AttentionWorld full;
  full.AddRow(2, 5);
  full.AddRow(1, 11);
  const std::vector<float> wanted = RunReference(full);
  for (const int32_t kv_len : {0, 9}) {
    AttentionWorld world = full;
    const int32_t empty = world.AddRow(0, kv_len);
    for (const std::vector<int32_t>& order :
         {std::vector<int32_t>{empty, 0, 1}, {0, empty, 1}, {0, 1, empty}}) {
      ReferenceAttention reference;
      absl::Status status;
      world.options.empty_rows = EmptyRows::kRefuse;
      world.Run(reference, world.Build(order), &status);
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("has q_len 0")));
      world.options.empty_rows = EmptyRows::kSkip;
      EXPECT_EQ(world.Run(reference, world.Build(order), &status), wanted);
    }
  }
}

// G6: one-hot V makes the visible keys readable.
TEST(ReferenceAttentionTest, WindowShowsExactlyItsKeys) {
  constexpr int32_t kKvLen = 19;
  for (const int32_t window : {1, 2, 3, 4, 5, 18, 19, 20, 1 << 30}) {
    for (const float mask_value : {kDefaultMaskValue, -1e20f}) {
      AttentionWorld world;
      world.num_q_heads = world.num_kv_heads = 1;
      world.head_dim = 32;
      world.AddRow(3, kKvLen);
      for (int32_t t = 0; t < kKvLen; ++t) {
        for (int32_t d = 0; d < 32; ++d) {
          world.SetSlot(world.Entry(0, t / 4), t % 4, 1, d, d == t ? 1 : 0);
        }
      }
      world.options.sliding_window = window;
      world.options.mask_value = mask_value;
      const std::vector<float> out = RunReference(world);
      for (int32_t i = 0; i < 3; ++i) {
        const int32_t position = kKvLen - 3 + i;
        for (int32_t key = 0; key < 32; ++key) {
          const float weight = out[static_cast<size_t>(i * 32 + key)];
          const bool visible = key <= position && key > position - window;
          EXPECT_EQ(weight > 0, visible)
              << "window " << window << ", query " << i << ", key " << key;
        }
      }
    }
  }
}

// G7: a window of less than a page in a row of seven; pages left of it are
// released (the null page) and poisoned.
TEST(ReferenceAttentionTest, PagesLeftOfTheWindowAreNotRead) {
  for (const int32_t q_len : {1, 6}) {
    AttentionWorld world;
    world.AddRow(q_len, 27);
    world.options.sliding_window = 3;
    const std::vector<float> before = RunReference(world);
    // The first query is at 27 - q_len and sees keys from two before it.
    const int32_t released = (27 - q_len - 2) / 4;
    EXPECT_GE(released, 4);
    for (int32_t entry = 0; entry < released; ++entry) {
      world.Entry(0, entry) = 0;  // Page 0 holds NaN here.
    }
    EXPECT_EQ(RunReference(world), before);
    world.Entry(0, released) = 0;
    ReferenceAttention reference;
    absl::Status status;
    world.Run(reference, world.Build(), &status);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("row 0 names page 0")));
  }
}

TEST(ReferenceAttentionTest, MaskThatLeaksReadsEveryKey) {
  AttentionWorld world;
  world.AddRow(1, 9);
  world.options.sliding_window = 2;
  const std::vector<float> hidden = RunReference(world);
  world.options.mask_value = -2;
  EXPECT_NE(RunReference(world), hidden);
  world.Entry(0, 0) = 0;  // Left of the window, but read.
  ReferenceAttention reference;
  absl::Status status;
  world.Run(reference, world.Build(), &status);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("row 0 names page 0")));
}

// G9: unequal scales in a prefill, a decode and a chunk over a cached prefix
// give what pages of dequantised values give.
TEST(ReferenceAttentionTest, ScalesActAsDequantisedPages) {
  for (const ScalarType q_type :
       {ScalarType::kFloat32, ScalarType::kBfloat16}) {
    for (const ScalarType kv_type : kKvTypes) {
      AttentionWorld world;
      world.q_type = q_type;
      world.kv_type = kv_type;
      world.AddRow(6, 6);
      world.AddRow(1, 14);
      world.AddRow(3, 11);
      world.options.k_scale = kv_type == ScalarType::kInt8 ? 0.02f : 0.25f;
      world.options.v_scale = kv_type == ScalarType::kInt8 ? 0.03f : 0.5f;
      const std::vector<float> scaled = RunReference(world);

      AttentionWorld plain = world;
      plain.kv_type = q_type;
      plain.kv.assign(plain.kv_elements() * SizeOfScalar(q_type), 0);
      for (size_t i = 0; i < plain.kv_elements(); ++i) {
        const bool is_v = (i / 8) % 2 == 1;
        const float scale =
            is_v ? *world.options.v_scale : *world.options.k_scale;
        StoreScalar(q_type, plain.kv.data(), i,
                    LoadScalar(kv_type, world.kv.data(), i) * scale);
      }
      plain.options.k_scale.reset();
      plain.options.v_scale.reset();
      EXPECT_EQ(RunReference(plain), scaled) << ScalarTypeName(kv_type);
    }
  }
}

// The fused form against writing the pages first.
TEST(ReferenceAttentionTest, FusedFormWritesThenAttends) {
  for (const ScalarType kv_type : kKvTypes) {
    for (const ScalarType given :
         {ScalarType::kFloat32, ScalarType::kBfloat16, kv_type}) {
      AttentionWorld world;
      world.kv_type = kv_type;
      world.AddRow(1, 6);
      world.AddRow(5, 9);
      if (given != kv_type && SizeOfScalar(kv_type) == 1) {
        world.options.k_scale = 0.25f;
        world.options.v_scale = 0.5f;
      }
      const RaggedBatch batch = world.Build();
      const HeadsView q = world.Queries();
      // This step's K and V, token by token; padding rows are NaN.
      std::vector<char> k(static_cast<size_t>(q.num_tokens) * 16 *
                          SizeOfScalar(given));
      std::vector<char> v(k.size());
      for (size_t i = 0; i < k.size() / SizeOfScalar(given); ++i) {
        const bool padding = i >= 6 * 16;
        StoreScalar(given, k.data(), i, padding ? kNan : world.Draw());
        StoreScalar(given, v.data(), i, padding ? kNan : world.Draw());
      }
      AttentionWorld written = world;
      for (int32_t token = 0; token < 6; ++token) {
        const int32_t row = token == 0 ? 0 : 1;
        const int32_t position = token == 0 ? 5 : 4 + (token - 1);
        for (int32_t i = 0; i < 16; ++i) {
          const auto index = static_cast<size_t>(token * 16 + i);
          const float k_value = LoadScalar(given, k.data(), index) /
                                world.options.k_scale.value_or(1);
          const float v_value = LoadScalar(given, v.data(), index) /
                                world.options.v_scale.value_or(1);
          const int32_t page =
              written.Entry(static_cast<size_t>(row), position / 4);
          written.SetSlot(page, position % 4, 2 * (i / 8), i % 8, k_value);
          written.SetSlot(page, position % 4, 2 * (i / 8) + 1, i % 8, v_value);
        }
      }
      std::vector<float> out(q.num_elements(), kNan);
      ReferenceAttention reference;
      ASSERT_THAT(reference.WriteKvAndAttend(
                      q, {given, k.data(), q.num_tokens, 2, 8},
                      {given, v.data(), q.num_tokens, 2, 8}, world.Pages(),
                      batch, world.options,
                      {ScalarType::kFloat32, out.data(), q.num_tokens, 4, 8}),
                  IsOk());
      EXPECT_EQ(world.kv, written.kv) << ScalarTypeName(kv_type);
      EXPECT_EQ(out, RunReference(written)) << ScalarTypeName(kv_type);
    }
  }
}

TEST(ReferenceAttentionTest, FusedWriteClampsWhatEightBitsCannotHold) {
  for (const ScalarType kv_type :
       {ScalarType::kFloat8E4m3fn, ScalarType::kFloat8E5m2,
        ScalarType::kInt8}) {
    AttentionWorld world;
    world.kv_type = kv_type;
    world.num_q_heads = world.num_kv_heads = 1;
    world.padding_queries = 0;
    world.AddRow(1, 1);
    const RaggedBatch batch = world.Build();
    const std::vector<float> huge(8, 1e30f);
    const HeadsView kv = {ScalarType::kFloat32, huge.data(), 1, 1, 8};
    std::vector<float> out(8);
    ReferenceAttention reference;
    ASSERT_THAT(reference.WriteKvAndAttend(
                    world.Queries(), kv, kv, world.Pages(), batch,
                    world.options, {ScalarType::kFloat32, out.data(), 1, 1, 8}),
                IsOk());
    EXPECT_THAT(out, Each(LargestOf(kv_type)));
  }
}

TEST(ReferenceAttentionTest, RefusedCallChangesNothing) {
  AttentionWorld world;
  world.AddRow(1, 5);
  world.AddRow(2, 7);
  world.Entry(1, 1) = world.Entry(0, 1);  // Both rows write this page.
  const RaggedBatch batch = world.Build();
  const HeadsView q = world.Queries();
  const std::vector<char> pages_before = world.kv;
  const std::vector<float> kv(static_cast<size_t>(q.num_tokens) * 16, 1.0f);
  const HeadsView heads = {ScalarType::kFloat32, kv.data(), q.num_tokens, 2, 8};
  std::vector<float> out(q.num_elements(), 42.0f);
  ReferenceAttention reference;
  EXPECT_THAT(reference.WriteKvAndAttend(
                  q, heads, heads, world.Pages(), batch, world.options,
                  {ScalarType::kFloat32, out.data(), q.num_tokens, 4, 8}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is written by rows 0 and 1")));
  EXPECT_EQ(world.kv, pages_before);
  EXPECT_THAT(out, Each(42.0f));
}

TEST(ReferenceAttentionTest, TensorsThatDoNotFitAreNamed) {
  AttentionWorld world;
  world.AddRow(1, 5);
  const RaggedBatch batch = world.Build();
  const HeadsView q = world.Queries();
  const KvPagesView pages = ReadOnly(world.Pages());
  std::vector<float> out(q.num_elements());
  const MutableHeadsView o = {ScalarType::kFloat32, out.data(), q.num_tokens, 4,
                              8};
  ReferenceAttention reference;
  const auto refuses = [&](HeadsView q_view, KvPagesView pages_view,
                           AttentionOptions options, MutableHeadsView out_view,
                           const char* text) {
    EXPECT_THAT(reference.RaggedPagedAttention(q_view, pages_view, batch,
                                               options, out_view),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  HeadsView bad_q = q;
  bad_q.type = ScalarType::kInt8;
  refuses(bad_q, pages, {}, o, "q is int8 and must be float32 or bfloat16");
  bad_q = q;
  bad_q.num_tokens -= 1;
  refuses(bad_q, pages, {}, o, "must have shape [3, 4, 8]");
  KvPagesView bad_pages = pages;
  bad_pages.head_dim = 4;
  refuses(q, bad_pages, {}, o, "Q head_dim 8 must be the same");
  bad_pages = pages;
  bad_pages.num_combined_kv_heads = 6;
  refuses(q, bad_pages, {}, o, "num_q_heads 4 must be a multiple");
  bad_pages = pages;
  bad_pages.total_num_pages = 63;
  refuses(q, bad_pages, {}, o,
          "kv_pages has 63 pages of 4 tokens and the "
          "batch names 64 of 4");
  MutableHeadsView bad_out = o;
  bad_out.type = ScalarType::kBfloat16;
  refuses(q, pages, {}, bad_out, "out is bfloat16 and must have q's type");
  bad_out = o;
  bad_out.data = nullptr;
  refuses(q, pages, {}, bad_out, "without an array");
  refuses(q, pages, {.sliding_window = 0}, o, "sliding_window 0 must be");
  refuses(q, pages, {.soft_cap = -0.0f}, o, "soft_cap");
  refuses(q, pages, {.mask_value = kNan}, o, "mask_value is nan");
  refuses(q, pages, {.k_scale = kInfinity}, o, "k_scale is inf");
}

TEST(ReferenceAttentionDeathTest, WideOutputOfAnotherSizeIsAMisuse) {
  AttentionWorld world;
  world.AddRow(1, 1);
  const RaggedBatch batch = world.Build();
  std::vector<double> out(1);
  ReferenceAttention reference;
  EXPECT_DEATH(
      (void)reference.AttendInDouble(world.Queries(), ReadOnly(world.Pages()),
                                     batch, world.options, out),
      "num_elements");
}

}  // namespace
}  // namespace tidewheel
