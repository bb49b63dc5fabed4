#include "attention/tuned_block_sizes.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tidewheel {
namespace {

// The grid of one device, one pair of heads and one page size: cells of
// max_num_batched_tokens 512, 1024, 2048, 4096, and in each of pages_per_seq
// 4, 8, 16. A cell is 'a' + 4 * log2(pages / 4) + log2(queries / 32), or '.'
// where the table has no entry. All are bfloat16 with head_dim 128.
struct TunedRow {
  absl::string_view device;
  int64_t num_q_heads_per_block;
  int64_t num_kv_heads_per_block;
  int64_t page_size;
  absl::string_view cells;
};

// clang-format off
// Printed by tools/golden/print_tuned_blocks.py from JAX 0.10.2.
constexpr TunedRow kTunedRows[] = {
    // TPU v5: 668 entries, 348 can be found.
    {"TPU v5", 4, 1, 16, "afkbekaekabj"},
    {"TPU v5", 4, 1, 32, "bejaejaeibff"},
    {"TPU v5", 4, 1, 64, "beibffbeebbi"},
    {"TPU v5", 4, 1, 128, "beiafiafjaej"},
    {"TPU v5", 4, 1, 256, "aficfjabjafj"},
    {"TPU v5", 4, 2, 16, "beiaaeaeibfj"},
    {"TPU v5", 4, 2, 32, "bfjbfiagjaej"},
    {"TPU v5", 4, 2, 64, "bejafiaejafi"},
    {"TPU v5", 4, 2, 128, "aejafjbfjbfj"},
    {"TPU v5", 4, 2, 256, "bfjafjbffbfj"},
    {"TPU v5", 8, 1, 16, "aaibaecejbfj"},
    {"TPU v5", 8, 1, 32, "aejcfiaejbfi"},
    {"TPU v5", 8, 1, 64, "aeibeiafecei"},
    {"TPU v5", 8, 1, 128, "aeiaeiaeeafi"},
    {"TPU v5", 8, 1, 256, "aeaaeiaeibai"},
    {"TPU v5", 8, 2, 16, "aeiafiaeiafj"},
    {"TPU v5", 8, 2, 32, "aejaejaejafi"},
    {"TPU v5", 8, 2, 64, "aeeaeiaejbee"},
    {"TPU v5", 8, 2, 128, "aeeaeiaeiaei"},
    {"TPU v5", 8, 2, 256, "aeiaaeaaiaej"},
    {"TPU v5", 8, 4, 16, "aeiaaibeiaai"},
    {"TPU v5", 8, 4, 32, "afiaeiaejbei"},
    {"TPU v5", 8, 4, 64, "aejaeiafjaej"},
    {"TPU v5", 8, 4, 128, "bejafjafjafj"},
    {"TPU v5", 8, 4, 256, "bfjbffbfjbff"},
    {"TPU v5", 32, 8, 16, "aeiaeiaeiaei"},
    {"TPU v5", 32, 8, 32, "aeiaeiaeiaei"},
    {"TPU v5", 32, 8, 64, "aeiaeiaeiaei"},
    {"TPU v5", 32, 8, 128, "ae.ae.ae.ae."},
    {"TPU v5", 32, 8, 256, "a..a..a..a.."},
    // TPU v6: 668 entries, 348 can be found.
    {"TPU v6", 4, 1, 16, "bhkbgicgjdgl"},
    {"TPU v6", 4, 1, 32, "bbjagjcfkbgl"},
    {"TPU v6", 4, 1, 64, "agibfjbfkbgk"},
    {"TPU v6", 4, 1, 128, "aeiagfbffcgk"},
    {"TPU v6", 4, 1, 256, "afibbfbfibfj"},
    {"TPU v6", 4, 2, 16, "baibejbfjcgk"},
    {"TPU v6", 4, 2, 32, "bfkbejbfkbgj"},
    {"TPU v6", 4, 2, 64, "bfjcgkbfjcgk"},
    {"TPU v6", 4, 2, 128, "aejbfjcfjcfj"},
    {"TPU v6", 4, 2, 256, "aejbfjbgjbfj"},
    {"TPU v6", 8, 1, 16, "cejbgibffbfj"},
    {"TPU v6", 8, 1, 32, "bejbgicgjcej"},
    {"TPU v6", 8, 1, 64, "bfiaficfecgj"},
    {"TPU v6", 8, 1, 128, "aeibfibfibfi"},
    {"TPU v6", 8, 1, 256, "afeaeiaeibfi"},
    {"TPU v6", 8, 2, 16, "aeibeiafjcfk"},
    {"TPU v6", 8, 2, 32, "beibejaeicfj"},
    {"TPU v6", 8, 2, 64, "aeiafjbejafj"},
    {"TPU v6", 8, 2, 128, "afibfibfiafj"},
    {"TPU v6", 8, 2, 256, "aeiaeibfibfj"},
    {"TPU v6", 8, 4, 16, "agibfjbejbfi"},
    {"TPU v6", 8, 4, 32, "aeibfjbfibgi"},
    {"TPU v6", 8, 4, 64, "bejbeibfibfj"},
    {"TPU v6", 8, 4, 128, "beibfjaejbfj"},
    {"TPU v6", 8, 4, 256, "afjbfjbfjbfj"},
    {"TPU v6", 32, 8, 16, "aeiaaiaeiaei"},
    {"TPU v6", 32, 8, 32, "aeiaeiaeiaei"},
    {"TPU v6", 32, 8, 64, "aeiaeiaeiaej"},
    {"TPU v6", 32, 8, 128, "ae.ae.ae.ae."},
    {"TPU v6", 32, 8, 256, "a..a..a..a.."},
};
// clang-format on

constexpr std::array<int64_t, 4> kTunedTokens = {512, 1024, 2048, 4096};
constexpr std::array<int64_t, 3> kTunedPagesPerSeq = {4, 8, 16};

// Not above 2^62, so that doubling does not overflow.
int64_t NextPowerOfTwo(int64_t x) {
  int64_t power = 1;
  while (power < x && power < int64_t{1} << 62) power *= 2;
  return power;
}

JaxError OldTpuError() {
  return {.exception = "NotImplementedError",
          .message = "TPU version must be 4 or higher."};
}

// get_tpu_version(): -1 where there is no TPU.
JaxResult<int> TpuVersion(absl::string_view device_kind) {
  if (!absl::StrContains(device_kind, "TPU")) return {.value = -1};
  if (device_kind == "TPU7x") return {.value = 7};
  absl::string_view kind = device_kind;
  absl::ConsumeSuffix(&kind, " lite");
  if (kind.empty() || kind.substr(0, kind.size() - 1) != "TPU v") {
    return {.error = JaxError{"AssertionError", std::string(kind)}};
  }
  if (!absl::ascii_isdigit(static_cast<unsigned char>(kind.back()))) {
    return {.error = JaxError{
                "ValueError",
                absl::StrCat("invalid literal for int() with base 10: '",
                             kind.substr(kind.size() - 1), "'")}};
  }
  return {.value = kind.back() - '0'};
}

// get_device_name(): the first two words of the kind.
absl::string_view DeviceName(absl::string_view device_kind) {
  const size_t first = device_kind.find(' ');
  if (first == absl::string_view::npos) return device_kind;
  return device_kind.substr(0, device_kind.find(' ', first + 1));
}

// The cell of `row` for powers of two `tokens` and `length`.
std::optional<BlockSizes> Cell(const TunedRow& row, int64_t tokens,
                               int64_t length) {
  const auto t = std::ranges::find(kTunedTokens, tokens);
  const auto p = std::ranges::find(kTunedPagesPerSeq, length / row.page_size);
  if (t == kTunedTokens.end() || p == kTunedPagesPerSeq.end()) {
    return std::nullopt;
  }
  const auto index =
      static_cast<size_t>((t - kTunedTokens.begin()) *
                              static_cast<ptrdiff_t>(kTunedPagesPerSeq.size()) +
                          (p - kTunedPagesPerSeq.begin()));
  if (row.cells[index] == '.') return std::nullopt;
  const int code = row.cells[index] - 'a';
  return BlockSizes{.num_kv_pages_per_block = int64_t{4} << (code / 4),
                    .num_queries_per_block = int64_t{32} << (code % 4)};
}

std::optional<BlockSizes> FindTuned(const BlockSizesKey& key,
                                    absl::string_view device) {
  if (key.q_dtype != "bfloat16" || key.kv_dtype != "bfloat16" ||
      (key.head_dim + 127) / 128 != 1) {
    return std::nullopt;
  }
  const int64_t q_heads = NextPowerOfTwo(key.num_q_heads_per_block);
  const int64_t kv_heads = NextPowerOfTwo(key.num_kv_heads_per_block);
  const int64_t page_size = NextPowerOfTwo(key.page_size);
  for (const TunedRow& row : kTunedRows) {
    if (row.device != device || row.num_q_heads_per_block != q_heads ||
        row.num_kv_heads_per_block != kv_heads || row.page_size != page_size) {
      continue;
    }
    return Cell(row, NextPowerOfTwo(key.max_num_batched_tokens),
                NextPowerOfTwo(key.page_size * key.pages_per_seq));
  }
  return std::nullopt;
}

}  // namespace

JaxResult<BlockSizes> TunedBlockSizes(const BlockSizesKey& key,
                                      absl::string_view device_kind) {
  const JaxResult<int> version = TpuVersion(device_kind);
  if (version.error.has_value()) return {.error = version.error};
  if (version.value < 4) return {.error = OldTpuError()};
  // next_power_of_2 asserts a positive argument.
  for (const int64_t size :
       {key.num_q_heads_per_block, key.num_kv_heads_per_block, key.page_size,
        key.max_num_batched_tokens, key.pages_per_seq}) {
    if (size <= 0) return {.error = JaxError{"AssertionError", ""}};
  }
  BlockSizes blocks = {.num_kv_pages_per_block = version.value == 4 ? 32 : 128,
                       .num_queries_per_block = 32};
  if (version.value != 4) {
    blocks = FindTuned(key, DeviceName(device_kind)).value_or(blocks);
  }
  return {
      .value = {.num_kv_pages_per_block =
                    std::min(key.pages_per_seq, blocks.num_kv_pages_per_block),
                .num_queries_per_block = std::min(
                    key.max_num_batched_tokens, blocks.num_queries_per_block)}};
}

}  // namespace tidewheel
