#include "attention/padding_buckets.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "allocator/check.h"
#include "allocator/status_macros.h"

namespace tidewheel {
namespace {

constexpr int32_t kSmallestSequenceBucket = 8;

// Each bucket is a compile of seconds; nobody waits for more.
constexpr int32_t kMaxBuckets = 4096;

absl::Status CheckRange(absl::string_view name, int32_t value, int32_t max) {
  if (value >= 1 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("padding buckets: ", name, " ",
                                                 value, " is outside [1, ", max,
                                                 "]; give a positive size"));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> TokenBuckets(
    const TokenBucketOptions& options) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  constexpr int32_t kMaxStep = 1 << 30;
  TIDEWHEEL_RETURN_IF_ERROR(CheckRange("max_num_batched_tokens",
                                       options.max_num_batched_tokens, kMax));
  TIDEWHEEL_RETURN_IF_ERROR(
      CheckRange("smallest bucket", options.smallest, kMaxStep));
  if (options.gap.has_value()) {
    TIDEWHEEL_RETURN_IF_ERROR(CheckRange("gap", *options.gap, kMaxStep));
    if (options.max_num_batched_tokens / *options.gap > kMaxBuckets) {
      return absl::InvalidArgumentError(absl::StrCat(
          "padding buckets: gap ", *options.gap, " makes more than ",
          kMaxBuckets, " buckets below max_num_batched_tokens ",
          options.max_num_batched_tokens, ", each a compile; raise it to ",
          options.max_num_batched_tokens / kMaxBuckets + 1, " or more"));
    }
  }
  std::vector<int32_t> buckets;
  int64_t bucket = options.smallest;
  while (true) {
    if (bucket > kMax) {
      return absl::OutOfRangeError(absl::StrCat(
          "padding buckets: max_num_batched_tokens ",
          options.max_num_batched_tokens, " needs a bucket of ", bucket,
          " tokens, above ", kMax, "; lower it to at most ", buckets.back()));
    }
    buckets.push_back(static_cast<int32_t>(bucket));
    if (bucket >= options.max_num_batched_tokens) return buckets;
    const bool doubles = !options.gap.has_value() || 2 * bucket <= *options.gap;
    bucket += doubles ? bucket : *options.gap;
  }
}

absl::StatusOr<std::vector<int32_t>> SequenceBuckets(int32_t max_num_seqs) {
  TIDEWHEEL_RETURN_IF_ERROR(CheckRange("max_num_seqs", max_num_seqs,
                                       std::numeric_limits<int32_t>::max()));
  std::vector<int32_t> buckets;
  for (int64_t bucket = kSmallestSequenceBucket; bucket < max_num_seqs;
       bucket *= 2) {
    buckets.push_back(static_cast<int32_t>(bucket));
  }
  buckets.push_back(max_num_seqs);
  return buckets;
}

std::optional<int32_t> RoundUpToBucket(std::span<const int32_t> buckets,
                                       int32_t count) {
  TIDEWHEEL_CHECK(std::is_sorted(buckets.begin(), buckets.end()));
  const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), count);
  if (bucket == buckets.end()) return std::nullopt;
  return *bucket;
}

}  // namespace tidewheel
