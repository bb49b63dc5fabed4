// Padding buckets: the sizes that a server compiles ahead, so that no batch
// meets a shape for the first time while it serves.
//
// They are those of tpu-inference and vLLM (runner/utils.py): tokens double
// from the smallest, or grow by a constant gap once they reach it; sequences
// double from 8. The last bucket of tokens is the first that is not below the
// maximum, so max_num_batched_tokens should be one (a maximum of 317 runs
// as 512); the last bucket of sequences is the maximum itself.
//
// Thread-safety: pure functions. They allocate their result.

#ifndef TIDEWHEEL_ATTENTION_PADDING_BUCKETS_H_
#define TIDEWHEEL_ATTENTION_PADDING_BUCKETS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace tidewheel {

struct TokenBucketOptions {
  int32_t max_num_batched_tokens = 0;
  int32_t smallest = 16;
  // Tokens between buckets above this size; absent means doubling
  // throughout. Fewer padded tokens, more compiles.
  std::optional<int32_t> gap = std::nullopt;
};

// Strictly increasing.
//
// Errors: InvalidArgument where a number is not positive or `smallest` or
// `gap` is above 2^30, or where the gap makes more than 4096 buckets;
// OutOfRange where the last bucket would exceed int32_t.
absl::StatusOr<std::vector<int32_t>> TokenBuckets(
    const TokenBucketOptions& options);

// 8, 16, 32, ... and max_num_seqs.
//
// Errors: InvalidArgument if max_num_seqs is not positive.
absl::StatusOr<std::vector<int32_t>> SequenceBuckets(int32_t max_num_seqs);

// The smallest bucket of at least `count`; nothing if none is.
// REQUIRES: buckets increase.
std::optional<int32_t> RoundUpToBucket(std::span<const int32_t> buckets,
                                       int32_t count);

}  // namespace tidewheel

#endif  // TIDEWHEEL_ATTENTION_PADDING_BUCKETS_H_
