// Request: what a user submits, and how it ended.
//
// A request runs as one sequence of tokens: its prompt, then what it
// generates. This header holds what crosses the scheduler's edge; how a
// sequence is kept inside is SequenceStore.

#ifndef TIDEWHEEL_SCHEDULER_REQUEST_H_
#define TIDEWHEEL_SCHEDULER_REQUEST_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "allocator/isolation_roots.h"

namespace tidewheel {

// Names one accepted request for ever; 0 names none.
struct RequestId {
  uint64_t value = 0;

  friend bool operator==(RequestId, RequestId) = default;
};

// A submission. The arrays need to live until Submit returns.
struct Request {
  std::span<const int32_t> prompt;  // token ids, at least one
  // Tokens to generate at most; absent: up to max_model_len, or to what the
  // page pool can hold.
  std::optional<int32_t> max_new_tokens;
  // The end token and the stop tokens do not end the request before this many
  // tokens are generated.
  int32_t min_new_tokens = 0;
  // Generating one of these ends the request; the token is its last one.
  std::optional<int32_t> end_token;
  std::span<const int32_t> stop_tokens;
  // Lower runs first, under the priority policy; ignored by the others.
  int32_t priority = 0;
  // Requests share cached pages only where this agrees.
  IsolationKey isolation;
};

enum class FinishReason : uint8_t {
  kEndToken,
  kStopToken,
  kMaxNewTokens,
  kModelLength,   // max_model_len tokens
  kPoolCapacity,  // as many tokens as the page pool holds
  kCancelled,
  kQueueTimeout,  // waited longer than max_queue_time_us
  kStepFailed,    // its own steps failed max_step_failures times in a row
};

// "end_token", "stop_token", ...
absl::string_view FinishReasonName(FinishReason reason);

// Whether the request generated what it asked for.
inline bool IsCompletion(FinishReason reason) {
  return reason < FinishReason::kCancelled;
}

struct FinishedRequest {
  RequestId id;
  FinishReason reason = FinishReason::kCancelled;
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found at the first admission
  int32_t preemptions = 0;
  int64_t submitted_us = 0;
  int64_t admitted_us = -1;  // first time; -1 if never
};

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_REQUEST_H_
