// Submission: what a request is refused for before it takes any resource.
//
// A request that could never end well (no room for it even in an empty pool,
// longer than the model allows) is refused when it is submitted, with the
// number that would have to change; what is only busy now is not refused but
// waits. Each refusal carries its kind as a payload, so that callers can count
// and translate it without reading the text.

#ifndef TIDEWHEEL_SCHEDULER_SUBMISSION_H_
#define TIDEWHEEL_SCHEDULER_SUBMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "allocator/page_allocator.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_options.h"

namespace tidewheel {

enum class Refusal {
  kNone,  // the status is not a refusal
  kEmptyPrompt,
  kInvalidOption,  // a field outside its range
  kExceedsModel,   // longer than max_model_len
  kExceedsPool,    // more pages than the pool has
  kExceedsStep,    // prompt above the token budget, chunked prefill off
  kQueueFull,
  kTooManyIsolationKeys,
};

// "empty_prompt", "exceeds_pool", ...
absl::string_view RefusalName(Refusal refusal);
// The kind of a refusal by Scheduler::Submit.
Refusal RefusalOf(const absl::Status& status);
// A status of that kind.
absl::Status RefusalError(Refusal refusal, absl::string_view message);

// How far a request's sequence may grow, prompt included, and what stops it
// there.
struct LengthLimit {
  int32_t max_tokens = 0;
  FinishReason reason = FinishReason::kMaxNewTokens;
};

// The limit of an acceptable request.
//
// P prompt and M generated tokens need slots for P + M - 1, since the last
// token is never fed back.
//
// Errors: a refusal that names value, limit and remedy.
absl::StatusOr<LengthLimit> CheckRequest(const Request& request,
                                         const SchedulerOptions& options,
                                         const PageAllocator& allocator);

}  // namespace tidewheel

#endif  // TIDEWHEEL_SCHEDULER_SUBMISSION_H_
